// moxie ops: the built-in formulas.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ops/catalogue.h"
#include "tools/commands/command.h"
#include "tools/commands/ops_network.h"

namespace moxie {
namespace {

struct OpsOptions {
  std::string name;
  bool json = false;
  NetworkChoice network;
};

void print_table() {
  std::size_t width = 0;
  for (const Op& op : catalogue()) width = std::max(width, op.name.size());
  for (const Op& op : catalogue()) fmt::print("{:{}}  {}\n", op.name, width, op.summary);
  for (const NetworkName& network : network_names()) fmt::print("{:{}}  {}\n", network.name, width, network.summary);
}

nlohmann::json describe(const Op& op) {
  const Program program = load_op(op.name);
  nlohmann::json inputs = nlohmann::json::array(), outputs = nlohmann::json::array();
  for (const InputDecl& input : program.inputs) inputs.push_back(input.name);
  for (const Definition& definition : program.definitions) {
    if (definition.output) outputs.push_back(definition.name);
  }
  return {{"name", op.name},
          {"summary", op.summary},
          {"equations", op.equations},
          {"inputs", inputs},
          {"outputs", outputs}};
}

int list(OpsOptions& options) {
  if (is_network_name(options.name) && !options.json) {
    fmt::print("{}", network_text(options.name, options.network));
    return 0;
  }
  refuse_network_options(options.name, options.network);
  if (!options.name.empty()) {
    const Op& op = get_op(options.name);
    if (options.json)
      fmt::print("{}\n", describe(op).dump(1));
    else
      fmt::print("{}", op.text);
  } else if (options.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Op& op : catalogue()) all.push_back(describe(op));
    fmt::print("{}\n", all.dump(1));
  } else {
    print_table();
  }
  return 0;
}

}  // namespace

Work add_ops(OptionParser& parser) {
  auto options = std::make_shared<OpsOptions>();
  parser.add_option("op", options->name, "print this formula, or this network, as .mox text");
  parser.add_flag("--json", options->json, "names, summaries, inputs and outputs as JSON");
  add_network_options(parser, options->network);
  parser.set_footer(
      "gpn.network, mlp.network, probact.network and sp-gru.network are the networks that `moxie train` composes, as "
      "model files:\n"
      "  moxie ops gpn.network --layers 16,30,15,26 > my.mox\n"
      "  moxie train my.mox --data letter\n");
  return [options] { return list(*options); };
}

}  // namespace moxie
