#include "compiler/loop/lower_scatter.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "compiler/expression/reductions.h"
#include "compiler/loop/lower.h"
#include "compiler/program/integer_element.h"
#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// Whether the expression has sums of many elements that lie next to each other, which are as fast as they can be in
/// lanes.
bool sums_along_rows(const Expr& expr) {
  constexpr std::int64_t kFewest = 16;  // the lanes of most processors
  bool found = false;
  visit(expr, [&](const Expr& e) {
    if (e->kind != NodeKind::Reduce) return;
    const auto trips = e->range.known_trip_count();
    if (!trips || (trips->is_constant() && trips->constant() < kFewest)) return;
    const Symbol index = Symbol::bound(e->height);
    visit(e->args[0], [&](const Expr& read) {
      const bool is_row = read->kind == NodeKind::Access && !read->subscripts.empty() &&
                          read->subscripts.back().coefficient(index) == 1;
      found = found || is_row;
    });
  });
  return found;
}

class ScatterLowering {
 public:
  ScatterLowering(NestBuilder& nest, const KernelRoot& root, BufferId out, const Scatter& sum,
                  const ScatterLoops& loops)
      : nest_(nest),
        root_(root),
        out_(out),
        sum_(sum),
        loops_(loops),
        type_(value_type(root.definition.dtype)),
        term_(sum.term) {}

  void run() {
    if (sums_along_rows(term_)) nest_.reduce_in_lanes(1);
    set_to_neutral();
    add_terms();
  }

 private:
  void open(const LoopIndex& loop, const std::string& comment = {}) {
    nest_.open_loop(loop.symbol, loop.range, loop.name, {.parallel = true, .comment = comment});
  }

  /// Innermost, so that what settles the element is read once for all lanes, and rows are passed as they lie.
  void in_lanes(const std::function<void()>& build) {
    if (loops_.vector)
      nest_.open_loop(loops_.vector->symbol, loops_.vector->range, loops_.vector->name,
                      {.vector = loops_.lanes, .parallel = !loops_.lanes});
    build();
    if (loops_.vector) nest_.close_loop();
  }

  void set_to_neutral() {
    const ValueId neutral =
        sum_.rival ? nest_.emit(first_position(sum_.loops[0].range), type_) : nest_.neutral(sum_.kind, type_);
    open(loops_.rows, (sum_.kind == ReduceKind::Sum ? "sums start: " : "extrema start: ") + cite(root_.definition));
    for (const LoopIndex& loop : loops_.others) open(loop);
    in_lanes([&] {
      std::vector<Affine> element;
      for (const Affine& subscript : root_.subscripts) element.push_back(nest_.resolve(subscript));
      nest_.append(stmt::Store{out_, std::move(element), neutral});
    });
    for (std::size_t k = 0; k <= loops_.others.size(); ++k) nest_.close_loop();
  }

  /// The loops up to the one that settles which element a term goes to, then, if that is one of this call's, the
  /// others.
  void add_terms() {
    const std::vector<LoopIndex> inside = loops_inside();
    for (const LoopIndex& loop : loops_.others) {
      const bool is_inside = std::ranges::find(inside, loop.symbol, &LoopIndex::symbol) != inside.end();
      if (!sum_.goes_along(loop.symbol) && !is_inside) open_counted(loop.symbol, loop.range, true);
    }
    for (const OpenedReduce& loop : sum_.loops) open_term_loop(loop);
    if (sum_.span) {
      open_span(*sum_.span);
      open_inside(inside, term_);
      in_lanes([&] { add_to_span(); });
    } else {
      const std::vector<Affine> written = open_once();
      open_inside(inside, substitute(term_, in_once()));
      in_lanes([&] { add_term(written); });
    }
    for (; opened_ > 0; --opened_) nest_.close_loop();
  }

  /// Those of the further axes that change nothing about where terms go, and along which a term has sums in common.
  /// Without these, rows that stay in the nearest cache while all terms are added are faster: the gradient of bilinear
  /// upsampling took twice as long.
  std::vector<LoopIndex> loops_inside() const {
    std::vector<LoopIndex> inside;
    std::vector<LoopIndex> outside;
    for (auto loop = loops_.others.rbegin(); loop != loops_.others.rend(); ++loop) {
      const auto moves = [&](const LoopIndex& other) { return mentions(other.range, loop->symbol); };
      if (sum_.goes_along(loop->symbol)) continue;
      const bool is_inside =
          !sum_.moves_terms(loop->symbol) && sum_.has_common_sums(loop->symbol) && std::ranges::none_of(outside, moves);
      (is_inside ? inside : outside).push_back(*loop);
    }
    std::ranges::reverse(inside);
    return inside;
  }

