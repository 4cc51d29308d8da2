// NestBuilder: where the value of an expression is computed, and by which instructions.
#include <algorithm>
#include <limits>
#include <numbers>
#include <ranges>
#include <tuple>

#include "compiler/expression/functions.h"
#include "compiler/loop/nest_builder.h"
#include "compiler/loop/operands.h"
#include "compiler/loop/progression.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

bool is_truth(const Expr& expr) { return expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth; }

bool is_maximum(const Expr& expr) {
  return is_call(expr, "max") || (expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Max);
}

/// A summand -max(...), such as the shift of a log-sum-exp.
bool takes_maximum(const Expr& expr) { return is_call(expr, "neg") && is_maximum(expr->args[0]); }

/// Whether a summand has a minus that is seen: -x, -2*x, -2.
bool is_taken_away(const Expr& expr) {
  if (is_call(expr, "neg")) return true;
  if (is_call(expr, "*")) return std::ranges::any_of(expr->args, is_taken_away);
  return expr->kind == NodeKind::Constant && expr->value < 0;
}

/// The number that keeps a logarithm or a quotient finite where all else cancels: the 1e-12 of log(1 - p + 1e-12).
bool is_epsilon(const Expr& expr) {
  constexpr double kLargest = 1e-3;
  return expr->kind == NodeKind::Constant && std::abs(expr->value) <= kLargest;
}

}  // namespace

// ---- Placing values ----

std::size_t NestBuilder::depth_of(const Affine& affine) const {
  for (std::size_t depth = frames_.size(); depth-- > 1;) {
    if (affine.mentions(frames_[depth].index)) return depth;
  }
  return 0;
}

std::optional<ValueId> NestBuilder::find_value(const Expr& expr, ValueType type) const {
  for (std::size_t depth = frames_.size(); depth-- > 0;) {
    const auto it = frames_[depth].values.find({expr.get(), type});
    if (it != frames_[depth].values.end()) return it->second;
  }
  return std::nullopt;
}

std::size_t NestBuilder::depth_of(const Expr& expr, ValueType type) {
  if (const auto id = find_value(expr, type)) return value_depth_[*id];
  std::size_t depth = 0;
  for (std::size_t d = frames_.size(); d-- > 1 && depth == 0;) {
    if (expr->depends_on(frames_[d].index)) depth = d;
  }
  if (expr->kind == NodeKind::Reduce) return depth;
  for (const Expr& arg : expr->args) depth = std::max(depth, depth_of(arg, argument_type(expr, type, source_)));
  return depth;
}

std::size_t NestBuilder::placed_depth(std::size_t depth) const {
  if (!computes_in_elements_ || depth == 0) return depth;
  const auto lanes = std::ranges::find_if(frames_, [](const Frame& frame) { return frame.traits.vector; });
  return lanes == frames_.end() ? depth : std::max(depth, static_cast<std::size_t>(lanes - frames_.begin()));
}

ValueId NestBuilder::place(Value value, std::size_t depth) {
  depth = placed_depth(depth);
  const auto id = static_cast<ValueId>(program_.values.size());
  program_.values.push_back(std::move(value));
  value_depth_.push_back(depth);
  Block& block = depth == 0 ? program_.body : frames_[depth].block;
  block.push_back(stmt::Let{id});
  return id;
}

ValueId NestBuilder::place_call(const ScalarFunction& f, std::vector<ValueId> args, ValueType type) {
  std::size_t depth = 0;
  bool varying = false;
  for (const ValueId arg : args) {
    depth = std::max(depth, value_depth_[arg]);
    varying |= program_.values[arg].varying;
  }
  auto& calls = frames_[placed_depth(depth)].calls;
  const std::pair key(&f, args);
  if (const auto it = calls.find(key); it != calls.end()) return it->second;
  const ValueType result = f.result == ResultType::Truth ? ValueType::truth : type;
  return calls[key] = place({result, varying, op::Call{&f, std::move(args)}}, depth);
}

ValueId NestBuilder::emit_call(std::string_view name, std::vector<ValueId> args) {
  const ValueType type = program_.values[args.back()].type;
  return place_call(function(name), std::move(args), type);
}

ValueId NestBuilder::emit_operation(Operation operation, ValueType type, bool varying) {
  return place({type, varying, std::move(operation)}, frames_.size() - 1);
}

