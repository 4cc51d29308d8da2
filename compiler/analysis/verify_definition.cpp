#include "compiler/analysis/verify_definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/analysis/inside_proof.h"
#include "compiler/arithmetic/philox.h"
#include "compiler/expression/algebra_form.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/node_map.h"
#include "compiler/expression/quotients.h"
#include "compiler/program/expr_printer.h"
#include "compiler/program/identifiers.h"
#include "compiler/program/index_domain.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// The place of an expression: the reductions around it and what is known of the indices there.
struct Place {
  IndexDomain domain;
  std::vector<std::pair<Symbol, Range>> bound;
  NodeSet seen = {};             // expressions that were checked at this place
  NodeMap<bool> unguarded = {};  // whether accesses stay inside whatever conditions say

  Place inside(IndexDomain inner) const { return {std::move(inner), bound}; }
  bool binds(Symbol symbol) const {
    return std::ranges::any_of(bound, [&](const auto& entry) { return entry.first == symbol; });
  }
  void bind(Symbol symbol, const Range& range) {
    bound.emplace_back(symbol, range);
    domain.add_range(symbol, range);
  }
};

bool gives_truth(const Expr& expr) {
  return expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth;
}

class DefinitionVerifier {
 public:
  DefinitionVerifier(const Program& program, std::size_t position, Unproved unproved)
      : program_(program), position_(position), definition_(program.definitions[position]), unproved_(unproved) {}

  void run() {
    Place place{IndexDomain(known_dims(program_)), {}};
    for (std::size_t k = 0; k < definition_.axes.size(); ++k) check_axis(k, place);
    axes_in_scope_ = definition_.axes.size();
    if (!definition_.body) throw TypeError(where() + "there is no expression");
    check_number(definition_.body, place);
  }

 private:
  std::string where() const {
    const std::string line = definition_.line > 0 ? fmt::format(" (line {})", definition_.line) : "";
    return fmt::format("definition `{}`{}: ", definition_.name, line);
  }

  ExprPrinter printer(const Place& place) const {
    ExprPrinter result(program_, definition_.axes);
    for (const auto& [symbol, range] : place.bound) result.enter(symbol, range);
    return result;
  }
  std::string text(const Expr& expr, const Place& place) const {
    constexpr std::size_t kShown = 120;
    std::string result = printer(place).print(expr);
    return result.size() <= kShown ? result : result.substr(0, kShown) + "...";
  }

  // ---- Axes ----

  void check_axis(std::size_t k, Place& place) {
    const AxisDecl& axis = definition_.axes[k];
    const bool twice = std::ranges::count(definition_.axes, axis.name, &AxisDecl::name) > 1;
    const bool taken =
        program_.find_dim(axis.name) || program_.find_input(axis.name) || program_.find_definition(axis.name);
    if (!is_identifier(axis.name) || is_reserved(axis.name) || twice || taken) {
      throw TypeError(where() + fmt::format("axis {} cannot be called `{}`; it needs a name of its own", k, axis.name));
    }
    axes_in_scope_ = k;
    check_range(axis.range, place);
    const Symbol symbol = Symbol::axis(static_cast<std::uint32_t>(k));
    place.domain.add_range(symbol, axis.range);
    require(place, symbol, [&] {
      return fmt::format("the range {} of axis `{}` starts below 0", printer(place).print(axis.range), axis.name);
    });
    require(place, axis.extent - Affine(symbol) - Affine(1), [&] {
      return fmt::format("the range {} of axis `{}` leaves its extent {}", printer(place).print(axis.range), axis.name,
                         print(axis.extent));
    });
  }

  // ---- Affine parts ----

  bool is_in_scope(Symbol symbol, const Place& place) const {
    switch (symbol.kind()) {
      case Symbol::Kind::Dim:
        return program_.find_dim(symbol.name());
      case Symbol::Kind::Axis:
        return symbol.number() < axes_in_scope_;
      case Symbol::Kind::Bound:
        return place.binds(symbol);
      case Symbol::Kind::Value:
        return true;  // of an access, which check_access() looks at
      case Symbol::Kind::Free:
        break;
    }
    return false;
  }

  void check_affine(const Affine& affine, const Place& place) const {
    for (const auto& [symbol, coefficient] : affine.terms()) {
      if (is_in_scope(symbol, place)) continue;
      throw TypeError(where() + fmt::format("`{}` in `{}` is neither a declared dim nor an index in scope",
                                            symbol.name(), printer(place).print(affine)));
    }
  }