  /// Opens the loops, the outermost first. Before each of them, and before the lanes, the sums are formed that do not
  /// depend on its index: else the gradient of attention by values of 64 features forms every product of a query and a
  /// key 64 times.
  void open_inside(const std::vector<LoopIndex>& loops, const Expr& term) {
    std::vector<LoopIndex> waiting = loops;
    if (loops_.vector) waiting.push_back(*loops_.vector);
    for (; !waiting.empty(); waiting.erase(waiting.begin())) {
      nest_.reduce_before_loops(
          Work{Work::Target::Buffer, out_, {}, std::nullopt, type_, term, waiting, cite(root_.definition)});
      if (waiting.size() > 1 || !loops_.vector) open_counted(waiting.front().symbol, waiting.front().range, true);
    }
  }

  void open_counted(Symbol index, const Range& range, bool parallel) {
    nest_.open_loop(index, range, {}, {.parallel = parallel, .comment = opened_ == 0 ? cite(root_.definition) : ""});
    ++opened_;
  }

  /// Opens a loop of the sum. Where a range by data bounds its index, it runs through that range alone.
  void open_term_loop(const OpenedReduce& loop) {
    Range range = loop.range;
    const auto by_data = std::ranges::find(sum_.ranges, loop.index, &std::pair<Symbol, ValueRange>::first);
    if (by_data != sum_.ranges.end() && nest_.may_bound(by_data->second)) {
      range = nest_.with_values(std::move(range), by_data->second);
      term_ = without_conditions(term_, by_data->second.bounds);
    }
    open_counted(loop.index, range, false);
  }

  Expr combined(const Expr& held, const Expr& term) const {
    return sum_.kind == ReduceKind::Sum ? held + term : call(to_string(sum_.kind), {held, term});
  }

  /// The position that stands for both: combine() of reductions.h, of which the one that is held is the smaller.
  Expr better_position(const Expr& held, const Expr& position, const Expr& term, const Replacement& here) const {
    const auto rival =
        substitute_element(substitute(sum_.rival->element, here), sum_.rival->position, {Symbol::value(0), {held}});
    if (!rival) throw InternalError("a position cannot be read where a search compares it");
    const bool largest = sum_.kind == ReduceKind::ArgMax;
    const Expr is_better = call("not", {call(largest ? ">=" : "<=", {guarded(*rival), term})});
    const Expr is_number = call("==", {guarded(*rival), guarded(*rival)});
    return call("where", {call("and", {is_better, is_number}), position, held});
  }

  Expr guarded(const Expr& term) const {
    std::optional<AtStep> at;
    if (root_.definition.scan) at = {*root_.definition.scan, Symbol::dim(kScanStep)};
    return nest_.guarded(term, std::move(at));
  }

  std::vector<Affine> emit_values() {
    std::vector<Affine> values;
    for (const Expr& value : sum_.values)
      values.emplace_back(Symbol::value(nest_.emit(guarded_value(value), ValueType::index)));
    return values;
  }

  /// Where conditions say that a term does not count, the value that names its element need not be there. Of a
  /// condition that does not hold, 0 stands for it: what goes to that element is neutral.
  Expr guarded_value(const Expr& value) const {
    std::vector<Expr> known;
    std::ranges::copy_if(sum_.conditions, std::back_inserter(known),
                         [&](const Expr& condition) { return nest_.is_available(condition); });
    if (known.empty() || nest_.reads_inside(value)) return value;
    const Expr condition = known.size() == 1 ? known.front() : call("and", std::move(known));
    return guarded(call("where", {condition, value, constant(0)}));
  }

  static Affine with_values(const Affine& affine, const std::vector<Affine>& values) {
    return affine.substitute([&](Symbol symbol) { return symbol.is_value() ? &values.at(symbol.number()) : nullptr; });
  }

  /// A loop over those of this call's elements that the term goes to.
  void open_span(const Scatter::Span& span) {
    const std::vector<Affine> values = emit_values();
    Range range = range_of(span.axis);
    for (const Affine& low : span.lows) range.lows.push_back({1, with_values(low, values)});
    for (const Affine& high : span.highs) range.highs.push_back({1, with_values(high, values)});
    nest_.know_piece(range, range_of(span.axis));
    open_counted(span.axis, range, true);
  }

