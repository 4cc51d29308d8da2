#include "compiler/diff/lift_linear_algebra.h"

#include <algorithm>

#include "compiler/diff/open_definition.h"
#include "compiler/diff/operand_guards.h"
#include "compiler/diff/program_builder.h"
#include "compiler/expression/algebra_form.h"
#include "compiler/expression/functions.h"
#include "compiler/program/scans.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

bool contains_algebra(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& node) { found = found || node->kind == NodeKind::LinearAlgebra; });
  return found;
}

bool are_distinct_axes(const std::vector<Affine>& subscripts) {
  std::vector<Symbol> seen;
  for (const Affine& subscript : subscripts) {
    const auto symbol = subscript.as_symbol();
    if (!symbol || symbol->kind() != Symbol::Kind::Axis || std::ranges::find(seen, *symbol) != seen.end()) return false;
    seen.push_back(*symbol);
  }
  return true;
}

/// An operand that depends on the element could not be computed once for all elements.
bool operands_ignore_element(const Expr& algebra) {
  return std::ranges::none_of(algebra->args, [&](const Expr& arg) {
    return std::ranges::any_of(algebra->subscripts,
                               [&](const Affine& s) { return s.as_symbol() && arg->depends_on(*s.as_symbol()); });
  });
}

bool is_algebra_over_axes(const Expr& expr) {
  return expr->kind == NodeKind::LinearAlgebra && are_distinct_axes(expr->subscripts) && operands_ignore_element(expr);
}

bool is_whole_axis(const AxisDecl& axis) { return axis.range.as_extent() == axis.extent; }

/// Whether the definition has all elements of the result.
bool has_whole_result(const Definition& definition) {
  const Expr& body = definition.body;
  for (std::size_t k = 0; k < body->subscripts.size(); ++k) {
    const AxisDecl& axis = definition.axes[body->subscripts[k].as_symbol()->number()];
    if (!is_whole_axis(axis) || axis.extent != element_extent(body->algebra, body->size, k)) return false;
  }
  return true;
}

/// Whether the body stays what it is: positions are integers of 32 bits over whole axes, sorted values are read by
/// them, and libraries compute all of a result, in f32 and f64.
bool stays_root(const Definition& definition) {
  const Expr& body = definition.body;
  if (!is_algebra_over_axes(body)) return false;
  if (!sorts_row(body->algebra)) return is_stored_as_computed(definition.dtype) && has_whole_result(definition);
  return body->algebra == LinearAlgebraKind::ArgSort && definition.dtype == DType::i32 &&
         std::ranges::all_of(definition.axes, is_whole_axis);
}

class Lifting {
 public:
  explicit Lifting(const Program& program)
      : builder_(without_definitions(program)), definitions_(program.definitions), known_(program) {
    for (const Definition& definition : definitions_) builder_.reserve(definition.name);
  }

  Program run() {
    for (const Definition& definition : definitions_) lift(definition);
    return builder_.take();
  }

  Program run_operands(bool (*is_chosen)(const Definition&)) {
    in_own_dtype_ = true;
    for (const Definition& definition : definitions_) {
      if (is_chosen(definition))
        lift_definition(definition);
      else
        builder_.add_definition(definition);
    }
    return builder_.take();
  }

 private:
  static Program without_definitions(Program program) {
    program.definitions.clear();
    return program;
  }

  void lift(const Definition& definition) {
    if (contains_algebra(definition.body) && !is_lifted_linear_algebra(definition))
      lift_definition(definition);
    else
      builder_.add_definition(definition);
  }

  void lift_definition(Definition definition) {
    source_ = &definition;
    const OpenDefinition open = open_definition(definition);
    names_ = names_of(definition, open);
    const GuardedPlace place{open.domain};
    definition.body =
        substitute(stays_root(definition) ? with_lifted_operands(open.body, place) : rewritten(open.body, place),
                   closing_of(open));
    builder_.add_definition(std::move(definition));
  }

