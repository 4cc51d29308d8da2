#include "compiler/schedule/loop_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <variant>

namespace moxie {
namespace {

/// Values of a loop's variable at which loops inside it are counted, where their bounds depend on it: evenly spaced,
/// so that bounds that are affine between them are averaged exactly.
constexpr double kSamples = 8;

/// The average of ceil(value / divisor) for values around one that need not be whole.
double rounded_up(double value, double divisor) {
  if (divisor == 1) return value;
  if (value == std::floor(value)) return std::ceil(value / divisor);
  return value / divisor + (divisor - 1) / (2 * divisor);
}

/// Nothing is known of what tensors hold.
bool is_known(const Bound& bound) { return !bound.value.mentions_value(); }

}  // namespace

LoopTree::LoopTree(const LoweredKernel& kernel, const DimValues& dims, const PieceCounts& pieces, int lanes)
    : program_(kernel.program), kernel_(kernel), pieces_(pieces), lanes_(lanes) {
  const auto set_split = [&](const std::optional<SplitLoop>& loop) {
    if (!loop) return;
    set(Symbol::dim(loop->low_argument), 0);
    set(Symbol::dim(loop->high_argument), static_cast<double>(extent_of(*loop, dims)));
  };
  for (const std::string& name : program_.arguments) set(Symbol::dim(name), 0);
  for (const auto& [name, value] : dims) set(Symbol::dim(name), static_cast<double>(value));
  set(Symbol::dim(argument::kChunks), static_cast<double>(pieces.chunks));
  set_split(kernel.tiles);
  set_split(kernel.chunks);
  collect(program_.body, std::nullopt);
  count(program_.body, calls());
  for (CountedLoop& loop : loops_) {  // totals become averages
    if (loop.executions > 0) loop.trips /= loop.executions;
    if (loop.executions > 0) loop.iterations /= loop.executions;
  }
}

void LoopTree::collect(const Block& block, std::optional<std::size_t> parent) {
  for (const Statement& statement : block) {
    const auto* loop = std::get_if<stmt::For>(&statement);
    if (!loop) continue;
    const std::size_t index = loops_.size();
    indices_[loop] = index;
    loops_.push_back({loop, parent, 0, 0, 0, pieces_of(*loop)});
    for (const auto* bounds : {&loop->range.lows, &loop->range.highs}) {
      for (const Bound& bound : *bounds) {
        for (const auto& term : bound.value.terms()) shaping_.push_back(term.first);
      }
    }
    collect(loop->body, index);
  }
}

double LoopTree::pieces_of(const stmt::For& loop) const {
  const auto is_split = [&](const std::optional<SplitLoop>& split) {
    return split && std::ranges::any_of(loop.range.lows, [&](const Bound& bound) {
             return bound.value.mentions(Symbol::dim(split->low_argument));
           });
  };
  if (is_split(kernel_.tiles)) return static_cast<double>(pieces_.tiles);
  return is_split(kernel_.chunks) ? static_cast<double>(pieces_.chunks) : 1;
}

void LoopTree::set(Symbol symbol, double value) {
  const auto known = std::ranges::find(symbols_, symbol, &std::pair<Symbol, double>::first);
  if (known == symbols_.end())
    symbols_.emplace_back(symbol, value);
  else
    known->second = value;
}

double LoopTree::value(const Affine& affine) const {
  auto result = static_cast<double>(affine.constant());
  for (const auto& [symbol, coefficient] : affine.terms()) {
    const auto known = std::ranges::find(symbols_, symbol, &std::pair<Symbol, double>::first);
    if (known == symbols_.end()) return static_cast<double>(evaluate(Affine(symbol), {}));  // throws: no such dim
    result += static_cast<double>(coefficient) * known->second;
  }
  return result;
}

/// By how much a bound that differs between lanes admits more in one of them than in their middle.
double LoopTree::lane_surplus(const Affine& bound, int sign) const {
  if (!lanes_variable_) return 0;
  const auto step = static_cast<double>(bound.coefficient(*lanes_variable_) * sign);
  return std::max(0.0, step) * (lanes_ - 1) / 2;
}

double LoopTree::first(const Range& range) const {
  double result = -std::numeric_limits<double>::infinity();
  for (const Bound& bound : range.lows | std::views::filter(is_known))
    result = std::max(
        result, rounded_up(value(bound.value) - lane_surplus(bound.value, -1), static_cast<double>(bound.divisor)));
  return result;
}

double LoopTree::last(const Range& range) const {
  double result = std::numeric_limits<double>::infinity();
  for (const Bound& bound : range.highs | std::views::filter(is_known))
    result = std::min(
        result, -rounded_up(-value(bound.value) - lane_surplus(bound.value, 1), static_cast<double>(bound.divisor)));
  return result;
}

/// The tensors that the values in these bounds are read from.
std::set<BufferId> LoopTree::sources_of(const std::vector<Bound>& bounds) const {
  std::set<BufferId> sources;
  for (const Bound& bound : bounds) {
    for (const auto& [symbol, coefficient] : bound.value.terms()) {
      if (!symbol.is_value()) continue;
      if (const auto* load = std::get_if<op::Load>(&program_.values[symbol.number()].operation))
        sources.insert(load->buffer);
    }
  }
  return sources;
}

double LoopTree::elements_of(BufferId buffer) const {
  double elements = 1;
  for (const Affine& extent : program_.buffers[buffer].shape) elements *= value(extent);
  return elements;
}

/// Trips between ends that are data. Where both are of one tensor, as in the rows of a sparse matrix, its elements are
/// taken to divide the whole range; otherwise half of it is the mean of all that may be.
double LoopTree::trips_of(const Range& range) const {
  const double whole = std::max(0.0, last(range) - first(range) + 1);
  const bool low = !std::ranges::all_of(range.lows, is_known), high = !std::ranges::all_of(range.highs, is_known);
  if (!low && !high) return whole;
  if (!std::isfinite(whole)) return 1;
  const std::set<BufferId> sources = sources_of(range.highs);
  if (low && sources.size() == 1 && sources == sources_of(range.lows))
    return std::min(whole, std::max(1.0, whole / elements_of(*sources.begin())));
  return whole / 2;
}

void LoopTree::count(const Block& block, double weight) {
  for (const Statement& statement : block) {
    if (const auto* loop = std::get_if<stmt::For>(&statement)) count(*loop, weight);
  }
}

void LoopTree::count(const stmt::For& loop, double weight) {
  CountedLoop& counted = loops_[indices_.at(&loop)];
  const double low = first(loop.range), trips = trips_of(loop.range);
  const double iterations = (loop.vector ? std::ceil(trips / lanes_) : trips) / counted.pieces;
  counted.executions += weight;
  counted.trips += weight * trips / counted.pieces;
  counted.iterations += weight * iterations;
  const bool shapes = std::ranges::find(shaping_, loop.variable) != shaping_.end();
  if (loop.vector) lanes_variable_ = loop.variable;
  const double samples = shapes ? std::clamp(std::ceil(trips), 1.0, kSamples) : 1;
  for (int k = 0; k < samples; ++k) {
    set(loop.variable, low + (k + 0.5) * trips / samples - 0.5);
    count(loop.body, weight * iterations / samples);
  }
  if (loop.vector) lanes_variable_.reset();
}

}  // namespace moxie
