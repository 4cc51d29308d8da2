#include <algorithm>
#include <optional>
#include <set>

#include "compiler/diff/program_builder.h"
#include "compiler/expression/functions.h"
#include "compiler/program/index_domain.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// A side that is so many times shorter is worth other subscripts.
constexpr std::int64_t kMinRatio = 2;

const Symbol kDiagonal = Symbol::axis(0), kSide = Symbol::axis(1);

/// How elements lie on diagonals: by their row i, of which there are `rows`, on diagonal i + j, or on rows-1-i + j
/// where rows are taken backwards.
struct Diagonals {
  std::int64_t rows, columns;
  bool backwards;

  Affine column(const Affine& diagonal, const Affine& row) const {
    return backwards ? diagonal - Affine(rows - 1) + row : diagonal - row;
  }
  Affine row(const Affine& diagonal, const Affine& column) const {
    return backwards ? Affine(rows - 1) - diagonal + column : diagonal - column;
  }
};

std::optional<std::int64_t> whole_extent(const AxisDecl& axis) {
  const bool is_whole = axis.range == Range::extent(axis.extent) && axis.extent.is_constant();
  return is_whole ? std::optional(axis.extent.constant()) : std::nullopt;
}

/// The diagonals on which all definitions of a scan lie, if their axes are those of diagonals and the rows are many
/// more than the columns.
std::optional<Diagonals> diagonals_of(const std::vector<const Definition*>& scan) {
  std::optional<Diagonals> found;
  for (const Definition* definition : scan) {
    if (definition->output || definition->recomputed || definition->scan->checkpoints || definition->axes.size() < 2)
      return std::nullopt;
    const auto count = whole_extent(definition->axes[0]), rows = whole_extent(definition->axes[1]);
    if (!count || !rows) return std::nullopt;
    const Diagonals own{*rows, *count - *rows + 1, false};
    if (found && (found->rows != own.rows || found->columns != own.columns)) return std::nullopt;
    found = own;
  }
  const bool is_worth_it = found && found->columns >= 1 && found->rows >= kMinRatio * found->columns;
  return is_worth_it ? found : std::nullopt;
}

class Shortening {
 public:
  Shortening(const Program& program, const std::vector<const Definition*>& scan, const Diagonals& diagonals)
      : builder_(program), scan_(scan), diagonals_(diagonals) {
    for (const Definition* definition : scan) names_.insert(definition->name);
  }

  /// Whether every element of the scan that lies on no pair of a row and a column is zero.
  bool is_possible() const {
    const Affine column = diagonals_.column(kDiagonal, kSide);
    for (const Affine& outside : {Affine(-1) - column, column - Affine(diagonals_.columns)}) {
      for (const Definition* definition : scan_) {
        IndexDomain domain({});
        for (std::uint32_t k = 0; k < definition->axes.size(); ++k)
          domain.add_range(Symbol::axis(k), definition->axes[k].range);
        domain.add_nonnegative(outside);
        if (!vanishes(definition->body, domain)) return false;
      }
    }
    return true;
  }

  Definition by_columns(const Definition& definition) const {
    Definition result = definition;
    std::set<std::string> used;
    for (const AxisDecl& axis : definition.axes) used.insert(axis.name);
    result.axes[1] = builder_.axes_for({Affine(diagonals_.columns)}, {}, std::move(used)).front();
    const Affine row = diagonals_.row(kDiagonal, kSide);
    const Expr is_row = call("and", {call(">=", {index_value(row), constant(0)}),
                                     call("<", {index_value(row), constant(static_cast<double>(diagonals_.rows))})});
    const Expr body = call("where", {is_row, substitute(definition.body, {{kSide, row}}), constant(0)});
    result.body = reading(result, body);
    return result;
  }

  Definition reader(const Definition& definition) const {
    Definition result = definition;
    result.body = reading(definition, definition.body);
    return result;
  }

 private:
  /// Whether the expression is zero everywhere in the domain, if elements of the scan that lie outside are.
  bool vanishes(const Expr& expr, const IndexDomain& domain) const {
    if (expr->is_constant(0) || domain.is_empty()) return true;
    const auto does = [&](const Expr& arg) { return vanishes(arg, domain); };
    if (is_call(expr, "where"))
      return vanishes(expr->args[1], domain.where(expr->args[0], true)) &&
             vanishes(expr->args[2], domain.where(expr->args[0], false));
    if (is_call(expr, "*")) return std::ranges::any_of(expr->args, does);
    if (is_call(expr, "/")) return does(expr->args[0]);
    if (is_call(expr, "+") || is_call(expr, "neg") || is_call(expr, "f32") || is_call(expr, "f64"))
      return std::ranges::all_of(expr->args, does);
    if (expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum) {
      const OpenedReduce opened = open(expr);
      IndexDomain inside = domain;
      inside.add_range(opened.index, opened.range);
      return vanishes(opened.body, inside);
    }
    if (!is_of_scan(expr)) return false;
    const Affine column = diagonals_.column(expr->subscripts[0], expr->subscripts[1]);
    return domain.prove_nonnegative(Affine(-1) - column) == Proof::Holds ||
           domain.prove_nonnegative(column - Affine(diagonals_.columns)) == Proof::Holds;
  }

