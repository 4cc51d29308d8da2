#include "compiler/program/monoid_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/program/declared_extents.h"
#include "compiler/program/index_domain.h"
#include "compiler/program/placeholders.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

const OuterIndex* find_outer(const MonoidReduction& reduction, Symbol symbol) {
  const auto found = std::ranges::find(reduction.outer, symbol, &OuterIndex::symbol);
  return found == reduction.outer.end() ? nullptr : &*found;
}

bool moves(const Affine& affine) {
  return std::ranges::any_of(affine.terms(), [](const Affine::Term& term) { return !term.first.is_dim(); });
}

/// The affine expression in dims that is nowhere smaller (`up`) or larger than this one.
std::optional<Affine> bound_of(const MonoidReduction& reduction, Affine affine, bool up) {
  for (std::size_t step = 0; moves(affine); ++step) {
    if (step > reduction.outer.size()) return std::nullopt;
    Affine next(affine.constant());
    for (const auto& [symbol, factor] : affine.terms()) {
      const OuterIndex* outer = symbol.is_dim() ? nullptr : find_outer(reduction, symbol);
      if (!symbol.is_dim() && !outer) return std::nullopt;
      Affine value(symbol);
      if (outer) {
        const std::vector<Bound>& bounds = (factor > 0) == up ? outer->range.highs : outer->range.lows;
        const auto whole = std::ranges::find(bounds, 1, &Bound::divisor);
        if (whole == bounds.end()) return std::nullopt;
        value = whole->value;
      }
      next += value * factor;
    }
    affine = next;
  }
  return affine;
}

std::optional<Affine> bound_of(const MonoidReduction& reduction, const std::vector<Bound>& bounds, bool up) {
  for (const Bound& bound : bounds) {
    if (bound.divisor != 1) continue;
    if (const auto found = bound_of(reduction, bound.value, up)) return found;
  }
  return std::nullopt;
}

/// Whether the index is inside the range, as a condition.
Expr inside(Symbol index, const Range& range) {
  std::vector<Expr> conditions;
  for (const Bound& low : range.lows)
    conditions.push_back(call(">=", {index_value(Affine(index) * low.divisor), number_of(low.value)}));
  for (const Bound& high : range.highs)
    conditions.push_back(call("<=", {index_value(Affine(index) * high.divisor), number_of(high.value)}));
  return conditions.size() == 1 ? conditions[0] : call("and", conditions);
}

/// Which elements a scan takes, and the step whose state is the reduction.
struct ScanSteps {
  Affine first, count, at;
  bool from_last = false;
  Expr inside = {};  // where elements count
};

class ScanPlanner {
 public:
  ScanPlanner(const Program& program, const Monoid& monoid, const MonoidReduction& reduction)
      : program_(program), monoid_(monoid), reduction_(reduction) {
    for (const Expr& element : reduction.elements) add_symbols(element->free_symbols);
  }

  PlaceInScan position(DType dtype) {
    const ScanSteps steps = this->steps();
    if (steps.inside) add_symbols(steps.inside->free_symbols);
    PlaceInScan result;
    MonoidScan& scan = result.scan;
    scan.monoid = steps.from_last ? monoid_.mirrored() : monoid_;
    scan.count = steps.count;
    scan.length = value_in_text(program_, steps.count);
    scan.axes = axes(steps);
    scan.elements = elements(steps);
    scan.dtype = dtype;
    result.at = steps.at;
    for (const OuterIndex& outer : reduction_.outer) {
      if (batch_.contains(outer.symbol)) result.outer.emplace_back(outer.symbol);
    }
    result.exists = exists(steps);
    return result;
  }

 private:
  /// The outer indices among them, and those that their ranges depend on.
  void add_symbols(const std::vector<Symbol>& symbols) {
    for (const Symbol symbol : symbols) {
      const OuterIndex* outer = find_outer(reduction_, symbol);
      if (outer && batch_.insert(symbol).second) add_range(outer->range);
    }
  }
  void add_range(const Range& range) {
    for (const auto* bounds : {&range.lows, &range.highs}) {
      for (const Bound& bound : *bounds) {
        for (const auto& [symbol, factor] : bound.value.terms()) add_symbols({symbol});
      }
    }
  }

  bool elements_depend_on(const Affine& affine) const {
    return std::ranges::any_of(affine.terms(), [&](const Affine::Term& term) { return batch_.contains(term.first); });
  }

