#include "ops/network_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/program/scans.h"
#include "ops/model.h"
#include "ops/slice.h"

namespace moxie {
namespace {

using NameSet = std::set<std::string, std::less<>>;

bool is_same(const Definition& a, const Definition& b) {
  return a.name == b.name && a.dtype == b.dtype && a.axes == b.axes && a.body == b.body && a.domain == b.domain &&
         a.scan == b.scan && a.recomputed == b.recomputed;
}

bool reads_any(const Definition& definition, const NameSet& names) {
  bool reads = false;
  visit(definition.body,
        [&](const Expr& e) { reads = reads || (e->kind == NodeKind::Access && names.contains(e->tensor)); });
  return reads;
}

/// The definitions of `part` that cannot stand for those of the same name in `whole`: they differ, or what they read
/// does.
NameSet clashes(const Program& part, const Program& whole) {
  NameSet found;
  std::size_t known = 0;
  do {  // again, as the definitions of a scan read those below them
    known = found.size();
    for (const Definition& definition : part.definitions) {
      const Definition* other = whole.find_definition(definition.name);
      if (other && (!is_same(definition, *other) || reads_any(definition, found))) found.insert(definition.name);
    }
  } while (found.size() > known);
  return found;
}

Program with_prefix(const Program& part, const NameSet& names, const std::string& prefix) {
  TensorNames changed;
  for (const std::string& name : names) changed.emplace(name, prefix + name);
  return renamed(part, changed);
}

template <class Items>
void add_missing(Items& items, const Items& more) {
  for (const auto& item : more) {
    const bool known = std::ranges::any_of(items, [&](const auto& other) { return other.name == item.name; });
    if (!known) items.push_back(item);
  }
}

/// The definitions of `part` that `whole` lacks, in their order, as values that nobody asks for.
void append(Program& whole, const Program& part) {
  add_missing(whole.dims, part.dims);
  add_missing(whole.indices, part.indices);
  const std::uint32_t scans = last_scan(whole);
  for (Definition definition : part.definitions) {
    if (whole.find_definition(definition.name)) continue;
    if (definition.scan) definition.scan->number += scans;
    definition.output = false;
    definition.line = 0;
    whole.definitions.push_back(std::move(definition));
  }
}

void ask_for(Program& model, const std::string& name, OutputRole role) {
  Definition& definition = *model.find_definition(name);
  definition.output = true;
  definition.role = role;
}

void declare_inputs(Program& model, const Network& network) {
  const auto is_renewed = [&](const std::string& name) {
    return std::ranges::any_of(network.renewals, [&](const auto& renewal) { return renewal.second == name; });
  };
  std::vector<InputDecl> inputs;
  for (const InputDecl& input : network.train.inputs) {
    const auto parameter = std::ranges::find(network.parameters, input.name, &Parameter::name);
    inputs.push_back(input);
    if (parameter == network.parameters.end()) continue;
    inputs.back().role = parameter->trainable && !is_renewed(input.name) ? InputRole::Parameter : InputRole::State;
    inputs.back().start = parameter->initialiser;
  }
  model.inputs = std::move(inputs);
}

/// What a state is after a step: as training says, or what it was.
void add_next_values(Program& model, const Network& network) {
  for (const InputDecl& input : model.inputs) {
    if (input.role != InputRole::State) continue;
    Definition next{std::string(kNextPrefix) + input.name, input.dtype, {}, {}, true};
    std::vector<Affine> subscripts;
    for (std::size_t axis = 0; axis < input.shape.size(); ++axis) {
      next.axes.push_back({fmt::format("i{}", axis), input.shape[axis], Range::extent(input.shape[axis])});
      subscripts.emplace_back(Symbol::axis(static_cast<std::uint32_t>(axis)));
    }
    const auto renewal = std::ranges::find(network.renewals, input.name, &std::pair<std::string, std::string>::second);
    next.body = tensor_access(renewal == network.renewals.end() ? input.name : renewal->first, std::move(subscripts));
    next.role = OutputRole::Next;
    model.definitions.push_back(std::move(next));
  }
}

/// The loss of validation, if it is another one.
void add_validation(Program& model, const Program& validate) {
  const NameSet names = clashes(validate, model);
  if (!names.contains("loss")) return;
  const std::string loss(kValidationLoss);
  append(model, renamed(with_prefix(validate, names, "validation."), {{"validation.loss", loss}}));
  ask_for(model, loss, OutputRole::Value);
}

}  // namespace

Program network_model(const Network& network, std::string_view name) {
  NameSet of_prediction = clashes(network.predict, network.train), of_training;
  for (const Definition& definition : network.predict.definitions) {
    if (definition.output && of_prediction.erase(definition.name) > 0) of_training.insert(definition.name);
  }
  const Program train = with_prefix(network.train, of_training, "train.");
  const Program predict = with_prefix(network.predict, of_prediction, "prediction.");
  Program model;
  model.name = name;
  model.precision = train.precision;
  model.default_dtype = train.default_dtype;
  append(model, train);
  declare_inputs(model, network);
  append(model, predict);
  ask_for(model, "loss", OutputRole::Loss);
  if (model.find_definition("kl")) ask_for(model, "kl", OutputRole::Value);
  for (const Definition& prediction : predict.definitions) {
    if (prediction.output) ask_for(model, prediction.name, OutputRole::Prediction);
  }
  add_validation(model, network.validate);
  add_next_values(model, network);
  verify(model);
  return model;
}

}  // namespace moxie