  bool is_of_scan(const Expr& expr) const { return expr->kind == NodeKind::Access && names_.contains(expr->tensor); }

  Expr reading(const Definition& definition, const Expr& body) const {
    IndexDomain domain({});
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
      domain.add_range(Symbol::axis(k), definition.axes[k].range);
    return reading(body, domain);
  }

  /// The expression with its reads of the scan by column: guarded, where the domain does not show that there is one.
  Expr reading(const Expr& expr, const IndexDomain& domain) const {
    if (is_call(expr, "where"))
      return call("where", {reading(expr->args[0], domain), reading(expr->args[1], domain.where(expr->args[0], true)),
                            reading(expr->args[2], domain.where(expr->args[0], false))});
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(expr);
      IndexDomain inside = domain;
      inside.add_range(opened.index, opened.range);
      return map_opened(expr, opened, [&](const Expr& child) { return reading(child, inside); });
    }
    const Expr mapped = map_children(expr, [&](const Expr& child) { return reading(child, domain); });
    return is_of_scan(mapped) ? by_column(mapped, domain) : mapped;
  }

  Expr by_column(const Expr& access, const IndexDomain& domain) const {
    std::vector<Affine> subscripts = access->subscripts;
    const Affine column = subscripts[1] = diagonals_.column(subscripts[0], subscripts[1]);
    const Expr read = tensor_access(access->tensor, std::move(subscripts), access->args);
    std::vector<Expr> conditions;
    if (domain.prove_nonnegative(column) != Proof::Holds)
      conditions.push_back(call(">=", {index_value(column), constant(0)}));
    if (domain.prove_nonnegative(Affine(diagonals_.columns - 1) - column) != Proof::Holds)
      conditions.push_back(call("<", {index_value(column), constant(static_cast<double>(diagonals_.columns))}));
    if (conditions.empty()) return read;
    return call("where", {conditions.size() == 1 ? conditions[0] : call("and", conditions), read, constant(0)});
  }

  const ProgramBuilder builder_;
  const std::vector<const Definition*>& scan_;
  const Diagonals diagonals_;
  std::set<std::string> names_;
};

/// Whether a value chooses the row or the diagonal at which an element of the scan is read.
bool is_read_by_value(const Program& program, const std::vector<const Definition*>& scan) {
  bool found = false;
  for (const Definition& reader : program.definitions) {
    visit(reader.body, [&](const Expr& e) {
      const bool is_read = e->kind == NodeKind::Access && !e->args.empty() &&
                           std::ranges::any_of(scan, [&](const Definition* d) { return d->name == e->tensor; });
      found |= is_read && (e->subscripts[0].mentions_value() || e->subscripts[1].mentions_value());
    });
  }
  return found;
}

std::optional<Program> shortened(const Program& program, const std::vector<const Definition*>& scan) {
  std::optional<Diagonals> diagonals = diagonals_of(scan);
  if (!diagonals || is_read_by_value(program, scan)) return std::nullopt;
  for (const bool backwards : {false, true}) {
    diagonals->backwards = backwards;
    const Shortening shortening(program, scan, *diagonals);
    if (!shortening.is_possible()) continue;
    Program result = program;
    for (Definition& definition : result.definitions) {
      const bool is_of_scan = definition.scan && definition.scan->number == scan.front()->scan->number;
      definition = is_of_scan ? shortening.by_columns(definition) : shortening.reader(definition);
    }
    return result;
  }
  return std::nullopt;
}

}  // namespace

Program shorten_diagonals(const Program& program) {
  std::set<std::uint32_t> numbers;
  for (const Definition& definition : program.definitions) {
    if (definition.scan) numbers.insert(definition.scan->number);
  }
  Program result = program;
  for (const std::uint32_t number : numbers) {
    std::vector<const Definition*> scan;
    for (const Definition& definition : result.definitions) {
      if (definition.scan && definition.scan->number == number) scan.push_back(&definition);
    }
    if (auto shorter = shortened(result, scan)) result = std::move(*shorter);
  }
  return result;
}

}  // namespace moxie
