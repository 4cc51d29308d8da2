#include "compiler/analysis/value_range.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"

namespace moxie {
std::optional<Affine> integer_of(const Program& program, const Expr& expr, std::vector<Expr>& values) {
  if (expr->kind == NodeKind::IndexValue) return expr->affine;
  if (expr->kind == NodeKind::Constant) {
    const auto integer = exact_integer(expr->value);
    return integer ? std::optional(Affine(*integer)) : std::nullopt;
  }
  if (expr->kind == NodeKind::Access && holds_integers(program.dtype_of(expr->tensor))) {
    const auto known = std::ranges::find(values, expr);
    const auto number = static_cast<std::uint32_t>(known - values.begin());
    if (known == values.end()) values.push_back(expr);
    return Affine(Symbol::value(number));
  }
  if (expr->kind != NodeKind::Call || !keeps_integers(*expr->function)) return std::nullopt;
  std::optional<Affine> result;
  for (const Expr& arg : expr->args) {
    const auto operand = integer_of(program, arg, values);
    if (!operand) return std::nullopt;
    if (is_call(expr, "neg")) return -*operand;
    if (!result)
      result = operand;
    else if (is_call(expr, "+"))
      *result += *operand;
    else if (operand->is_constant())
      *result *= operand->constant();
    else if (result->is_constant())
      result = *operand * result->constant();
    else
      return std::nullopt;
  }
  return result;
}

void add_conjuncts(const Expr& condition, std::vector<Expr>& parts) {
  if (!is_call(condition, "and")) return parts.push_back(condition);
  for (const Expr& part : condition->args) add_conjuncts(part, parts);
}

namespace {

/// What a comparison says is not negative, if it is one of integers by size.
std::optional<Affine> nonnegative(const Program& program, const Expr& comparison, std::vector<Expr>& values) {
  const bool rises = is_call(comparison, "<") || is_call(comparison, "<=");
  if (!rises && !is_call(comparison, ">") && !is_call(comparison, ">=")) return std::nullopt;
  const auto left = integer_of(program, comparison->args[0], values);
  const auto right = integer_of(program, comparison->args[1], values);
  if (!left || !right) return std::nullopt;
  const bool strict = is_call(comparison, "<") || is_call(comparison, ">");
  return (rises ? *right - *left : *left - *right) - Affine(strict ? 1 : 0);
}

/// Adds what the condition says to the range, or gives false.
bool bounds_index(const Program& program, const Expr& condition, Symbol index, ValueRange& range) {
  const std::size_t known = range.values.size();
  const auto distance = nonnegative(program, condition, range.values);
  const std::int64_t coefficient = distance ? distance->coefficient(index) : 0;
  const bool fits = (coefficient == 1 || coefficient == -1) && distance->mentions_value() &&
                    std::ranges::none_of(range.values, [&](const Expr& value) { return value->depends_on(index); });
  if (!fits) {
    range.values.resize(known);
    return false;
  }
  if (coefficient == 1)
    range.lows.push_back(Affine(index) - *distance);
  else
    range.highs.push_back(*distance + Affine(index));
  range.bounds.push_back(condition);
  return true;
}

/// Drops conditions that are known to hold.
class Stripper {
 public:
  explicit Stripper(const std::vector<Expr>& known) : known_(known) {}

  Expr run(const Expr& expr) {
    if (const auto done = done_.find(expr.get()); done != done_.end()) return done->second;
    Expr result = map_children(expr, [&](const Expr& child) { return run(child); });
    if (is_call(result, "where")) result = without_known(result);
    kept_.push_back(expr);  // its address must stay its own
    return done_[expr.get()] = result;
  }

 private:
  Expr without_known(const Expr& choice) const {
    std::vector<Expr> parts;
    add_conjuncts(choice->args[0], parts);
    const auto erased =
        std::erase_if(parts, [&](const Expr& part) { return std::ranges::find(known_, part) != known_.end(); });
    if (parts.empty()) return choice->args[1];
    if (erased == 0) return choice;
    const Expr left = parts.size() == 1 ? parts[0] : call("and", std::move(parts));
    return call("where", {left, choice->args[1], choice->args[2]});
  }