  void check_range(const Range& range, const Place& place) const {
    check_range_form(range, where() + "a range");
    for (const auto* bounds : {&range.lows, &range.highs}) {
      for (const Bound& bound : *bounds) check_affine(bound.value, place);
    }
  }

  /// Throws ShapeError with the message unless `affine` >= 0 is proved or, where that is allowed, depends on dims
  /// without values.
  template <class Message>
  void require(const Place& place, const Affine& affine, Message message) const {
    const Proof proof = place.domain.prove_nonnegative(affine);
    const bool fails = proof == Proof::Fails || (proof == Proof::Unknown && unproved_ == Unproved::refused);
    if (fails) throw ShapeError(where() + message());
  }

  // ---- Expressions ----

  void check_number(const Expr& expr, Place& place) const {
    if (gives_truth(expr)) {
      throw TypeError(where() + fmt::format("`{0}` is a condition, but a number is wanted; write where({0}, 1, 0)",
                                            text(expr, place)));
    }
    check(expr, place);
  }

  void check_condition(const Expr& expr, Place& place) const {
    if (!gives_truth(expr)) {
      throw TypeError(where() +
                      fmt::format("`{0}` is a number, but a condition is wanted; write {0} != 0", text(expr, place)));
    }
    check(expr, place);
  }

  void check(const Expr& expr, Place& place) const {
    if (!place.seen.insert(expr.get())) return;
    switch (expr->kind) {
      case NodeKind::Constant:
        return;
      case NodeKind::IndexValue:
        return check_affine(expr->affine, place);
      case NodeKind::Access:
        return check_access(expr, place);
      case NodeKind::Call:
        return check_call(expr, place);
      case NodeKind::Reduce:
        return check_reduction(expr, place);
      case NodeKind::LinearAlgebra:
        return check_algebra(expr, place);
      case NodeKind::Random:
        check_draw(expr, place);
        break;
    }
    for (const Affine& coordinate : expr->subscripts) check_affine(coordinate, place);
  }

  void check_draw(const Expr& expr, const Place& place) const {
    if (expr->subscripts.size() <= kMostDrawAxes) return;
    throw TypeError(where() + fmt::format("`{}` is drawn over {} axes; a random number has at most {} coordinates, so "
                                          "draw over fewer, such as one that counts two of them",
                                          text(expr, place), expr->subscripts.size(), kMostDrawAxes));
  }

  void check_call(const Expr& expr, Place& place) const {
    if (expr->function->name == "where") return check_where(expr, place);
    for (std::size_t i = 0; i < expr->args.size(); ++i) {
      if (wants_truth(*expr->function, i))
        check_condition(expr->args[i], place);
      else
        check_number(expr->args[i], place);
    }
  }

  void check_where(const Expr& expr, Place& place) const {
    check_condition(expr->args[0], place);
    for (const bool truth : {true, false}) {
      const Expr& branch = expr->args[truth ? 1 : 2];
      if (is_inside_unguarded(branch, place)) {
        check_number(branch, place);
        continue;
      }
      Place guarded = place.inside(place.domain.where(expr->args[0], truth));
      check_number(branch, guarded);
    }
  }

  /// Whether accesses need none of the conditions inside the expression. Most do not, and are checked at one place for
  /// all branches: what nested branches have in common would be checked for each of them, exponentially often.
  bool is_inside_unguarded(const Expr& expr, Place& place) const {
    if (const bool* known = place.unguarded.find(expr.get())) return *known;
    const auto is_inside = [&](const Expr& arg) { return is_inside_unguarded(arg, place); };
    bool result = false;
    if (expr->kind == NodeKind::Access) {
      result = is_access_inside(expr, place) && std::ranges::all_of(expr->args, is_inside);
    } else if (expr->kind == NodeKind::Reduce) {
      Place body = place.inside(place.domain);
      body.bind(Symbol::bound(expr->height), expr->range);
      result = std::ranges::all_of(expr->args, [&](const Expr& arg) { return is_inside_unguarded(arg, body); });
    } else if (expr->kind != NodeKind::LinearAlgebra) {
      result = std::ranges::all_of(expr->args, is_inside);
    }
    return place.unguarded[expr.get()] = result;
  }

