#include "compiler/diff/differentiate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/diff/algebra_adjoint.h"
#include "compiler/diff/body_adjoint.h"
#include "compiler/diff/chain.h"
#include "compiler/diff/lift_linear_algebra.h"
#include "compiler/diff/open_definition.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

template <class Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

/// Throws unless every wanted name is known and stands once.
void check_names(const Program& program, const std::vector<std::string>& wanted, const std::vector<std::string>& known,
                 const char* what) {
  for (const std::string& name : wanted) {
    if (std::ranges::find(known, name) == known.end()) {
      throw TypeError(fmt::format("cannot differentiate program {}: it has no {} '{}'; it has {}", program.name, what,
                                  name, fmt::join(known, ", ")));
    }
    if (std::ranges::count(wanted, name) > 1) {
      throw TypeError(
          fmt::format("cannot differentiate program {}: {} '{}' is asked for twice", program.name, what, name));
    }
  }
}

ActiveTensors active_tensors(const Program& program, const std::vector<std::string>& wrt) {
  ActiveTensors active(wrt.begin(), wrt.end());
  for (const Definition& definition : program.definitions) {
    bool depends = false;
    visit(definition.body, [&](const Expr& node) {
      depends = depends || (node->kind == NodeKind::Access && active.contains(node->tensor));
    });
    if (depends) active.insert(definition.name);
  }
  return active;
}

class Differentiation {
 public:
  Differentiation(const Program& lifted, const std::vector<std::string>& outputs, const std::vector<std::string>& wrt)
      : builder_(lifted), source_(lifted), wrt_(wrt), active_(active_tensors(lifted, wrt)) {
    for (const std::string& output : outputs) {
      const std::string name = builder_.free_name("cot." + output);
      builder_.add_input({name, lifted.dtype_of(output), lifted.shape_of(output), SignDomain::Any});
      cotangents_.emplace(output, name);
    }
    for (const std::string& input : wrt) {
      gradients_.emplace(input, builder_.free_name("grad." + input));
      builder_.reserve(gradients_.at(input));
    }
  }

  Program run() {
    for (auto definition = source_.definitions.rbegin(); definition != source_.definitions.rend(); ++definition) {
      if (active_.contains(definition->name)) pass(*definition);
    }
    for (const std::string& input : wrt_) add_gradient(*source_.find_input(input));
    return builder_.take();
  }

 private:
  Expr total_adjoint(const Definition& definition) const {
    const auto cotangent = cotangents_.find(definition.name);
    const Expr from_caller =
        cotangent == cotangents_.end() ? Expr(0) : access(cotangent->second, own_axes(definition.axes.size()));
    return accumulate(from_caller, contributions_.to(definition.name));
  }

  void pass(const Definition& definition) {
    Expr adjoint = total_adjoint(definition);
    if (adjoint->is_constant(0)) return;
    if (adjoint->kind != NodeKind::Access) {
      const Definition named{builder_.free_name("adj." + definition.name),
                             definition.dtype,
                             definition.axes,
                             adjoint,
                             false,
                             definition.line};
      adjoint = access(named.name, own_axes(definition.axes.size()));
      builder_.add_definition(named);
    }
    if (definition.body->kind == NodeKind::LinearAlgebra)
      differentiate_algebra(builder_, definition, adjoint, contributions_);
    else
      differentiate_body(builder_, definition, adjoint, active_, contributions_);
  }

  void add_gradient(const InputDecl& input) {
    builder_.add_definition({gradients_.at(input.name), input.dtype, builder_.axes_for(input.shape),
                             contributions_.to(input.name), true, 0});
  }

  ProgramBuilder builder_;
  const Program source_;
  const std::vector<std::string> wrt_;
  const ActiveTensors active_;
  std::map<std::string, std::string> cotangents_, gradients_;
  Contributions contributions_;
};

}  // namespace

Program differentiate(const Program& program, const std::vector<std::string>& outputs,
                      const std::vector<std::string>& wrt, bool keep_outputs) {
  check_names(program, outputs, names_of(program.definitions), "definition");
  check_names(program, wrt, names_of(program.inputs), "input");
  Program lifted = lift_linear_algebra(program);
  for (Definition& definition : lifted.definitions) definition.output = definition.output && keep_outputs;
  return Differentiation(lifted, outputs, wrt.empty() ? names_of(program.inputs) : wrt).run();
}

}  // namespace moxie
