#pragma once
// Reads expressions: operators, calls, accesses, reductions, linear algebra and random draws.
#include <span>

#include "compiler/program/placeholders.h"
#include "compiler/text/affine_parser.h"
#include "compiler/text/names.h"

namespace moxie {

class ExprParser {
 public:
  /// `axes` is the number of axes of the definition, which are in scope in `names`.
  ExprParser(TokenStream& tokens, const Program& program, Names& names, std::size_t axes)
      : tokens_(tokens), program_(program), names_(names), axes_(axes) {}

  /// The binding for an index: declared, or with a range of its own: `t`, `t in r..R`.
  static Binding parse_binder(TokenStream& tokens, const Program& program, const Names& names, Symbol symbol);

  Operand disjunction();
  Operand sum();

 private:
  Operand conjunction();
  Operand negation();
  Operand comparison();
  Operand product();
  Operand unary();
  Operand power();
  Operand primary();

  Operand named();
  Operand function_call(const Token& name);
  Operand choice(std::vector<Operand> args);
  // compiler/text/function_parser.cpp
  Operand text_function_call(const Token& name, const TextFunction& function);
  Argument argument(const Token& call, const TextFunction& function, const FunctionParameter& parameter);
  Argument tensor_argument(const Token& call, const TextFunction& function, const FunctionParameter& parameter);
  Operand expand(const Token& call, const TextFunction& function, const std::vector<Argument>& arguments);
  Operand read_with_slopes(const Token& call, const TextFunction& function, const std::vector<Argument>& arguments);
  Operand read_body(const Token& call, const TextFunction& function, std::vector<Argument> arguments);
  Expr element_of(const Token& name, const Argument& tensor, Placeholders& placeholders);
  /// The tensor's access with `given` in the place of its open subscripts.
  static Expr with_subscripts(const Argument& tensor, const std::vector<Affine>& given, std::vector<Expr> values);
  [[noreturn]] void fail_call(const Token& call, const TextFunction& function, const std::string& message,
                              const std::string& hint = "") const;
  [[noreturn]] void fail_no_function(const Token& name) const;
  bool is_tensor(std::string_view name) const;
  Operand reduction(ReduceKind kind);
  /// What a reduction is over: its loops, and the conditions on their indices that stand for ranges by data.
  struct Loops {
    std::vector<Binding> bindings;
    std::vector<Operand> conditions;
    std::vector<Placeholders> quotients;  // that the ends of each range mention: they are bound around its loop
  };
  /// `[r,t in low..high]`: the loops, which are not yet in scope.
  Loops binders(const std::string& hint);
  void add_loop(Loops& loops);
  bool at_range_by_data() const;
  void add_data_range(const Token& name, Loops& loops);
  std::vector<Operand> ends_of_range(std::string_view combine, Placeholders& quotients);
  Operand end_of_range(Placeholders& quotients);
  /// Where the conditions hold the operand, else the number.
  Operand only_where(const std::vector<Operand>& conditions, Operand operand, double otherwise);
  /// The reduction of what stands inside the loops.
  static Expr reduced(ReduceKind kind, const Loops& loops, Expr body, const Expr& position = {});
  /// The reduction of `(e)` or, of a search, `(e, position)`.
  Operand reduction_body(ReduceKind kind, const Loops& loops);
  /// `(e)` inside these loops; `(e, position)` where a position may follow.
  Operand looped(const Loops& loops, Operand* position = nullptr);
  /// The reduction of an element inside these loops.
  Operand reduction_of(ReduceKind kind, const Loops& loops, Operand element, Operand position = {{}, {}, 0, 0});
  // compiler/text/named_forms_parser.cpp
  std::optional<Operand> named_form(const Token& name);
  struct NamedForm;
  static const NamedForm* find_named_form(std::string_view name);
  Operand mean(const Token& name);
  Operand variance(const Token& name);
  Operand mean_of(const Loops& loops, Operand element);
  Operand any_or_all(const Token& name);
  Operand softmax(const Token& name);
  Operand sorted(const Token& name);
  Operand singular_vectors(const Token& name);
  /// `[k](e`, up to the parenthesis that closes: an index for a loop over its range, and what depends on it.
  struct RowForm {
    Token index;
    Loops loops;                  // one
    std::optional<Symbol> outer;  // the index of that name around it
    Operand body;
    const Binding& loop() const { return loops.bindings[0]; }
  };
  RowForm row_form(const Token& name);
  /// Elements of integer tensors are added to `values`, where these are given, and may not stand there otherwise.
  Affine row_element(const Token& name, const RowForm& row, Placeholders& placeholders, std::vector<Expr>* values);
  Affine row_size(const Token& name, const RowForm& row) const;
  Loops loop_or_axis();
  // compiler/text/reduction_parser.cpp
  std::optional<Operand> defined_reduction(const Token& name);
  Operand state_reduction(const Token& name, const Monoid& monoid, const std::function<Expr(const State&)>& result_of);
  Expr as_number(const Token& at, const Expr& element) const;
  State reduced_state(const Token& name, const Monoid& monoid, const Binding& loop, const State& elements);
  OuterIndex outer_index(const Binding& binding) const;
  void check_outside_scan(const Token& name, const State& elements) const;
  Operand table(const Token& opening);
  Operand table_element(const Token& opening, Placeholders& placeholders);
  Operand choose_element(std::span<Operand> elements, std::int64_t first, const Affine& at);
  bool is_inside_table(const Affine& at, const Placeholders& placeholders, std::size_t size) const;
  Operand linear_algebra(LinearAlgebraKind kind);
  Operand random(const Token& name, RandomKind kind);
  Operand access(const Token& name);
  Expr element(const Token& name, Placeholders& placeholders);
  /// The expression with what the placeholders stand for; `at` is what an error points at.
  Operand bind(const Token& at, const Placeholders& placeholders, Operand operand);
  /// The expression with products of an index, in parentheses too, and dims that have values in the text as affine
  /// ones.
  Expr with_products_of_dims(const Expr& expr) const;
  Operand divided_value(const Token& mark, Operand value);
  Operand divided_number(const Token& mark, Operand value, Operand by);
  Operand bare_name(const Token& name);
  std::optional<Operand> constant_named(const Token& name) const;