  /// Whether the access needs no guard, as far as it is well formed; check_access() says what is wrong with it if not.
  bool is_access_inside(const Expr& expr, const Place& place) const {
    const Tensor tensor = tensor_of(expr);
    if (tensor.rank() != expr->subscripts.size()) return false;
    const Definition* definition = tensor.definition;
    if (definition && is_of_own_scan(*definition) && !own_step().knows_lag_of(expr, place.domain)) return false;
    const std::vector<Range> ranges = ranges_of(expr, tensor);
    for (std::size_t k = 0; k < ranges.size(); ++k) {
      const Affine& subscript = expr->subscripts[k];
      if (subscript.mentions_value()) continue;
      const auto holds = [&](const Affine& affine) { return place.domain.prove_nonnegative(affine) == Proof::Holds; };
      const auto above = [&](const Bound& low) { return holds(subscript * low.divisor - low.value); };
      const auto below = [&](const Bound& high) { return holds(high.value - subscript * high.divisor); };
      if (!std::ranges::all_of(ranges[k].lows, above) || !std::ranges::all_of(ranges[k].highs, below)) return false;
    }
    return true;
  }

  void check_reduction(const Expr& expr, const Place& place) const {
    check_range(expr->range, place);
    Place body = place.inside(place.domain);
    body.bind(Symbol::bound(expr->height), expr->range);
    for (const Expr& arg : expr->args) check_number(arg, body);
  }

  /// Most matrices are read in their lower triangle only.
  void check_algebra(const Expr& expr, const Place& place) const {
    const AlgebraForm form = algebra_form(expr->algebra);
    const bool well_formed = expr->args.size() == (form.has_rhs ? 2 : 1) && expr->subscripts.size() == form.elements;
    if (!well_formed)
      throw TypeError(where() +
                      fmt::format("`{}` has the wrong number of arguments or subscripts", to_string(expr->algebra)));
    for (const Affine& extent : {expr->size.rows, expr->size.columns}) check_extent(extent, place);
    if (expr->size.rows != expr->size.columns) check_tall(expr);
    for (std::size_t k = 0; k < expr->subscripts.size(); ++k)
      check_inside(expr, expr->subscripts[k], Range::extent(element_extent(expr->algebra, expr->size, k)), place);
    const Symbol row = Symbol::bound(expr->height);
    const Symbol col = Symbol::bound(expr->height - 1);
    Place vector = place.inside(place.domain);
    vector.bind(row, Range::extent(expr->size.rows));
    if (form.has_rhs) check_number(expr->args[1], vector);
    if (form.matrix == MatrixClass::Row) return check_number(expr->args[0], vector);
    Place matrix = vector.inside(vector.domain);
    matrix.bind(col, Range::extent(expr->size.columns));
    if (form.matrix != MatrixClass::General) matrix.domain.add_nonnegative(Affine(row) - Affine(col));
    check_number(expr->args[0], matrix);
  }

  void check_extent(const Affine& extent, const Place& place) const {
    for (const auto& [symbol, coefficient] : extent.terms()) {
      if (!symbol.is_dim())
        throw ShapeError(
            where() +
            fmt::format("the size of a matrix, or of a row that is sorted, depends on the index `{}`", symbol.name()));
    }
    check_affine(extent, place);
  }

  /// Of dims that are not known yet, those who compute the operation look again.
  void check_tall(const Expr& expr) const {
    const Affine more = expr->size.rows - expr->size.columns;
    if (!takes_tall(expr->algebra) || (more.is_constant() && more.constant() < 0))
      throw ShapeError(where() + wrong_shape(expr->algebra, print(expr->size.rows), print(expr->size.columns)));
  }

  // ---- Accesses ----

  bool is_of_own_scan(const Definition& definition) const {
    return definition_.scan && definition.scan == definition_.scan;
  }

  AtStep own_step() const { return {*definition_.scan, Affine(Symbol::axis(0))}; }

  std::string remedy_for_step(const Expr& expr, const Affine& lag, const Place& place) const {
    const std::string& step = definition_.axes[0].name;
    if (lag.mentions_value() && !definition_.scan->backwards)
      return fmt::format("select an earlier step by a sum over them, sum[u in 0..{}](where(.. == u, {}[u,..], 0))",
                         step, expr->tensor);
    std::string remedy = fmt::format("read `{}` at an earlier step, {}{}", expr->tensor, step,
                                     definition_.scan->backwards ? "+1" : "-1");
    if (!lag.is_constant() && !lag.mentions_value())
      remedy += fmt::format(", under a condition that says that it is one, where({} >= 1, {}, ..)",
                            printer(place).print(lag), text(expr, place));
    return remedy;
  }

