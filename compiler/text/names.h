#pragma once
// Names: what the names of a program under construction stand for, and the messages about those that stand for nothing.
#include <string>
#include <vector>

#include "compiler/program/declared_extents.h"
#include "compiler/program/program.h"
#include "compiler/text/text_function.h"
#include "compiler/text/token_stream.h"

namespace moxie {

/// An index that is in scope: an axis of the definition, or bound by an enclosing reduction.
struct Binding {
  std::string name;
  Symbol symbol;
  Range range;
};

class Names {
 public:
  explicit Names(const TokenStream& tokens) : tokens_(tokens) {}
  Names(const TokenStream& tokens, TextFunctions& functions) : tokens_(tokens), functions_(&functions) {}
  /// Inside the body of a function: its arguments, no index in scope.
  Names(const TokenStream& tokens, TextFunctions& functions, const TextFunction& body, std::vector<Argument> arguments)
      : tokens_(tokens), functions_(&functions), body_(&body), arguments_(std::move(arguments)) {}

  /// The functions that the text defines. None where expressions are read that call none.
  TextFunctions* functions() const { return functions_; }
  const TextFunction* find_function(std::string_view name) const {
    return functions_ ? functions_->find(name, body_) : nullptr;
  }
  /// The argument in the place of a parameter of this name, or nullptr.
  const Argument* find_argument(std::string_view name) const;

  /// Throws TypeError unless the name is free in the whole program; `what` is what it shall name.
  void check_new(const Program& program, const Token& name, std::string_view what) const;
  /// Throws TypeError unless the name may become an index here: no tensor, no dim and nothing in scope.
  void check_bindable(const Program& program, const Token& name) const;

  void bind(Binding binding) { scope_.push_back(std::move(binding)); }
  void unbind(std::size_t count) { scope_.erase(scope_.end() - static_cast<std::ptrdiff_t>(count), scope_.end()); }
  const std::vector<Binding>& scope() const { return scope_; }
  /// Inside the body of a function, the names around its call are `caller`'s, which outlive this object.
  void stand_inside(const Names& caller) { caller_ = &caller; }
  /// All indices in scope, the outermost first, with those around the call of a function.
  std::vector<Binding> whole_scope() const;
  /// The innermost binding of the name, or nullptr.
  const Binding* find(std::string_view name) const;

  /// Whether the name stands for something here: an index, dim, tensor or argument.
  bool knows(const Program& program, std::string_view name) const;
  /// A dim, for shapes and the ranges of declared indices.
  Affine resolve_dim(const Program& program, const Token& name) const;
  /// An index in scope or a dim.
  Affine resolve_index(const Program& program, const Token& name) const;

  /// For a name that is not known where an expression may stand.
  [[noreturn]] void fail_unknown(const Program& program, const Token& name) const;

 private:
  const Affine& affine_argument(const Argument& argument, const Token& name) const;

  const TokenStream& tokens_;
  TextFunctions* functions_ = nullptr;
  const TextFunction* body_ = nullptr;
  std::vector<Argument> arguments_;
  std::vector<Binding> scope_;
  const Names* caller_ = nullptr;
};

}  // namespace moxie
