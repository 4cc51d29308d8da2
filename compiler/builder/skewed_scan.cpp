#include "compiler/builder/skewed_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/analysis/verify_definition.h"
#include "compiler/program/declared_extents.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

const Affine kRow = Symbol::axis(0), kColumn = Symbol::axis(1);

/// A pair of indices, counted in the order of the scan.
struct Step {
  Affine row, column;
};

class Skewing {
 public:
  Skewing(const Program& program, std::span<const Definition> definitions, const std::array<bool, 2>& is_backwards,
          std::uint32_t number)
      : program_(program), definitions_(definitions), backwards_(is_backwards), number_(number) {
    for (std::size_t k = 0; k < 2; ++k) extents_[k] = definitions.front().axes[k].extent;
    for (const Definition& definition : definitions) check_axes(definition);
    for (const Definition& definition : definitions) visit_reads(definition);
  }

  Definition over_diagonals(const Definition& definition) const {
    Definition result = definition;
    result.name = diagonals_of(definition.name);
    result.output = false;
    result.domain = {};
    result.scan = Scan{number_};
    const Affine count = extents_[0] * slope_ + extents_[1] - Affine(slope_);
    result.axes[0] = {free_axis_name(definition), count, Range::extent(count)};
    result.axes[1] = definition.axes[0];
    const Affine column = Affine(Symbol::axis(0)) - step_of({Affine(Symbol::axis(1)), 0}).row * slope_;
    const Expr body = substitute(with_diagonals(definition.body),
                                 {{Symbol::axis(0), Affine(Symbol::axis(1))}, {Symbol::axis(1), counted(1, column)}});
    const Expr inside = call("and", {call(">=", {index_value(column), constant(0)}),
                                     call("<", {index_value(column), index_value(extents_[1])})});
    result.body = call("where", {inside, body, constant(0)});
    return result;
  }

  /// What to say of a definition that does not follow from elements on earlier diagonals.
  std::string problem_of(const Definition& definition) const {
    std::string read;
    visit(definition.body, [&](const Expr& expr) {
      if (read.empty() && is_in_scan(expr) && !is_neighbour(expr)) read = print(expr, program_, definition.axes);
    });
    const std::string reads = read.empty() ? "reads" : fmt::format("reads in `{}`", read);
    return fmt::format(
        "`{}` {} an element that the scan over `{}` and `{}` need not have computed: all elements with "
        "the same {} are computed at once; say by a condition that it is smaller there, or scan one "
        "index that counts all pairs",
        definition.name, reads, definition.axes[0].name, definition.axes[1].name, diagonal_text(definition));
  }

  Definition from_diagonals(const Definition& definition) const {
    Definition result = definition;
    result.scan.reset();
    std::vector<Affine> subscripts;
    for (std::size_t k = 0; k < definition.axes.size(); ++k)
      subscripts.emplace_back(Symbol::axis(static_cast<std::uint32_t>(k)));
    result.body = diagonal_read(definition.name, subscripts, {});
    return result;
  }

 private:
  std::string free_axis_name(const Definition& definition) const {
    std::string name = "diagonal";
    const auto is_taken = [&] {
      return program_.find_dim(name) || program_.find_input(name) || program_.find_definition(name) ||
             find_index(program_, name) || std::ranges::count(definition.axes, name, &AxisDecl::name) > 0;
    };
    while (is_taken()) name += "_";
    return name;
  }

  static std::string diagonals_of(const std::string& name) { return name + ".diagonals"; }

  void check_axes(const Definition& definition) const {
    for (std::size_t k = 0; k < 2; ++k) {
      const AxisDecl& axis = definition.axes[k];
      if (axis.extent == extents_[k] && axis.range.as_extent() == extents_[k]) continue;
      throw ShapeError(
          fmt::format("axis `{}` of `{}` is not all of the index from 0 on; a scan over two indices takes "
                      "every pair of them: leave elements out by where(..)",
                      axis.name, definition.name));
    }
  }

  /// The index that stands for the step, or the step for the index: the same either way.
  Affine counted(std::size_t axis, const Affine& value) const {
    return backwards_[axis] ? extents_[axis] - Affine(1) - value : value;
  }
  Step step_of(const Step& indices) const { return {counted(0, indices.row), counted(1, indices.column)}; }