  ScanSteps steps() const {
    const Range& range = reduction_.range;
    const auto first = bound_of(reduction_, range.lows, false), last = bound_of(reduction_, range.highs, true);
    if (!first || !last)
      throw ShapeError(
          fmt::format("nothing says how far the range of `{0}` may reach; take all of `{0}` and write "
                      "where(condition on {0}, element, identity)",
                      reduction_.index_name));
    const Affine count = *last - *first + Affine(1);
    const bool simple =
        range.lows.size() == 1 && range.highs.size() == 1 && range.lows[0].divisor == 1 && range.highs[0].divisor == 1;
    const Affine low = simple ? range.lows[0].value : Affine(),
                 end = simple ? range.highs[0].value + Affine(1) : Affine();
    if (simple && !moves(low) && !elements_depend_on(end)) return {*first, count, end - low};
    if (simple && !moves(end) && !elements_depend_on(low)) return {*first, count, end - low, true};
    return {*first, count, count, false, inside(reduction_.index, range)};
  }

  /// A condition on the step whose state is read, unless that exists always.
  Expr exists(const ScanSteps& steps) const {
    IndexDomain domain({});
    for (const OuterIndex& outer : reduction_.outer) domain.add_range(outer.symbol, outer.range);
    std::vector<Expr> conditions;
    for (const Affine& distance : {steps.at, steps.count - steps.at}) {
      const auto is_negative = [](const Affine::Term& term) { return term.second < 0; };
      const bool may_be_negative =
          !moves(distance) && (distance.constant() < 0 || std::ranges::any_of(distance.terms(), is_negative));
      if (!may_be_negative && domain.prove_nonnegative(distance) == Proof::Holds) continue;
      conditions.push_back(call(">=", {number_of(distance), constant(0)}));
    }
    if (conditions.empty()) return {};
    return conditions.size() == 1 ? conditions[0] : call("and", conditions);
  }

  std::vector<AxisDecl> axes(const ScanSteps& steps) {
    const Affine extent = steps.count + Affine(1);
    std::vector<AxisDecl> result = {{axis_name(reduction_.index_name), extent, Range::extent(extent)}};
    for (const OuterIndex& outer : reduction_.outer) {
      if (!batch_.contains(outer.symbol)) continue;
      const Range range = outer.range.substitute([&](Symbol symbol) { return replaced(symbol); });
      if (!outer.extent)
        throw ShapeError(
            fmt::format("the extent of `{0}`, on which elements depend, cannot be seen from its range; make "
                        "a definition of the reduction: let y[{0} in low..high of N] = ..",
                        outer.name));
      result.push_back({axis_name(outer.name), *outer.extent, range});
      replacement_.emplace_back(outer.symbol, Symbol::axis(static_cast<std::uint32_t>(result.size() - 1)));
    }
    return result;
  }

  const Affine* replaced(Symbol symbol) const {
    const auto found = std::ranges::find(replacement_, symbol, &Replacement::value_type::first);
    return found == replacement_.end() ? nullptr : &found->second;
  }

  /// Axes of one definition have different names, and none is that of a tensor or dim.
  std::string axis_name(const std::string& wanted) {
    std::string name = wanted;
    const auto is_taken = [&] {
      return names_.contains(name) || program_.find_dim(name) || program_.find_input(name) ||
             program_.find_definition(name);
    };
    for (int number = 2; is_taken(); ++number) name = wanted + std::to_string(number);
    names_.insert(name);
    return name;
  }

  State elements(const ScanSteps& steps) {
    const Affine number(Symbol::axis(0));
    replacement_.emplace_back(reduction_.index,
                              steps.from_last ? steps.first + steps.count - Affine(1) - number : steps.first + number);
    State result;
    for (std::size_t k = 0; k < reduction_.elements.size(); ++k) {
      const Expr& element = reduction_.elements[k];
      const Expr counted = steps.inside ? call("where", {steps.inside, element, monoid_.identity()[k]}) : element;
      result.push_back(substitute(counted, replacement_));
    }
    return result;
  }

  const Program& program_;
  const Monoid& monoid_;
  const MonoidReduction& reduction_;
  std::set<Symbol> batch_;  // outer indices that the states depend on
  std::set<std::string> names_;
  Replacement replacement_;
};

std::string component_name(const std::string& name, const Monoid::Component& component) {
  return name + "." + component.name;
}

}  // namespace

bool MonoidScan::has_blocks() const {
  constexpr std::int64_t kScanCost = 64;  // of another scan, in steps
  if (!length || axes.size() > 1) return false;
  return kBlock + ceil_div(*length, kBlock) + kScanCost < *length;
}

/// The prefixes of all blocks: element `step` of block c is element c*kBlock + step, or the identity behind the last
/// one.
MonoidScan MonoidScan::within_blocks() const {
  const std::int64_t blocks = ceil_div(*length, kBlock);
  const Affine number = Affine(Symbol::axis(1)) * kBlock + Affine(Symbol::axis(0));
  MonoidScan within = *this;
  within.count = kBlock;
  within.length = kBlock;
  within.axes[0].extent = kBlock + 1;
  within.axes[0].range = Range::extent(within.axes[0].extent);
  within.axes.push_back({axes[0].name + ".block", Affine(blocks), Range::extent(Affine(blocks))});
  for (std::size_t k = 0; k < elements.size(); ++k) {
    const Expr element = substitute(elements[k], {{Symbol::axis(0), number}});
    const Expr is_element = call("<", {index_value(number), constant(static_cast<double>(*length))});
    const bool is_full = *length % kBlock == 0;
    within.elements[k] = is_full ? element : call("where", {is_element, element, monoid.identity()[k]});
  }
  return within;
}

