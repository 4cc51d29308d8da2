#pragma once
// Writes expressions as .mox text with the fewest parentheses that read back as the same nodes.
#include <optional>
#include <string>
#include <vector>

#include "compiler/expression/quotients.h"
#include "compiler/program/affine_printer.h"
#include "compiler/program/program.h"

namespace moxie {

class ExprPrinter {
 public:
  ExprPrinter(const Program& program, const std::vector<AxisDecl>& axes);
  std::string print(const Expr& expr) { return print(expr, 0); }
  std::string print(const Affine& affine) const { return index_text(affine, spelling()); }
  std::string print(const Range& range) const { return range_text(range, spelling()); }
  /// Brings a bound index into scope, so that what stands in its reduction can be printed alone. One that stands for a
  /// quotient is printed as that.
  void enter(Symbol symbol, const Range& range);
  /// `n`, `t in r..R` or `t in 0..2*r+1 of 2*R`.
  std::string axis(std::size_t position) const;

 private:
  /// A name that stands for an index at the place that is being printed.
  struct InScope {
    Symbol symbol;
    std::string name;
    Range range;
    std::optional<Quotient> quotient = {};  // printed in the place of the name
  };
  /// A sum over quotients that is printed without them.
  struct Divided {
    std::string text;
    bool is_number;  // i//2 or i%2, which bind like a product
  };

  /// The text, in parentheses if it binds weaker than `strength`.
  std::string print(const Expr& expr, int strength);
  std::string bare(const Node& node);
  std::string access(const Node& node);
  std::string call(const Node& node);
  std::string infix(const Node& node, const char* separator, int first, int others);
  std::string sum(const Node& node);
  std::string product(const Node& node);
  std::string negation(const Node& node);
  std::optional<Divided> divided(const Node& node);
  std::optional<Divided> divided_body(const Node& body, const Quotient& innermost, Symbol symbol);
  /// The affine expression, with remainders of the quotients in scope: 2*(i%3)+k.
  std::string index_text(const Affine& affine, const SymbolSpelling& spell) const;
  std::string dividend_text(const Affine& value) const;
  std::string reduction(const Node& node);
  std::string algebra(const Node& node);
  std::string matrix_at(const Node& node, const Range& rows, const Range& columns);
  std::string sort_at(const Node& node, const std::string& index);
  std::string algebra_at(const Node& node, const std::string& row, const std::string& col);
  std::string random(const Node& node) const;

  /// Whether the element that is taken can be told by naming the matrix's indices like those around it.
  bool shares_outer_names(const Node& node) const;
  /// A name for an index over `range` that is not in scope: that of a declared index, or a new one.
  std::string choose_name(const Range& range) const;
  std::string binder(const std::string& name, const Range& range) const;
  std::string name_index(Symbol symbol, const Range& range);
  const InScope* find(Symbol symbol) const;
  const InScope* element_index(const Affine& subscript) const;
  bool in_scope(const std::string& name) const;
  SymbolSpelling spelling() const;

  const Program& program_;
  const std::vector<AxisDecl>& axes_;
  std::vector<InScope> scope_;
  const char* quotient_mark_ = "/";           // `//` among numbers
  mutable std::vector<Symbol> divided_here_;  // the quotients that were spelled, in the order of the text
};

}  // namespace moxie