  std::string diagonal_text(const Definition& definition) const {
    const std::string factor = slope_ == 1 ? "" : fmt::format("{}*", slope_);
    const auto index = [&](std::size_t axis) { return (backwards_[axis] ? "-" : "") + definition.axes[axis].name; };
    return fmt::format("{}{} + {}", factor, index(0), index(1));
  }

  /// Whether it reads so many rows and columns before.
  bool is_neighbour(const Expr& read) const {
    const Step now = step_of({kRow, kColumn}), then = step_of({read->subscripts[0], read->subscripts[1]});
    return (now.row - then.row).is_constant() && (now.column - then.column).is_constant();
  }

  bool is_in_scan(const Expr& expr) const {
    return expr->kind == NodeKind::Access &&
           std::ranges::find(definitions_, expr->tensor, &Definition::name) != definitions_.end();
  }

  /// What is read so many rows and columns before: the slope must put it on an earlier diagonal. Whether other reads
  /// are earlier is proved of the scan over diagonals.
  void visit_reads(const Definition& definition) {
    const Step now = step_of({kRow, kColumn});
    visit(definition.body, [&](const Expr& expr) {
      if (!is_in_scan(expr) || expr->subscripts.size() < 2) return;
      const Step read = step_of({expr->subscripts[0], expr->subscripts[1]});
      const Affine rows = now.row - read.row, columns = now.column - read.column;
      if (!rows.is_constant() || !columns.is_constant()) return;
      const std::int64_t before = rows.constant(), beside = columns.constant();
      const bool is_here = before == 0 && beside == 0;
      if (before < 0 || (before == 0 && beside < 0))
        throw ShapeError(fmt::format("`{}` reads `{}`, which the scan computes later", definition.name,
                                     print(expr, program_, definition.axes)));
      if (!is_here && before > 0) slope_ = std::max(slope_, (before - beside) / before);
    });
  }

  Expr diagonal_read(const std::string& name, const std::vector<Affine>& subscripts, std::vector<Expr> values) const {
    const Step step = step_of({subscripts[0], subscripts[1]});
    std::vector<Affine> skewed = subscripts;
    skewed[0] = step.row * slope_ + step.column;
    skewed[1] = subscripts[0];
    return tensor_access(diagonals_of(name), std::move(skewed), std::move(values));
  }

  Expr with_diagonals(const Expr& expr) const {
    const Expr mapped = map_children(expr, [&](const Expr& child) { return with_diagonals(child); });
    return is_in_scan(mapped) ? diagonal_read(mapped->tensor, mapped->subscripts, mapped->args) : mapped;
  }

  const Program& program_;
  std::span<const Definition> definitions_;
  std::array<bool, 2> backwards_;
  std::uint32_t number_;
  std::array<Affine, 2> extents_;
  std::int64_t slope_ = 1;  // s of t = s*i + j
};

/// Throws what verify() says of the definitions as they are written, where those of the scan are tensors as any other.
void verify_as_written(const Program& program, std::size_t first) {
  Program written = program;
  written.definitions.resize(first);
  for (std::size_t k = first; k < program.definitions.size(); ++k) {
    const Definition& definition = program.definitions[k];
    std::vector<Affine> shape;
    for (const AxisDecl& axis : definition.axes) shape.push_back(axis.extent);
    written.inputs.push_back({definition.name, definition.dtype, std::move(shape), definition.domain});
  }
  for (std::size_t k = first; k < program.definitions.size(); ++k) {
    written.definitions.resize(first);
    written.definitions.push_back(program.definitions[k]);
    written.definitions.back().scan.reset();
    verify_definition(written, first);
  }
}

}  // namespace

void skew_scan(Program& program, std::size_t first, const std::array<bool, 2>& is_backwards, std::uint32_t number) {
  const std::vector<Definition> definitions(program.definitions.begin() + static_cast<std::ptrdiff_t>(first),
                                            program.definitions.end());
  verify_as_written(program, first);
  const Skewing skewing(program, definitions, is_backwards, number);
  program.definitions.resize(first);
  for (const Definition& definition : definitions) program.definitions.push_back(skewing.over_diagonals(definition));
  for (std::size_t k = 0; k < definitions.size(); ++k) {
    try {
      verify_definition(program, first + k);
    } catch (const TypeError&) {  // which speaks of diagonals
      throw ShapeError(skewing.problem_of(definitions[k]));
    }
  }
  for (const Definition& definition : definitions) program.definitions.push_back(skewing.from_diagonals(definition));
}

}  // namespace moxie