/// The states before each block, whose elements are the states of whole blocks.
MonoidScan MonoidScan::before_blocks(const std::string& within) const {
  MonoidScan before = *this;
  before.count = before.length.emplace(ceil_div(*length, kBlock));
  before.axes[0].extent = before.count + Affine(1);
  before.axes[0].range = Range::extent(before.axes[0].extent);
  before.elements = within_blocks().state(within, kBlock, {Affine(Symbol::axis(0))});
  return before;
}

std::vector<Definition> MonoidScan::definitions(const std::string& name, std::uint32_t first_scan) const {
  if (has_blocks()) {
    std::vector<Definition> result = within_blocks().definitions(name, first_scan);
    std::ranges::move(before_blocks(name).definitions(name + ".before", first_scan + 1), std::back_inserter(result));
    return result;
  }
  const Affine step = Symbol::axis(0);
  std::vector<Affine> before = {step - Affine(1)};
  for (std::size_t k = 1; k < axes.size(); ++k) before.emplace_back(Symbol::axis(static_cast<std::uint32_t>(k)));
  State previous, element;
  for (std::size_t k = 0; k < monoid.components.size(); ++k) {
    previous.push_back(tensor_access(component_name(name, monoid.components[k]), before));
    element.push_back(substitute(elements[k], {{Symbol::axis(0), step - Affine(1)}}));
  }
  const State next = monoid.combined(previous, element);
  const Expr starts = call("==", {index_value(step), constant(0)});
  std::vector<Definition> result;
  for (std::size_t k = 0; k < next.size(); ++k) {
    Definition definition;
    definition.name = component_name(name, monoid.components[k]);
    definition.dtype = dtype;
    definition.axes = axes;
    definition.body = call("where", {starts, monoid.identity()[k], next[k]});
    definition.scan = Scan{first_scan};
    result.push_back(std::move(definition));
  }
  return result;
}

State MonoidScan::state(const std::string& name, const Affine& at, const std::vector<Affine>& outer) const {
  Placeholders quotients;
  State result = prefix(name, at, outer, quotients);
  for (Expr& component : result) component = quotients.bind(component);
  return result;
}

/// The states before the block of the last element, and inside it up to that.
State MonoidScan::prefix(const std::string& name, const Affine& at, const std::vector<Affine>& outer,
                         Placeholders& quotients) const {
  State result;
  if (!has_blocks()) {
    std::vector<Affine> subscripts = {at};
    subscripts.insert(subscripts.end(), outer.begin(), outer.end());
    for (const Monoid::Component& component : monoid.components)
      result.push_back(tensor_access(component_name(name, component), subscripts));
    return result;
  }
  const MonoidScan before = before_blocks(name);
  if (at == count) return before.prefix(name + ".before", before.count, outer, quotients);
  const Affine block = quotients.floor_of(at - Affine(1), kBlock);
  const State last = within_blocks().prefix(name, at - block * kBlock, {block}, quotients);
  const State state = monoid.combined(before.prefix(name + ".before", block, outer, quotients), last);
  const Expr has_elements = call(">", {number_of(at), constant(0)});
  for (std::size_t k = 0; k < state.size(); ++k)
    result.push_back(call("where", {has_elements, state[k], monoid.identity()[k]}));
  return result;
}

State PlaceInScan::state(const std::string& name) const {
  State result = scan.state(name, at, outer);
  if (!exists) return result;
  for (std::size_t k = 0; k < result.size(); ++k)
    result[k] = call("where", {exists, result[k], scan.monoid.identity()[k]});
  return result;
}

PlaceInScan scan_of(const Program& program, const Monoid& monoid, const MonoidReduction& reduction, DType dtype) {
  return ScanPlanner(program, monoid, reduction).position(dtype);
}

std::string new_scan_name(const Program& program, const Monoid& monoid, const std::string& definition) {
  const std::string wanted = definition + "." + monoid.name;
  std::string name = wanted;
  const auto is_taken = [&](const Monoid::Component& component) {
    return program.find_definition(component_name(name, component)) ||
           program.find_input(component_name(name, component));
  };
  for (int number = 2; std::ranges::any_of(monoid.components, is_taken); ++number)
    name = wanted + std::to_string(number);
  return name;
}

}  // namespace moxie
