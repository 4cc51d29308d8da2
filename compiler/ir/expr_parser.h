#pragma once
// Reads expressions: operators, calls, accesses, reductions, linear algebra and random draws.
#include "compiler/ir/affine_parser.h"
#include "compiler/ir/names.h"

namespace moxie {

/// An expression that was read. `affine` is set for an integer literal, an index or dim, and for a sum or product of
/// such that was folded into one IndexValue; parentheses clear it, so that `(i) + 1` keeps its sum.
struct Operand {
  Expr expr;
  std::optional<Affine> affine;
  int depth = 1;
};

class ExprParser {
 public:
  /// `axes` is the number of axes of the definition, which are in scope in `names`.
  ExprParser(TokenStream& tokens, const Program& program, Names& names, std::size_t axes)
      : tokens_(tokens), program_(program), names_(names), axes_(axes) {}

  /// The binding for an index: declared, or with a range of its own: `t`, `t in r..R`.
  static Binding parse_binder(TokenStream& tokens, const Program& program, const Names& names, Symbol symbol);

  Operand disjunction();

 private:
  Operand conjunction();
  Operand negation();
  Operand comparison();
  Operand sum();
  Operand product();
  Operand unary();
  Operand power();
  Operand primary();

  Operand named();
  Operand function_call(const Token& name);
  [[noreturn]] void fail_no_function(const Token& name) const;
  bool is_tensor(std::string_view name) const;
  Operand reduction(ReduceKind kind);
  Operand linear_algebra(LinearAlgebraKind kind);
  Operand random(const Token& name, RandomKind kind);
  Operand access(const Token& name);
  Operand bare_name(const Token& name);

  /// The two index names of a matrix: `[r,t]`.
  struct MatrixNames {
    Token row_token, col_token;
    Binding row, col;
    Affine size;
  };
  MatrixNames matrix_names();
  Binding matrix_binder();
  std::vector<Affine> matrix_element(LinearAlgebraKind kind, const MatrixNames& matrix);
  Expr right_hand_side(const MatrixNames& matrix, int& depth);

  Operand make_call(std::string_view function, std::vector<Operand> args);
  /// One call of an associative operator, or the IndexValue that it folds to.
  Operand make_chain(std::string_view function, std::vector<Operand> args, const std::optional<Affine>& folded);
  std::optional<double> literal() const;
  NameResolver index_resolver() const;

  TokenStream& tokens_;
  const Program& program_;
  Names& names_;
  std::size_t axes_;
};

}  // namespace moxie