  /// The two index names of a matrix: `[r,t]`.
  struct MatrixNames {
    Token row_token, col_token;
    Binding row, col;
    MatrixSize size;
  };
  MatrixNames matrix_names(LinearAlgebraKind kind);
  Binding matrix_binder();
  std::vector<Affine> matrix_element(LinearAlgebraKind kind, const MatrixNames& matrix);
  /// Its depth and size are added to those of the `whole`.
  Expr right_hand_side(const MatrixNames& matrix, Operand& whole);

  Operand make_call(std::string_view function, std::vector<Operand> args);
  Operand as_condition(Operand operand) const;
  /// One call of an associative operator, or the IndexValue that it folds to.
  Operand make_chain(std::string_view function, std::vector<Operand> args, const std::optional<Affine>& folded);
  std::optional<double> literal() const;
  static constexpr double kMaxSize = 1e6;  // operations of one expression, written out
  /// Throws ParseError where an expression is too large to be written out.
  void check_size(const Token& at, const Operand& operand) const;
  NameResolver index_resolver() const;
  /// For subscripts, in which elements of integer tensors may stand; these are added to `values`. Without
  /// `placeholders` their own subscripts are not divided.
  NameResolver subscript_resolver(std::vector<Expr>& values, Placeholders* placeholders);
  IntegerForms integer_forms(Placeholders& placeholders);
  std::optional<Affine> divided(std::string_view mark, const Affine& value, const Affine& divisor,
                                Placeholders& placeholders) const;
  std::optional<Affine> chosen_integer(const Token& name, Placeholders& placeholders);
  Affine integer_of_table(const Token& opening, Placeholders& placeholders);
  IndexDomain indices_in_scope(const Placeholders& placeholders) const;
  std::optional<std::int64_t> divisor_value(const Affine& divisor) const;
  void refuse_computed_subscript(const Token& name) const;
  std::optional<Affine> argument_integer(const Token& name, std::vector<Expr>& values,
                                         Placeholders* placeholders) const;
  bool stands_for_element(const Token& name) const;
  Expr integer_element(const Token& name, Placeholders* placeholders);

  TokenStream& tokens_;
  const Program& program_;
  Names& names_;
  std::size_t axes_;
};

/// Checks the body of a function once, for arguments of any kind, and adds the function to `functions`.
void define_function(const Program& program, TextFunctions& functions, TextFunction function);
/// Checks the slope, and adds it.
void declare_derivative(const Program& program, TextFunctions& functions, DeclaredDerivative derivative);

}  // namespace moxie
