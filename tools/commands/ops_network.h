#pragma once
// moxie ops FAMILY.network: the networks that `moxie train` composes, as model files.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "learn/train_config.h"
#include "tools/commands/option_parser.h"

namespace moxie {

struct NetworkChoice {
  TrainConfig config;
  std::vector<std::int64_t> image;                                // height, width and channels
  std::map<std::string, std::pair<std::string, Option>> options;  // by name: the group and the option
};

/// The options of networks that `moxie train` has, and those that say what it takes from the data.
void add_network_options(OptionParser& parser, NetworkChoice& choice);

struct NetworkName {
  std::string name, summary;  // "gpn.network"
};
const std::vector<NetworkName>& network_names();
bool is_network_name(const std::string& name);

/// The model file. Throws UsageError for options that another network has, and where sizes are missing.
std::string network_text(const std::string& name, NetworkChoice& choice);
/// Throws UsageError if any of the options was given.
void refuse_network_options(const std::string& name, const NetworkChoice& choice);

}  // namespace moxie