  /// Within a scan: an earlier step, or this one of a definition above.
  void check_step(const Expr& expr, const Definition& read, const Place& place) const {
    const Affine lag = own_step().lag_of(expr);
    const std::string earlier = definition_.axes[0].name + (definition_.scan->backwards ? "+1" : "-1");
    if (!own_step().knows_lag_of(expr, place.domain) || (lag.is_constant() && lag.constant() < 0)) {
      throw TypeError(where() + fmt::format("`{}` is not computed yet when its scan comes to this step; {}, or read it "
                                            "outside of the scan",
                                            text(expr, place), remedy_for_step(expr, lag, place)));
    }
    if (!lag.is_constant() && definition_.scan->checkpoints) {
      throw TypeError(
          where() + fmt::format("`{}` is read at all earlier steps, but a scan that recomputes steps from checkpoints "
                                "has only those a fixed number of steps away, such as {}; leave out `recompute every`",
                                text(expr, place), earlier));
    }
    const bool is_above = &read < &definition_;
    if (!lag.is_constant() || lag.constant() > 0 || is_above) return;
    throw TypeError(where() +
                    fmt::format("`{}` is computed later in the same step; move `{}` up, or read it at the step "
                                "before, {}",
                                text(expr, place), expr->tensor, earlier));
  }

  /// An input or a definition, or neither.
  struct Tensor {
    const InputDecl* input = nullptr;
    const Definition* definition = nullptr;

    std::optional<std::size_t> rank() const {
      if (input) return input->shape.size();
      return definition ? std::optional(definition->axes.size()) : std::nullopt;
    }
  };

  Tensor tensor_of(const Expr& access) const {
    const InputDecl* input = program_.find_input(access->tensor);
    return {input, input ? nullptr : program_.find_definition(access->tensor)};
  }

  void check_readable(const Expr& expr, const Tensor& tensor) const {
    if (tensor.input) return;
    const Definition* definition = tensor.definition;
    if (!definition) throw TypeError(where() + fmt::format("`{}` is neither an input nor a definition", expr->tensor));
    const auto position = static_cast<std::size_t>(definition - program_.definitions.data());
    if (is_of_own_scan(*definition)) return;
    if (position == position_)
      throw TypeError(where() + "it reads itself; a definition reads inputs and earlier definitions");
    if (position > position_)
      throw TypeError(where() + fmt::format("it reads `{}`, which is defined later; move that up", expr->tensor));
  }

  void check_access(const Expr& expr, const Place& place) const {
    const Tensor tensor = tensor_of(expr);
    check_readable(expr, tensor);
    for (const Expr& value : expr->args) check_subscript_value(value, place);
    if (expr->subscripts.size() != tensor.rank()) {
      throw ShapeError(where() + fmt::format("`{}` has {} axes, but {} subscripts were given", text(expr, place),
                                             *tensor.rank(), expr->subscripts.size()));
    }
    if (tensor.definition && is_of_own_scan(*tensor.definition)) check_step(expr, *tensor.definition, place);
    const std::vector<Range> ranges = ranges_of(expr, tensor);
    for (std::size_t k = 0; k < ranges.size(); ++k) check_inside(expr, expr->subscripts[k], ranges[k], place);
  }

  /// Where the subscripts of an access may be: for a definition, at the elements that exist.
  static std::vector<Range> ranges_of(const Expr& access, const Tensor& tensor) {
    std::vector<Range> ranges;
    const auto subscript_of_axis = [&](Symbol symbol) -> const Affine* {
      return symbol.kind() == Symbol::Kind::Axis ? &access->subscripts[symbol.number()] : nullptr;
    };
    if (tensor.definition) {
      for (const AxisDecl& axis : tensor.definition->axes) ranges.push_back(axis.range.substitute(subscript_of_axis));
    } else {
      for (const Affine& extent : tensor.input->shape) ranges.push_back(Range::extent(extent));
    }
    return ranges;
  }

  void check_subscript_value(const Expr& value, const Place& place) const {
    if (value->kind != NodeKind::Access)
      throw TypeError(where() + fmt::format("`{}` stands in a subscript, where only indices, dims and elements of "
                                            "integer tensors may; define it: let position[..]: i32 = ..",
                                            text(value, place)));
    check_access(value, place);
    const DType dtype = program_.dtype_of(value->tensor);
    if (!holds_integers(dtype))
      throw TypeError(where() +
                      fmt::format("`{}` stands in a subscript, but `{}` holds numbers of dtype {}; declare it "
                                  "as integers: {}: i32",
                                  text(value, place), value->tensor, to_string(dtype), value->tensor));
  }