  Expr rewritten(const Expr& expr, const GuardedPlace& place) {
    if (!contains_algebra(expr)) return expr;
    if (expr->kind == NodeKind::LinearAlgebra) {
      const Expr algebra = with_lifted_operands(expr, place);
      return algebra->algebra == LinearAlgebraKind::Sort ? sorted(algebra, place.domain)
                                                         : lifted(algebra, place.domain);
    }
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(expr);
      const GuardedPlace inside = place.in_loop(opened.index, opened.range);
      return map_opened(expr, opened, [&](const Expr& child) { return rewritten(child, inside); });
    }
    if (expr->kind == NodeKind::Call && expr->function->name == "where") {
      const Expr condition = rewritten(expr->args[0], place);
      return with_args(expr, {condition, rewritten(expr->args[1], place.where(condition, true)),
                              rewritten(expr->args[2], place.where(condition, false))});
    }
    return map_children(expr, [&](const Expr& child) { return rewritten(child, place); });
  }

  Expr with_lifted_operands(const Expr& algebra, const GuardedPlace& place) {
    const OpenedLinearAlgebra opened = open_algebra(algebra);
    const Range rows = Range::extent(algebra->size.rows);
    const GuardedPlace with_row = place.in_loop(opened.row, rows);
    if (sorts_row(algebra->algebra)) {
      const Expr row = as_row(rewritten(opened.matrix, with_row), with_row);
      return sorted_row(algebra->algebra, opened.row, algebra->size.rows, row, algebra->subscripts[0]);
    }
    const GuardedPlace inner = with_row.in_loop(opened.col, Range::extent(algebra->size.columns));
    const Expr identity =
        call("where", {call("==", {index_value(opened.row), index_value(opened.col)}), constant(1), constant(0)});
    const Expr matrix = as_read(guarded(rewritten(opened.matrix, inner), inner, identity), inner.domain, ".matrix");
    Expr rhs;
    if (opened.rhs)
      rhs = as_read(guarded(rewritten(opened.rhs, with_row), with_row, constant(0)), with_row.domain, ".rhs");
    return linear_algebra(algebra->algebra, opened.row, opened.col, algebra->size, matrix, rhs, algebra->subscripts);
  }

  /// An operand is computed for whole ranges of indices, also for those of which a condition around the operation says
  /// that nobody asks: there its reads may leave their tensors and its matrix may have no factors, in derivatives too.
  /// The identity takes its place, which is regular for every operation. (Ranges of the conditions' own would not do:
  /// conditions may depend on values, and the definitions of a scan take all of its steps.)
  Expr guarded(const Expr& operand, const GuardedPlace& place, const Expr& otherwise) {
    return guarded_operand(conditions_of_operand(reader(), operand, place), operand, otherwise);
  }

  OperandReader reader() const { return {known_, source_->scan}; }

  Expr add_let(const std::string& suffix, DType dtype, const std::vector<OpenAxis>& axes, const Expr& body) {
    Expr read = builder_.add_let(head(suffix, dtype), axes, body);
    known_.definitions.push_back(builder_.program().definitions.back());
    return read;
  }

  Expr as_read(const Expr& operand, const IterationDomain& domain, const char* suffix) {
    if (operand->kind == NodeKind::Access && !needs_copy(operand)) return operand;
    return add_let(suffix, computed_dtype(source_->dtype), axes_of(operand, domain), operand);
  }

  /// A row that is sorted is read in its own dtype, as long as that is one of real numbers.
  Expr as_row(const Expr& operand, const GuardedPlace& place) {
    const bool is_read = operand->kind == NodeKind::Access && !reads_by_value(operand);
    const DType dtype = is_read ? known_.dtype_of(operand->tensor) : computed_dtype(source_->dtype);
    const Expr row = guarded(operand, place, constant(0));
    if (is_read && row == operand && is_stored_as_computed(dtype)) return operand;
    return add_let(".row", computed_dtype(dtype), axes_of(row, place.domain), row);
  }

  /// Libraries read tensors of one dtype, at places that are known.
  bool needs_copy(const Expr& access) const {
    return in_own_dtype_ &&
           (reads_by_value(access) || builder_.program().dtype_of(access->tensor) != computed_dtype(source_->dtype));
  }

  /// The whole result as a definition, read at the element in question.
  Expr lifted(const Expr& algebra, const IterationDomain& domain) {
    std::vector<Symbol> variables;
    std::ranges::copy_if(domain.variables, std::back_inserter(variables), [&](Symbol v) {
      return std::ranges::any_of(algebra->args, [&](const Expr& arg) { return arg->depends_on(v); });
    });
    IterationDomain with_elements = domain;
    Replacement element;
    for (std::size_t k = 0; k < algebra->subscripts.size(); ++k) {
      const Symbol index = Symbol::fresh();
      const Range all = Range::extent(element_extent(algebra->algebra, algebra->size, k));
      with_elements = extended(with_elements, index, all);
      variables.push_back(index);
      element.emplace_back(index, algebra->subscripts[k]);
    }
    const OpenedLinearAlgebra opened = open_algebra(algebra);
    std::vector<Affine> subscripts;
    for (const auto& [index, at] : element) subscripts.emplace_back(index);
    const Expr body =
        linear_algebra(algebra->algebra, opened.row, opened.col, algebra->size, opened.matrix, opened.rhs, subscripts);
    const DType dtype = sorts_row(algebra->algebra) ? DType::i32 : computed_dtype(source_->dtype);
    const Expr read =
        add_let(std::string(".") + to_string(algebra->algebra), dtype, axes_over(variables, with_elements), body);
    return substitute(read, element);
  }

  /// The elements of the row, read at the positions in their order.
  Expr sorted(const Expr& algebra, const IterationDomain& domain) {
    const OpenedLinearAlgebra opened = open_algebra(algebra);
    const Expr order = lifted(
        sorted_row(LinearAlgebraKind::ArgSort, opened.row, algebra->size.rows, opened.matrix, algebra->subscripts[0]),
        domain);
    std::vector<Affine> subscripts;
    const Affine position(Symbol::value(0));
    for (const Affine& subscript : opened.matrix->subscripts)
      subscripts.push_back(subscript.substitute([&](Symbol s) { return s == opened.row ? &position : nullptr; }));
    return tensor_access(opened.matrix->tensor, std::move(subscripts), {order});
  }

  LetHead head(const std::string& suffix, DType dtype) const {
    return {source_->name + suffix, dtype, source_->line, source_->scan};
  }

  std::vector<OpenAxis> axes_of(const Expr& expr, const IterationDomain& domain) const {
    return axes_over(variables_of(reader(), expr, domain), domain);
  }

  std::vector<OpenAxis> axes_over(const std::vector<Symbol>& variables, const IterationDomain& domain) const {
    const auto boxes = boxes_of(domain, variables);
    if (!boxes) {
      throw CompileError("definition " + source_->name +
                         " uses linear algebra under an index whose bounds are not affine in dims; compute it in a "
                         "definition of its own");
    }
    return as_axes(builder_, variables, *boxes, names_);
  }

  ProgramBuilder builder_;
  std::vector<Definition> definitions_;
  Program known_;  // the program with the definitions that were added
  const Definition* source_ = nullptr;
  bool in_own_dtype_ = false;
  std::vector<std::pair<Symbol, std::string>> names_;
};

}  // namespace

bool is_lifted_linear_algebra(const Definition& definition) {
  return stays_root(definition) &&
         std::ranges::all_of(definition.body->args, [](const Expr& arg) { return arg->kind == NodeKind::Access; });
}

Program lift_operands(const Program& program, bool (*is_chosen)(const Definition&)) {
  return Lifting(program).run_operands(is_chosen);
}

Program lift_linear_algebra(const Program& program) { return leave_scans(Lifting(program).run()); }

}  // namespace moxie