// ---- Expressions ----

ValueId NestBuilder::emit(const Expr& expr, ValueType type) {
  if (const auto id = find_value(expr, type)) return *id;
  const ValueId id = emit_node(expr, type);
  alive_.push_back(expr);
  frames_[value_depth_[id]].values[{expr.get(), type}] = id;
  return id;
}

std::optional<ValueId> NestBuilder::read_staged(const Expr& expr, ValueType type) {
  for (std::size_t depth = frames_.size(); depth-- > 1;) {
    const Frame& frame = frames_[depth];
    const auto [first, last] = frame.staged.equal_range(expr->shape_hash);
    for (auto candidate = first; candidate != last; ++candidate) {
      const auto& [staged, array] = stages_[candidate->second];
      if (staged.type != type || substitute(staged.expr, {{staged.placeholder, frame.index}}) != expr) continue;
      const bool varying = program_.arrays[array].varying || frame.traits.vector;
      return place({type, varying, op::LoadArray{array, {Affine(frame.variable)}}}, depth);
    }
  }
  return std::nullopt;
}

ValueId NestBuilder::emit_node(const Expr& expr, ValueType type) {
  if (const auto staged = read_staged(expr, type)) return *staged;
  switch (expr->kind) {
    case NodeKind::Constant:
      return place({type, false, op::Constant{expr->value}}, 0);
    case NodeKind::IndexValue:
      return place({type, is_varying(expr->affine), op::Number{resolve(expr->affine)}}, depth_of(expr->affine));
    case NodeKind::Access:
      return emit_access(expr, type);
    case NodeKind::Call:
      return emit_call_node(expr, type);
    case NodeKind::Random: {
      std::vector<Affine> coordinates;
      std::size_t depth = 0;
      for (const Affine& coordinate : expr->subscripts) {
        coordinates.push_back(resolve(coordinate));
        depth = std::max(depth, depth_of(coordinate));
      }
      return place({type, is_varying(expr), op::Random{expr->random, expr->stream, std::move(coordinates)}}, depth);
    }
    case NodeKind::Reduce:
      throw InternalError("a reduction is used before it is computed");
    case NodeKind::LinearAlgebra:
      throw InternalError("linear algebra stands inside an expression; it must be the root of a definition");
  }
  throw InternalError("unknown kind of expression");
}

/// What is known of the indices of the outermost `depth` loops.
void NestBuilder::know_piece(const Range& piece, const Range& whole) {
  const auto around = std::ranges::find(pieces_, whole, &std::pair<Range, Range>::first);
  const Range all = around == pieces_.end() ? whole : around->second;
  pieces_.emplace_back(piece, all);
}

IndexDomain NestBuilder::domain_at(std::size_t depth) const {
  IndexDomain domain({});
  for (const auto& [symbol, range] : known_) domain.add_range(symbol, range);
  for (std::size_t d = 1; d <= depth; ++d) {
    const auto piece = std::ranges::find(pieces_, frames_[d].range, &std::pair<Range, Range>::first);
    domain.add_range(frames_[d].index, piece == pieces_.end() ? frames_[d].range : piece->second);
  }
  return domain;
}

/// A load leaves a loop only where it needs nothing that the loop says: the loop may have no rounds.
ValueId NestBuilder::emit_access(const Expr& access, ValueType type) {
  std::size_t depth = depth_of(access, type);
  const InsideProof proof(source_, Inside::Storage);
  while (depth + 1 < frames_.size() && !proof.holds(access, domain_at(depth))) ++depth;
  return place_load(access, type, depth, {}, std::nullopt);
}

ValueId NestBuilder::emit_guarded_access(const Expr& access, ValueType type, const Expr& condition, ValueId guard) {
  std::size_t depth = std::max(depth_of(access, type), value_depth_[guard]);
  const InsideProof proof(source_, Inside::Storage);
  while (depth + 1 < frames_.size() && !proof.holds(access, domain_at(depth).where(condition, true))) ++depth;
  return place_load(access, type, depth, condition, guard);
}