  void add_to_span() {
    const Expr held = tensor_access(root_.definition.name, root_.subscripts);
    const Expr term = guarded(term_);
    nest_.count_factors(term);
    nest_.build({Work{Work::Target::Buffer,
                      out_,
                      root_.subscripts,
                      std::nullopt,
                      type_,
                      combined(held, term),
                      {},
                      cite(root_.definition)}});
  }

  /// A loop that has one iteration, 0, if the element is one of this call's, and none else. Gives the element.
  std::vector<Affine> open_once() {
    const std::vector<Affine> values = emit_values();
    std::vector<Affine> element = root_.subscripts;
    Range range{{{1, Affine(0)}}, {{1, Affine(0)}}};
    for (const Scatter::Target& target : sum_.targets) {
      const Affine at = with_values(target.element, values);
      const Range rows = range_of(target.axis);
      for (const Bound& low : rows.lows) range.lows.push_back({1, low.value - at});
      for (const Bound& high : rows.highs) range.highs.push_back({1, high.value - at});
      std::ranges::replace(element, Affine(target.axis), at);
    }
    open_counted(once_, range, false);
    return element;
  }

  Replacement in_once() const {
    Replacement here;
    for (const OpenedReduce& loop : sum_.loops) here.emplace_back(loop.index, Affine(loop.index) + Affine(once_));
    return here;
  }

  /// What the element holds and what the term computes depend on the variable of the loop that may have no iteration,
  /// so that they stay inside.
  void add_term(const std::vector<Affine>& written) {
    std::vector<Affine> read = root_.subscripts;
    for (const Scatter::Target& target : sum_.targets)
      std::ranges::replace(read, Affine(target.axis), target.element + Affine(once_));
    const Replacement here = in_once();
    const Expr held = tensor_access(root_.definition.name, std::move(read), sum_.values);
    // The loop that has an iteration says that the element is inside.
    std::vector<Affine> element;
    for (const Affine& subscript : written) element.push_back(nest_.resolve(subscript));
    nest_.know_value(held, nest_.emit_operation(op::Load{out_, std::move(element), {}}, type_, nest_.is_varying(held)));
    const Expr term = guarded(substitute(term_, here));
    const Expr result =
        sum_.rival ? better_position(held, index_value(here[0].second), term, here) : combined(held, term);
    nest_.count_factors(result);
    nest_.build({Work{Work::Target::Buffer, out_, written, std::nullopt, type_, result, {}, cite(root_.definition)}});
  }

  const Range& range_of(Symbol axis) const {
    if (loops_.rows.symbol == axis) return loops_.rows.range;
    return std::ranges::find(loops_.others, axis, &LoopIndex::symbol)->range;
  }

  NestBuilder& nest_;
  const KernelRoot& root_;
  const BufferId out_;
  const Scatter& sum_;
  const ScatterLoops& loops_;
  const ValueType type_;
  Expr term_;  // without the conditions that open loops keep
  const Symbol once_ = Symbol::fresh();
  std::size_t opened_ = 0;  // loops
};

}  // namespace

std::optional<Scatter> scatter_of(const Program& program, const Kernel& kernel) {
  const KernelRoot& root = kernel.roots.front();
  if (kernel.roots.size() != 1 || root.accumulate || !kernel.sample || !holds_terms(root.definition) ||
      (root.definition.scan && reads(root.definition, root.definition.name)))
    return std::nullopt;
  std::vector<Symbol> axes = {kernel.sample->symbol};
  for (const LoopIndex& loop : root.locals) {
    if (has_fixed_extent(loop.range)) axes.push_back(loop.symbol);
  }
  auto sum = scatter_of(program, root.body, axes);
  const auto differs_in_lanes = [&](const Expr& value) {
    return kernel.vector && value->depends_on(kernel.vector->symbol);
  };
  const bool fits =
      sum && sum->goes_along(kernel.sample->symbol) && std::ranges::none_of(sum->values, differs_in_lanes);
  return fits ? std::move(sum) : std::nullopt;
}

void lower_scatter(NestBuilder& nest, const KernelRoot& root, BufferId out, const Scatter& sum,
                   const ScatterLoops& loops) {
  ScatterLowering(nest, root, out, sum, loops).run();
}

}  // namespace moxie
