#include "compiler/schedule/loop_tree.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <set>
#include <variant>

namespace moxie {
namespace {

/// Values of a loop's variable at which loops inside it are counted, where their bounds depend on it: evenly spaced,
/// so that bounds that are affine between them are averaged exactly.
constexpr double kSamples = 8;
/// So many combinations of values are counted: eight of each of three loops. The mean of affine bounds needs one of
/// each.
constexpr double kCombinations = 512;

/// The average of ceil(value / divisor) for values around one that need not be whole.
double rounded_up(double value, double divisor) {
  if (divisor == 1) return value;
  if (value == std::floor(value)) return std::ceil(value / divisor);
  return value / divisor + (divisor - 1) / (2 * divisor);
}

/// Nothing is known of what tensors hold.
bool is_known(const Bound& bound) { return !bound.value.mentions_value(); }

/// The tensors that the values in these bounds are read from.
std::set<BufferId> sources_of(const LoopProgram& program, const std::vector<Bound>& bounds) {
  std::set<BufferId> sources;
  for (const Bound& bound : bounds) {
    for (const auto& [symbol, coefficient] : bound.value.terms()) {
      if (!symbol.is_value()) continue;
      if (const auto* load = std::get_if<op::Load>(&program.values[symbol.number()].operation))
        sources.insert(load->buffer);
    }
  }
  return sources;
}

/// Adds up how often loops run, for sampled values of the variables that move the bounds of others.
class Counting {
 public:
  Counting(const LoopTree& tree, std::vector<CountedLoop>& loops) : tree_(tree), loops_(loops), at_(loops.size(), 0) {
    for (const CountedLoop& loop : loops_) bounds_.push_back(bounds_of(loop));
    inside_.resize(loops_.size());
    for (std::size_t k = loops_.size(); k-- > 0;) {
      std::set<std::size_t>& moving = bounds_[k].moving;
      if (!loops_[k].parent) continue;
      bounds_[*loops_[k].parent].moving.insert(moving.begin(), moving.end());
      inside_[*loops_[k].parent].push_back(k);
    }
  }

  void run() {
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (!loops_[k].parent) count(k, tree_.calls(), 1);
    }
  }

 private:
  /// (constant + sum of terms) / divisor, in variables of loops.
  struct End {
    double constant = 0, divisor = 1;
    std::vector<std::pair<std::size_t, double>> terms;
  };
  struct Bounds {
    std::vector<End> lows, highs;
    bool by_data = false;
    double rows = 0;               // by data of one tensor, its elements
    std::set<std::size_t> moving;  // loops whose variables move these bounds, or those of loops inside
  };

  Bounds bounds_of(const CountedLoop& loop) const {
    Bounds result;
    const auto& [lows, highs] = loop.statement->range;
    for (const Bound& low : lows | std::views::filter(is_known)) result.lows.push_back(end_of(low, loop, result));
    for (const Bound& high : highs | std::views::filter(is_known)) result.highs.push_back(end_of(high, loop, result));
    const bool low = !std::ranges::all_of(lows, is_known), high = !std::ranges::all_of(highs, is_known);
    result.by_data = low || high;
    const std::set<BufferId> sources = sources_of(tree_.program(), highs);
    if (!low || sources.size() != 1 || sources != sources_of(tree_.program(), lows)) return result;
    result.rows = 1;
    for (const Affine& extent : tree_.program().buffers[*sources.begin()].shape) result.rows *= tree_.value(extent);
    return result;
  }

  End end_of(const Bound& bound, const CountedLoop& inside, Bounds& bounds) const {
    End end{static_cast<double>(bound.value.constant()), static_cast<double>(bound.divisor), {}};
    for (const auto& [symbol, coefficient] : bound.value.terms()) {
      if (const auto loop = loop_around(inside, symbol)) {
        end.terms.emplace_back(*loop, static_cast<double>(coefficient));
        bounds.moving.insert(*loop);
      } else {
        end.constant += static_cast<double>(coefficient) * tree_.value(Affine(symbol));
      }
    }
    return end;
  }

  /// Loops that follow each other may have one variable.
  std::optional<std::size_t> loop_around(const CountedLoop& loop, Symbol variable) const {
    auto around = loop.parent;
    while (around && loops_[*around].statement->variable != variable) around = loops_[*around].parent;
    return around;
  }

  double value(const End& end) const {
    double result = end.constant;
    for (const auto& [loop, coefficient] : end.terms) result += coefficient * at_[loop];
    return result;
  }

  /// By how much an end that differs between lanes admits more in one of them than in their middle.
  double lane_surplus(const End& end, double sign) const {
    double result = 0;
    for (const auto& [loop, coefficient] : end.terms) {
      if (loop == lanes_loop_) result = std::max(0.0, coefficient * sign) * (tree_.lanes() - 1) / 2;
    }
    return result;
  }

  double first(const Bounds& bounds) const {
    double result = -std::numeric_limits<double>::infinity();
    for (const End& end : bounds.lows)
      result = std::max(result, rounded_up(value(end) - lane_surplus(end, -1), end.divisor));
    return result;
  }

  double last(const Bounds& bounds) const {
    double result = std::numeric_limits<double>::infinity();
    for (const End& end : bounds.highs)
      result = std::min(result, -rounded_up(-value(end) - lane_surplus(end, 1), end.divisor));
    return result;
  }

  /// Trips between ends that are data. Where both are of one tensor, as in the rows of a sparse matrix, its elements
  /// are taken to divide the whole range; otherwise half of it is the mean of all that may be.
  double trips_of(const Bounds& bounds) const {
    const double whole = std::max(0.0, last(bounds) - first(bounds) + 1);
    if (!bounds.by_data) return whole;
    if (!std::isfinite(whole)) return 1;
    return bounds.rows > 0 ? std::min(whole, std::max(1.0, whole / bounds.rows)) : whole / 2;
  }

  void count(std::size_t k, double weight, double combinations) {
    CountedLoop& counted = loops_[k];
    const bool is_vector = counted.statement->vector;
    const double low = first(bounds_[k]), trips = trips_of(bounds_[k]);
    const double iterations = (is_vector ? std::ceil(trips / tree_.lanes()) : trips) / counted.pieces;
    counted.executions += weight;
    counted.trips += weight * trips / counted.pieces;
    counted.iterations += weight * iterations;
    if (is_vector) lanes_loop_ = k;
    const auto moves = [&](std::size_t inner) { return bounds_[inner].moving.contains(k); };
    for (const std::size_t inner : inside_[k]) {
      if (!moves(inner)) count(inner, weight * iterations, combinations);
    }
    const double most = std::clamp(std::floor(kCombinations / combinations), 1.0, kSamples);
    const double samples = std::clamp(std::ceil(trips), 1.0, most);
    for (int sample = 0; sample < samples && std::ranges::any_of(inside_[k], moves); ++sample) {
      at_[k] = low + (sample + 0.5) * trips / samples - 0.5;
      for (const std::size_t inner : inside_[k]) {
        if (moves(inner)) count(inner, weight * iterations / samples, combinations * samples);
      }
    }
    if (is_vector) lanes_loop_.reset();
  }

  const LoopTree& tree_;
  std::vector<CountedLoop>& loops_;
  std::vector<Bounds> bounds_;
  std::vector<std::vector<std::size_t>> inside_;
  std::vector<double> at_;                 // the variables' values
  std::optional<std::size_t> lanes_loop_;  // the vector loop that is being counted
};

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
  Counting(*this, loops_).run();
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

}  // namespace moxie
