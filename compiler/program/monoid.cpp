#include "compiler/program/monoid.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace moxie {

Monoid::Monoid(std::string monoid_name, std::vector<Component> state_components,
               const std::function<State(const State& left, const State& right)>& combine_states,
               const std::function<Expr(const State&)>& finish_state)
    : name(std::move(monoid_name)), components(std::move(state_components)) {
  combine = combine_states(left(), right());
  if (combine.size() != components.size())
    throw ShapeError("reduction `" + name + "`: combine gives " + std::to_string(combine.size()) +
                     " components, but the state has " + std::to_string(components.size()));
  if (finish_state) finish = finish_state(left());
}

State Monoid::placeholders(const std::string& side) const {
  State state;
  for (const Component& component : components) state.push_back(tensor_access(side + component.name, {}));
  return state;
}

State Monoid::identity() const {
  State state;
  for (const Component& component : components) state.push_back(constant(component.identity));
  return state;
}

State Monoid::combined(const State& left_state, const State& right_state) const {
  std::vector<std::pair<std::string, Expr>> replacement;
  for (std::size_t k = 0; k < components.size(); ++k) {
    replacement.emplace_back("left." + components[k].name, left_state[k]);
    replacement.emplace_back("right." + components[k].name, right_state[k]);
  }
  State state;
  for (const Expr& component : combine) state.push_back(replace_scalars(component, replacement));
  return state;
}

Expr Monoid::finished(const State& state) const {
  std::vector<std::pair<std::string, Expr>> replacement;
  for (std::size_t k = 0; k < components.size(); ++k) replacement.emplace_back("left." + components[k].name, state[k]);
  return replace_scalars(finish, replacement);
}

Monoid Monoid::mirrored() const {
  Monoid result = *this;
  result.combine = combined(right(), left());
  return result;
}

std::optional<std::size_t> Monoid::find(std::string_view component) const {
  const auto found = std::ranges::find(components, component, &Component::name);
  if (found == components.end()) return std::nullopt;
  return static_cast<std::size_t>(found - components.begin());
}

Expr replace_scalars(const Expr& expr, const std::vector<std::pair<std::string, Expr>>& replacement) {
  if (expr->kind == NodeKind::Access && expr->subscripts.empty()) {
    const auto found = std::ranges::find(replacement, expr->tensor, &std::pair<std::string, Expr>::first);
    if (found != replacement.end()) return found->second;
  }
  return map_children(expr, [&](const Expr& child) { return replace_scalars(child, replacement); });
}

}  // namespace moxie
