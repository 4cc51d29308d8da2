#include "tools/commands/ops_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ops/network_model.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

constexpr std::string_view kSuffix = ".network";
constexpr const char* kShape = "Networks: what training takes from the data";

std::string family_of(const std::string& name) { return name.substr(0, name.size() - kSuffix.size()); }

bool is_families_group(std::string_view group) { return group.starts_with("Model: ") && group != option_group::kOwn; }

/// Options of other groups that networks depend on.
bool concerns_network(std::string_view name) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"activation", "sigma", "precision", "task", "frames", "side", "pooling", "vocabulary"});
  return std::ranges::find(kNames, name) != kNames.end();
}

/// Read off the training, and no part of the network.
bool concerns_training(std::string_view name) { return name == "kl-warmup" || name == "mean-warmup"; }

template <class Value>
Option add_field(OptionParser& parser, const std::string& name, Value& value, const char* help) {
  if constexpr (std::is_same_v<Value, bool>)
    return parser.add_flag(fmt::format("--{0},!--no-{0}", name), value, help);
  else
    return parser.add_option("--" + name, value, help).show_default();
}

/// What a data set would say of itself.
Encoding encoding_of(const NetworkChoice& choice) {
  const TrainConfig& config = choice.config;
  Encoding encoding;
  encoding.task = config.task == "regress" ? Task::Regression : Task::Classification;
  const auto extent = [&](std::size_t k) { return static_cast<std::size_t>(choice.image[k]); };
  if (!choice.image.empty()) encoding.image = {extent(0), extent(1), extent(2)};
  if (config.network == "text-cnn") encoding.vocabulary.resize(config.vocabulary);
  if (config.model != "sp-gru") return encoding;
  encoding.task = Task::Regression;
  const std::size_t side = config.side / std::max<std::size_t>(1, config.pooling);
  encoding.image = {side, side, config.frames / 2};
  return encoding;
}

std::vector<std::int64_t> sizes_of(const std::string& name, const NetworkChoice& choice, const Encoding& encoding) {
  const ImageShape& image = encoding.image;
  const auto pixels = static_cast<std::int64_t>(image.height * image.width * image.channels);
  if (choice.config.model == "sp-gru") return {pixels, pixels};
  if (choice.config.layers.size() < 2)
    throw UsageError(fmt::format("{} needs --layers, from the inputs to the outputs: --layers 16,30,15,26", name));
  if (is_convolutional(choice.config) && choice.config.layers.size() > 2)
    throw UsageError(fmt::format("{} has layers of its own: --layers INPUTS,OUTPUTS", choice.config.network));
  return choice.config.layers;
}

void check_options(const std::string& name, const NetworkChoice& choice) {
  const std::string own = "Model: " + choice.config.model;
  for (const auto& [option, of] : choice.options) {
    if (of.second.given() && is_families_group(of.first) && of.first != own)
      throw UsageError(fmt::format("--{} is not for {}", option, name));
  }
  if (!choice.image.empty() && (choice.image.size() != 3 || std::ranges::min(choice.image) < 1))
    throw UsageError("--image is height, width and channels: --image 28,28,1");
}

}  // namespace

void add_network_options(OptionParser& parser, NetworkChoice& choice) {
  const auto keep = [&](const std::string& name, const std::string& group, const Option& option) {
    option.group(group);
    choice.options.emplace(name, std::pair{group, option});
  };
  keep("layers", kShape,
       parser
           .add_option("--layers", choice.config.layers,
                       "inputs, units of the hidden layers, outputs, as in 16,30,15,26")
           .comma_separated());
  keep("image", kShape,
       parser.add_option("--image", choice.image, "networks of images: height, width and channels").comma_separated());
  visit_fields(choice.config, [&](const char* group, const char* name, auto& value, const char* help) {
    if (!concerns_network(name) && (!is_families_group(group) || concerns_training(name))) return;
    const Option option = add_field(parser, name, value, help);
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, std::vector<double>>)
      option.comma_separated();
    keep(name, is_families_group(group) ? group : kShape, option);
  });
}

const std::vector<NetworkName>& network_names() {
  static const std::vector<NetworkName> names = {
      {"gpn.network", "Gaussian process neurons: the model file of what `moxie train gpn` trains."},
      {"mlp.network", "Fixed activations: the model file of what `moxie train mlp` trains."},
      {"probact.network", "Noisy activations: the model file of what `moxie train probact` trains."},
      {"sp-gru.network", "Recurrent, of means and variances: the model file of what `moxie train sp-gru` trains."}};
  return names;
}

bool is_network_name(const std::string& name) {
  return std::ranges::find(network_names(), name, &NetworkName::name) != network_names().end();
}

std::string network_text(const std::string& name, NetworkChoice& choice) {
  choice.config.model = family_of(name);
  check_options(name, choice);
  check(choice.config);
  const Encoding encoding = encoding_of(choice);
  const Network network = make_family_network(choice.config, sizes_of(name, choice, encoding), encoding);
  const auto summary = std::ranges::find(network_names(), name, &NetworkName::name)->summary;
  return fmt::format("# {}\n{}", summary, print(network_model(network, "")));
}

void refuse_network_options(const std::string& name, const NetworkChoice& choice) {
  for (const auto& [option, of] : choice.options) {
    if (of.second.given())
      throw UsageError(fmt::format("--{} is for a network, such as gpn.network, and {} is none", option,
                                   name.empty() ? "the list" : name));
  }
}

}  // namespace moxie
