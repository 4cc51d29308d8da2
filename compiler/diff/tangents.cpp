#include "compiler/diff/tangents.h"

#include <algorithm>
#include <map>

#include "compiler/diff/active_tensors.h"
#include "compiler/diff/algebra_tangent.h"
#include "compiler/diff/live_definitions.h"
#include "compiler/diff/safe_reads.h"
#include "compiler/program/scans.h"

namespace moxie {
namespace {

Program without_definitions(Program program) {
  program.definitions.clear();
  return program;
}

class Tangents {
 public:
  /// The tangents of the outputs get these `names`, unless they are taken.
  Tangents(const Program& lifted, const std::vector<std::string>& outputs, const std::vector<std::string>& wrt,
           const std::vector<std::string>& names)
      : source_(lifted), outputs_(outputs), builder_(without_definitions(lifted)), gates_(builder_.program()) {
    for (const Definition& definition : lifted.definitions) builder_.reserve(definition.name);
    for (std::size_t k = 0; k < outputs.size(); ++k) name_tangent(outputs[k], names[k]);
    const ActiveTensors active = active_tensors(lifted, wrt);
    for (const Definition& definition : live_definitions(lifted, outputs)) {
      if (active.contains(definition.name)) name_tangent(definition.name, "tan." + definition.name);
    }
  }

  /// The tangent of the input is an input.
  void add_input(const InputDecl& input) {
    name_tangent(input.name, "tan." + input.name);
    builder_.add_input({names_.at(input.name), input.dtype, input.shape, ValueDomain::Any});
  }

  Program run() {
    for (const std::span<const Definition> group : groups_of(source_)) {
      for (const Definition& member : group) builder_.add_definition(member);
      if (group.front().scan) expect_choices(group);
      for (const Definition& member : group) {
        if (names_.contains(member.name)) add_tangent(member);
      }
    }
    Program result = builder_.take();
    const std::set<std::string> conditional = read_under_conditions(source_);
    for (Definition& definition : result.definitions) {
      if (!source_.find_definition(definition.name)) definition.body = with_safe_reads(result, definition, conditional);
    }
    return result;
  }

 private:
  bool is_output(const Definition& definition) const {
    return std::ranges::find(outputs_, definition.name) != outputs_.end();
  }

  void name_tangent(const std::string& tensor, const std::string& wanted) {
    const auto [entry, is_new] = names_.try_emplace(tensor, builder_.free_name(wanted));
    if (is_new) builder_.reserve(entry->second);
  }

  /// A definition may read later ones of its scan, at earlier steps: these tangents may be zero if any choice is made.
  void expect_choices(std::span<const Definition> members) {
    if (std::ranges::none_of(members, [](const Definition& member) { return chooses_by_value(member.body); })) return;
    for (const Definition& member : members) {
      if (names_.contains(member.name)) gates_.add(names_.at(member.name));
    }
  }

  void add_tangent(const Definition& definition) {
    const AccessTangent tangent_of = [this](const Expr& access) { return of_access(access); };
    const Expr body = definition.body->kind == NodeKind::LinearAlgebra
                          ? algebra_tangent(builder_, definition, tangent_of)
                          : body_tangent(builder_, definition, tangent_of, gates_);
    if (body->is_constant(0) && !is_output(definition) && !definition.scan) {
      names_.erase(definition.name);
      return;
    }
    const std::string& name = names_.at(definition.name);
    const bool output = is_output(definition);
    builder_.add_definition({name, output ? definition.dtype : computed_dtype(definition.dtype), definition.axes, body,
                             output, definition.line, definition.scan, definition.recomputed && !output});
    if (gates_.may_be_zero(body) || is_gated_algebra(definition)) gates_.add(name);
  }

  /// Whether all tangents of the operands may be zero because of a `where`.
  bool is_gated_algebra(const Definition& definition) const {
    return definition.body->kind == NodeKind::LinearAlgebra &&
           std::ranges::all_of(definition.body->args, [&](const Expr& operand) {
             const Expr tangent = of_access(operand);
             return tangent->is_constant(0) || gates_.may_be_zero(tangent);
           });
  }

  Expr of_access(const Expr& access) const {
    const auto named = names_.find(access->tensor);
    return named == names_.end() ? Expr(0) : access_to(named->second, access);
  }

  const Program source_;
  const std::vector<std::string> outputs_;
  ProgramBuilder builder_;
  std::map<std::string, std::string, std::less<>> names_;  // a tensor and its tangent
  Gates gates_;
};

}  // namespace

Program tangents(const Program& program, const std::vector<std::string>& outputs, const std::vector<std::string>& wrt,
                 bool keep_outputs, const std::vector<std::string>& names) {
  check_derivative_names(program, outputs, wrt);
  const std::vector<std::string> inputs = wrt.empty() ? real_inputs(program) : wrt;
  std::vector<std::string> wanted = names;
  for (std::size_t k = wanted.size(); k < outputs.size(); ++k) wanted.push_back("tan." + outputs[k]);
  Tangents forward(prepared_for_derivatives(program, keep_outputs), outputs, inputs, wanted);
  for (const std::string& input : inputs) forward.add_input(*program.find_input(input));
  return forward.run();
}

}  // namespace moxie