  const std::vector<Expr>& known_;
  std::unordered_map<const Node*, Expr> done_;
  std::vector<Expr> kept_;
};

}  // namespace

std::optional<ValueRange> value_range(const Program& program, std::span<const Expr> conditions, Symbol index) {
  ValueRange range;
  for (const Expr& condition : conditions) {
    if (!bounds_index(program, condition, index, range)) range.rest.push_back(condition);
  }
  return range.lows.empty() || range.highs.empty() ? std::nullopt : std::optional(std::move(range));
}

bool compares_with_values(const Program& program, const Expr& condition) {
  std::vector<Expr> values;
  return nonnegative(program, condition, values).has_value() && !values.empty();
}

bool gives_index(const Program& program, const Expr& condition, Symbol index) {
  if (!is_call(condition, "==")) return false;
  std::vector<Expr> values;
  const auto left = integer_of(program, condition->args[0], values);
  const auto right = integer_of(program, condition->args[1], values);
  if (!left || !right) return false;
  const Affine difference = *left - *right;
  const std::int64_t coefficient = difference.coefficient(index);
  return (coefficient == 1 || coefficient == -1) && difference.mentions_value() &&
         std::ranges::none_of(values, [&](const Expr& value) { return value->depends_on(index); });
}

Expr without_conditions(const Expr& expr, const std::vector<Expr>& conditions) {
  return Stripper(conditions).run(expr);
}

namespace {

/// What a search for a position compares, without the conversion around it.
const Expr& compared_value(const Expr& element) {
  return is_call(element, "f32") || is_call(element, "f64") ? element->args[0] : element;
}

/// Whether the positions of a search are those of its index, of which the first one of all is known.
bool is_index_with_first(const OpenedReduce& search) {
  const auto is_one = [](const std::vector<Bound>& bounds) {
    return bounds.size() == 1 && bounds.front().divisor == 1;
  };
  return search.position->kind == NodeKind::IndexValue && search.position->affine == Affine(search.index) &&
         is_one(search.range.lows) && is_one(search.range.highs);
}

/// Whether positions outside of the range are those of no element.
bool is_masked_by(const ValueRange& range, const Expr& position) {
  if (!is_mask(position, neutral_value(ReduceKind::ArgMax))) return false;
  std::vector<Expr> conditions;
  add_conjuncts(position->args[0], conditions);
  return std::ranges::all_of(
      range.bounds, [&](const Expr& bound) { return std::ranges::find(conditions, bound) != conditions.end(); });
}

}  // namespace

std::vector<Expr> ends_by_value(const Program& program, const OpenedReduce& opened) {
  if (!has_integers(program)) return {};
  std::vector<Expr> conditions;
  const auto masks = [](const Expr& e) { return is_call(e, "where") && e->args[2]->kind == NodeKind::Constant; };
  for (Expr rest = compared_value(opened.body); masks(rest); rest = rest->args[1])
    add_conjuncts(rest->args[0], conditions);
  auto range = value_range(program, conditions, opened.index);
  return range ? std::move(range->values) : std::vector<Expr>();
}

bool is_of_data_range(const Expr& expr, Symbol index, const std::vector<Expr>& ends) {
  const auto moves_an_end = [&](Symbol symbol) {
    return std::ranges::any_of(ends, [&](const Expr& end) { return end->depends_on(symbol); });
  };
  return expr->depends_on(index) && std::ranges::any_of(expr->free_symbols, moves_an_end);
}

std::optional<RangedReduce> ranged_reduce(const Program& program, const Expr& reduction) {
  if (reduction->kind != NodeKind::Reduce || reduction->reduce == ReduceKind::LogSumExp) return std::nullopt;
  const auto extremum = extremum_of(reduction->reduce);
  const double neutral = neutral_value(extremum.value_or(reduction->reduce));
  if (!is_mask(extremum ? compared_value(reduction->args[0]) : reduction->args[0], neutral)) return std::nullopt;
  const OpenedReduce opened = open(reduction);
  std::vector<Expr> conditions;
  const Expr& masked = extremum ? compared_value(opened.body) : opened.body;
  for (Expr rest = masked; is_mask(rest, neutral); rest = rest->args[1]) add_conjuncts(rest->args[0], conditions);
  auto range = value_range(program, conditions, opened.index);
  if (!range) return std::nullopt;
  RangedReduce result{std::move(*range), opened.index, {}, opened.position};
  result.body = without_conditions(opened.body, result.range.bounds);
  if (!extremum) return result;
  if (is_masked_by(result.range, opened.position))
    result.position = without_conditions(opened.position, result.range.bounds);
  else if (is_index_with_first(opened))
    result.first = opened.range;
  else
    return std::nullopt;
  return result;
}

bool has_integers(const Program& program) {
  const auto is_integer = [](const auto& tensor) { return holds_integers(tensor.dtype); };
  return std::ranges::any_of(program.inputs, is_integer) || std::ranges::any_of(program.definitions, is_integer);
}

bool has_ranged_reduce(const Program& program, const Expr& expr) {
  if (!has_integers(program)) return false;
  bool found = false;
  visit(expr, [&](const Expr& e) { found = found || ranged_reduce(program, e); });
  return found;
}

}  // namespace moxie