ValueId NestBuilder::place_load(const Expr& access, ValueType type, std::size_t depth, const Expr& condition,
                                std::optional<ValueId> guard) {
  const auto buffer = buffers_.find(access->tensor);
  if (buffer == buffers_.end()) throw InternalError("no buffer for tensor " + access->tensor);
  op::Load load{buffer->second, {}, guard};
  for (std::uint32_t axis = 0; axis < access->subscripts.size(); ++axis)
    load.subscripts.push_back(emit_subscript(access, buffer->second, axis, condition, guard));
  for (const ValueId id : operands(Operation(load))) depth = std::max(depth, value_depth_[id]);
  const bool varying = is_varying(access) || (guard && program_.values[*guard].varying);
  return place({type, varying, std::move(load)}, depth);
}

/// The subscript in loop variables, or the one value that it is when it depends on values.
Affine NestBuilder::emit_subscript(const Expr& access, BufferId buffer, std::uint32_t axis, const Expr& condition,
                                   std::optional<ValueId> guard) {
  const Affine& subscript = access->subscripts[axis];
  if (!subscript.mentions_value()) return resolve(subscript);
  std::vector<Affine> numbers;  // of the access's arguments, as values of the loop program
  std::size_t depth = std::max(depth_of(subscript), guard ? value_depth_[*guard] : 0);
  bool varying = is_varying(subscript) || (guard && program_.values[*guard].varying);
  for (const Expr& value : access->args) {
    const ValueId id =
        guard ? emit_guarded_access(value, ValueType::index, condition, *guard) : emit(value, ValueType::index);
    numbers.emplace_back(Symbol::value(id));
    depth = std::max(depth, value_depth_[id]);
    varying |= program_.values[id].varying;
  }
  const Affine known =
      subscript.substitute([&](Symbol symbol) { return symbol.is_value() ? &numbers.at(symbol.number()) : nullptr; });
  return Symbol::value(place({ValueType::index, varying, op::Subscript{buffer, axis, resolve(known), guard}}, depth));
}

ValueId NestBuilder::emit_call_node(const Expr& expr, ValueType type) {
  const ValueType inner = argument_type(expr, type, source_);
  if (is_call(expr, "f32") || is_call(expr, "f64")) {
    const ValueId value = emit(expr->args[0], inner);
    return inner == type ? value
                         : place({type, program_.values[value].varying, op::Convert{value}}, value_depth_[value]);
  }
  if (is_call(expr, "+") || is_call(expr, "*")) return emit_chain(expr, type);
  if (is_call(expr, "exp")) {
    if (const auto value = emit_progression(expr, type)) return *value;
  }
  if (is_call(expr, "exp") && (is_call(expr->args[0], "*") || is_call(expr->args[0], "neg"))) {
    // A product is rounded anyway: the factor log2(e) joins the part of it that stays fixed in the loop.
    const Expr exponent = Algebra(source_).scaled(expr->args[0], std::numbers::log2e);
    alive_.push_back(exponent);
    count_factors(exponent);
    return place_call(function("exp2"), {emit(exponent, type)}, type);
  }
  if (is_call(expr, "where")) {
    const ValueId condition = emit_condition(expr->args[0], type);
    // Only what the condition admits may be read.
    if (expr->args[1]->kind == NodeKind::Access && expr->args[2]->is_constant(0)) {
      return emit_guarded_access(expr->args[1], type, expr->args[0], condition);
    }
    return place_call(*expr->function, {condition, emit(expr->args[1], type), emit(expr->args[2], type)}, type);
  }
  if (is_truth(expr)) return emit_condition(expr, type);
  std::vector<ValueId> args;
  for (const Expr& arg : expr->args) args.push_back(emit(arg, inner));
  return place_call(*expr->function, std::move(args), type);
}

ValueId NestBuilder::emit_condition(const Expr& expr, ValueType type) {
  const ValueType inner = argument_type(expr, type, source_);
  std::vector<ValueId> args;
  for (const Expr& arg : expr->args) args.push_back(is_truth(arg) ? emit_condition(arg, type) : emit(arg, inner));
  return place_call(*expr->function, std::move(args), inner);
}

