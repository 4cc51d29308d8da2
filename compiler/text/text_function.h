#pragma once
// Functions that a .mox text defines: `def rbf(x, z, l) = exp(-(x - z)^2/(2*l^2))`.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/text/text_reduction.h"
#include "compiler/text/token_stream.h"

namespace moxie {

/// An expression that was read. `affine` is set for an integer literal, an index or dim, and for a sum or product of
/// such that was folded into one IndexValue; parentheses clear it, so that `(i) + 1` keeps its sum.
struct Operand {
  Expr expr;
  std::optional<Affine> affine;
  int depth = 1;
  double size = 1;        // operations, written out without sharing
  bool is_truth = false;  // an element of a bool tensor, at a quotient or a choice
};

struct FunctionParameter {
  Token name;
  std::size_t open = 0;  // subscripts that the body gives; 0 for a number
  bool is_tensor = false;
};

/// The body is read again for every call, with the arguments in the place of the parameters.
struct TextFunction {
  Token name;
  TokenStream* tokens;  // of the text that defines it
  std::vector<FunctionParameter> parameters = {};
  std::size_t body = 0;    // the position of the body's first token
  std::size_t number = 0;  // a body calls functions of smaller number only, so that no function calls itself
  bool is_checked = false;
};

/// `derivative f.x = expression`: the expression is read as the body of a function of the parameters of f.
struct DeclaredDerivative {
  const TextFunction* of;
  std::size_t parameter;
  TextFunction slope;
};

/// What a parameter stands for while a body is read.
struct Argument {
  std::string_view name;
  Operand value;  // of a tensor, the access with open_subscript() where the body gives a subscript
  std::size_t open = 0;
  bool is_tensor = false;
};

/// Stands for a subscript that is left open, as in `V[:,n]`.
Symbol open_subscript();

/// The functions that are defined so far, those of the language's prelude among them.
class TextFunctions {
 public:
  TextFunctions();
  TextFunctions(const TextFunctions&) = delete;
  TextFunctions& operator=(const TextFunctions&) = delete;

  /// The latest function of that name; of those that the body of `caller` may call, if it is given.
  const TextFunction* find(std::string_view name, const TextFunction* caller = nullptr) const;
  /// Whether the function is part of the language: a text may define another one of that name.
  bool is_prelude(const TextFunction& function) const { return function.number < prelude_size_; }
  const TextFunction& add(TextFunction function);
  /// The function number that the next one gets.
  std::size_t next_number() const { return functions_.size(); }
  std::vector<std::string> names() const;

  /// The reductions that are defined so far.
  TextReductions reductions;

  /// The name of the function whose body is being checked, empty otherwise.
  std::string_view being_defined;

  /// The slope that the text declares for a parameter, or nullptr.
  const TextFunction* slope(const TextFunction& function, std::size_t parameter) const;
  void declare(DeclaredDerivative derivative) { derivatives_.push_back(std::move(derivative)); }
  /// The function of which a slope is being checked, or nullptr.
  const TextFunction* being_differentiated = nullptr;
  /// Functions that were called: a derivative that is declared later would not hold for these calls.
  std::set<const TextFunction*> called;

  /// Results of calls by function, number of axes around the call and arguments, so that equal calls are read once.
  using CallKey = std::tuple<const TextFunction*, std::size_t, std::vector<std::pair<const Node*, bool>>>;
  const Operand* known_result(const CallKey& key) const;
  void remember(const CallKey& key, const std::vector<Argument>& arguments, const Operand& result);
  /// The calls that were read; a text that makes very many of few lines is refused.
  std::size_t calls = 0;

 private:
  struct Result {
    std::vector<Argument> arguments;  // keep the nodes of the key alive
    Operand value;
  };

  std::unique_ptr<SourceText> prelude_text_;
  std::unique_ptr<TokenStream> prelude_tokens_;
  std::size_t prelude_size_ = 0;
  std::deque<TextFunction> functions_;          // a deque, as addresses stay
  std::deque<DeclaredDerivative> derivatives_;  // likewise
  std::map<CallKey, Result> results_;
};

/// Reads `name(parameters) =` and skips the body.
TextFunction read_signature(TokenStream& tokens);
/// Reads `function.parameter =` and skips the expression.
DeclaredDerivative read_derivative(TokenStream& tokens, const TextFunctions& functions);

}  // namespace moxie