  /// Where a subscript depends on values it is checked when it is read; but there must be something to read.
  void check_inside(const Expr& expr, const Affine& subscript, const Range& range, const Place& place) const {
    check_affine(subscript, place);
    if (subscript.mentions_value()) return check_has_elements(expr, range, place);
    const auto message = [&] { return outside_text(expr, subscript, range, place); };
    for (const Bound& low : range.lows) require(place, subscript * low.divisor - low.value, message);
    for (const Bound& high : range.highs) require(place, high.value - subscript * high.divisor, message);
  }

  void check_has_elements(const Expr& expr, const Range& range, const Place& place) const {
    const auto extent = range.as_extent();
    const auto is_dim = [](const Affine::Term& term) { return term.first.is_dim(); };
    if (!extent || !std::ranges::all_of(extent->terms(), is_dim))
      throw TypeError(where() + fmt::format("`{}` is read by value along an axis that runs over {}; such an axis must "
                                            "run from 0 to an extent in dims",
                                            text(expr, place), printer(place).print(range)));
    require(place, *extent - Affine(1),
            [&] { return fmt::format("`{}` is read by value, but the axis may have no elements", text(expr, place)); });
  }

  std::string outside_text(const Expr& expr, const Affine& subscript, const Range& range, const Place& place) const {
    const ExprPrinter names = printer(place);
    std::vector<std::string> facts;
    for (const Symbol symbol : indices_of(subscript, place))
      facts.push_back(fmt::format("{} in {}", names.print(Affine(symbol)), names.print(range_of(symbol, place))));
    for (const auto& [dim, value] : known_dims(program_))
      facts.push_back(fmt::format("{} = {}", dim.name(), print(value)));
    return fmt::format("subscript {} of `{}` can leave {}{}{}; guard the access with where(...) or change the range",
                       names.print(subscript), text(expr, place), names.print(range), facts.empty() ? "" : ", with ",
                       fmt::join(facts, ", "));
  }

  /// The indices that move the subscript, by quotients too.
  std::vector<Symbol> indices_of(const Affine& subscript, const Place& place) const {
    std::vector<Symbol> result;
    const std::function<void(const Affine&)> collect = [&](const Affine& affine) {
      for (const auto& [symbol, coefficient] : affine.terms()) {
        if (symbol.is_dim()) continue;
        if (const std::optional<Quotient> quotient = as_quotient(range_of(symbol, place)))
          collect(quotient->value);
        else if (std::ranges::find(result, symbol) == result.end())
          result.push_back(symbol);
      }
    };
    collect(subscript);
    return result;
  }

  Range range_of(Symbol symbol, const Place& place) const {
    if (symbol.kind() == Symbol::Kind::Axis) return definition_.axes[symbol.number()].range;
    return std::ranges::find(place.bound, symbol, &std::pair<Symbol, Range>::first)->second;
  }

  const Program& program_;
  std::size_t position_;
  const Definition& definition_;
  Unproved unproved_;
  std::size_t axes_in_scope_ = 0;
};

}  // namespace

Replacement known_dims(const Program& program) {
  Replacement known;
  for (const DimDecl& dim : program.dims) {
    if (dim.value && !dim.dynamic) known.emplace_back(Symbol::dim(dim.name), Affine(*dim.value));
  }
  return known;
}

void check_range_form(const Range& range, const std::string& where) {
  if (range.lows.empty() || range.highs.empty()) throw ShapeError(where + " is not bounded on both sides");
  for (const auto* bounds : {&range.lows, &range.highs}) {
    for (const Bound& bound : *bounds) {
      if (bound.divisor <= 0)
        throw ShapeError(fmt::format("{} has a bound with the divisor {}; it must be positive", where, bound.divisor));
    }
  }
}

void verify_definition(const Program& program, std::size_t position, Unproved unproved) {
  DefinitionVerifier(program, position, unproved).run();
}

bool is_right_for_all_dims(const Program& program) {
  try {
    for (std::size_t k = 0; k < program.definitions.size(); ++k) verify_definition(program, k, Unproved::refused);
  } catch (const ShapeError&) {
    return false;
  }
  return true;
}

Program with_values(Program program, const DimValues& dims) {
  for (DimDecl& dim : program.dims) {
    const auto given = dims.find(dim.name);
    if (given == dims.end() || (dim.value && !dim.dynamic)) continue;
    dim.value = given->second;
    dim.dynamic = false;
  }
  return program;
}

void verify_for(Program program, const DimValues& dims) { verify(with_values(std::move(program), dims)); }

}  // namespace moxie