/// A var holds what the round is to find; each round leaves to the next what that is to find.
std::optional<ValueId> NestBuilder::emit_progression(const Expr& exponential, ValueType type) {
  const auto innermost = std::ranges::find_if(frames_.rbegin(), frames_.rend() - 1,
                                              [&](const Frame& frame) { return exponential->depends_on(frame.index); });
  if (innermost == frames_.rend() - 1 || innermost->traits.vector || innermost->traits.parallel) return std::nullopt;
  const auto depth = static_cast<std::size_t>(frames_.rend() - innermost) - 1;
  const auto progression = progression_of(exponential, frames_[depth].index, frames_[depth].range, type, source_);
  if (!progression) return std::nullopt;
  alive_.insert(alive_.end(), {progression->first, progression->factor});
  const ValueId first = emit(progression->first, type);
  const ValueId factor = emit(progression->factor, type);
  const bool varying = program_.values[first].varying || program_.values[factor].varying;
  const VarId var = new_var(type, varying);
  Block& before = depth == 1 ? program_.body : frames_[depth - 1].block;
  before.push_back(stmt::SetVar{var, first});
  const ValueId value = place({type, varying, op::ReadVar{var}}, depth);
  const ValueId next = place({type, varying, op::Call{&function("*"), {value, factor}}}, depth);
  frames_[depth].block.push_back(stmt::SetVar{var, next});
  return value;
}

int NestBuilder::products_with(const Expr& a, const Expr& b) const {
  const auto found = pairs_.find(std::minmax(a.get(), b.get()));
  return found == pairs_.end() ? 0 : found->second;
}

/// Puts factors that many products have in common first, so that products share their beginnings.
void NestBuilder::order_factors(std::span<Operand> factors) const {
  // For each factor that is not placed yet, the smallest number of products that it shares with a placed one.
  std::vector<int> fewest(factors.size(), std::numeric_limits<int>::max());
  for (std::size_t k = 1; k < factors.size(); ++k) {
    for (std::size_t j = k; j < factors.size(); ++j)
      fewest[j] = std::min(fewest[j], products_with(factors[k - 1].expr, factors[j].expr));
    const auto place = static_cast<std::ptrdiff_t>(k);
    const auto next = std::ranges::max_element(fewest.begin() + place, fewest.end()) - fewest.begin();
    std::rotate(factors.begin() + place, factors.begin() + next, factors.begin() + next + 1);
    std::rotate(fewest.begin() + place, fewest.begin() + next, fewest.begin() + next + 1);
  }
}

/// Sums and products associate from the outermost loop inwards, so that what is fixed in a loop is combined before it;
/// of a product, the factors of the innermost loop are multiplied by each other first if more products have these in
/// common than the ones from outside. A maximum is taken away last: that the largest element exceeds it by nothing is
/// then exact in any precision. After a difference comes a small number, which would be lost in what cancels.
ValueId NestBuilder::emit_chain(const Expr& expr, ValueType type) {
  const bool has_difference = is_call(expr, "+") && std::ranges::any_of(expr->args, is_taken_away);
  const auto delay = [&](const Expr& arg) {
    return has_difference && is_epsilon(arg) ? 2 : takes_maximum(arg) ? 1 : 0;
  };
  std::vector<Operand> operands;
  for (const Expr& arg : expr->args) {
    const ValueId id = emit(arg, type);
    const auto popular = popularity_.find(arg.get());
    operands.push_back({id, arg, delay(arg), value_depth_[id], popular == popularity_.end() ? 0 : popular->second});
  }
  std::ranges::stable_sort(operands, [](const Operand& a, const Operand& b) {
    return std::tuple(a.delay, a.depth, -a.popularity) < std::tuple(b.delay, b.depth, -b.popularity);
  });
  const auto chain = [&](std::span<const Operand> links) {
    ValueId result = links.front().id;
    for (const Operand& link : links.subspan(1)) result = place_call(*expr->function, {result, link.id}, type);
    return result;
  };
  if (!is_call(expr, "*")) return chain(operands);
  const std::span all(operands);
  const auto outside =
      static_cast<std::size_t>(std::ranges::find(operands, operands.back().depth, &Operand::depth) - operands.begin());
  const std::span inner = all.subspan(outside);
  order_factors(inner);
  const auto with_inner = [&](const Operand& factor) { return products_with(factor.expr, inner[0].expr); };
  const bool apart = outside > 0 && inner.size() > 1 &&
                     products_with(inner[0].expr, inner[1].expr) >
                         std::ranges::min(all.first(outside) | std::views::transform(with_inner));
  if (!apart) return chain(operands);
  return place_call(*expr->function, {chain(all.first(outside)), chain(inner)}, type);
}

}  // namespace moxie
