#pragma once
// Reads what declarations and definitions are made of: names, dtypes, axes, domains of values, bodies.
#include <cstddef>
#include <string>
#include <vector>

#include "compiler/text/affine_parser.h"
#include "compiler/text/names.h"

namespace moxie {

/// Reads items with commas between them.
template <class Item>
void parse_list(TokenStream& tokens, Item item) {
  do item();
  while (tokens.accept(","));
}

/// Reads parts of statements of one text into its Program. Throws ParseError, TypeError or ShapeError that shows the
/// line for what does not fit.
class DefinitionParser {
 public:
  DefinitionParser(TokenStream& tokens, Program& program, TextFunctions& functions, Names& names)
      : tokens_(tokens), program_(program), functions_(functions), names_(names) {}

  /// A name that is free in the whole Program.
  Token new_name(const std::string& what);
  DType dtype();
  /// That behind a colon, or else the Program's.
  DType optional_dtype();
  /// `>= 0`, `< 1`, or both with `and` between them; any value if none stands here.
  ValueDomain value_domain();
  /// What dims stand for.
  NameResolver dim_resolver() const;

  /// `[i,j]: dtype >= 0 =`, all behind a name and up to the body.
  Definition head(const Token& name, bool is_output);
  /// The body of the definition. Scans of reductions that the text defines are written above `position`, which moves
  /// on with them.
  Expr body(const Definition& definition, std::size_t& position);

 private:
  bool value_bound(ValueDomain& domain);
  Expr body(const Definition& definition);
  std::vector<AxisDecl> axes();
  Affine default_extent(const Token& name, const Range& range);

  TokenStream& tokens_;
  Program& program_;
  TextFunctions& functions_;
  Names& names_;
};

}  // namespace moxie
