#include "compiler/text/use_parser.h"
#include "compiler/program/declared_extents.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/program/compose.h"
#include "compiler/text/affine_parser.h"

namespace moxie {
namespace {

template <class Items>
void append_names(std::vector<std::string>& names, const Items& items) {
  for (const auto& item : items) names.push_back(item.name);
}

class UseParser {
 public:
  UseParser(TokenStream& tokens, Program& program, const Names& names, const TextLibrary& library)
      : tokens_(tokens), program_(program), names_(names), library_(library) {}

  void run() {
    const Token name = tokens_.expect_name("the name of a formula");
    formula_ = find(name);
    tokens_.expect("(", fmt::format("write use {}(input = tensor, ...) as name", name.text));
    while (!tokens_.at(")")) {
      bind();
      if (!tokens_.accept(",")) break;
    }
    tokens_.expect(")");
    if (tokens_.accept("as")) {
      if (!tokens_.at("("))
        how_.prefix = std::string(tokens_.expect_name("the name that goes before those of the definitions").text) + ".";
      if (tokens_.accept("(")) rename();
    }
    append(name);
  }

 private:
  Program find(const Token& name) const {
    if (!library_.formula) tokens_.fail<TypeError>(name, "this text is read without a catalogue of formulas");
    if (std::optional<Program> found = library_.formula(name.text)) return std::move(*found);
    const std::string similar = did_you_mean(name.text, library_.formula_names);
    tokens_.fail<TypeError>(name, fmt::format("there is no formula `{}`", name.text),
                            similar.empty() ? "`moxie ops` lists all" : similar);
  }

  /// `a = x`, `J = 2*K`, or `lambda` for lambda = lambda. A definition of the formula may be bound like an input.
  void bind() {
    const Token name = tokens_.expect_name("the name of an input");
    const std::string bound(name.text);
    if (how_.inputs.contains(bound) || how_.dims.contains(bound))
      tokens_.fail<TypeError>(name, fmt::format("`{}` is bound twice", bound));
    if (formula_.find_dim(bound)) {
      const NameResolver dims{[this](const Token& used) { return names_.resolve_dim(program_, used); },
                              [this](const Affine& value) { return value_in_text(program_, value); }};
      how_.dims.emplace(bound, tokens_.accept("=") ? parse_affine(tokens_, dims) : names_.resolve_dim(program_, name));
      return;
    }
    if (!formula_.find_input(bound) && !formula_.find_definition(bound)) fail_no_input(name);
    const Token tensor = tokens_.accept("=") ? tokens_.expect_name("the name of a tensor") : name;
    if (!program_.find_input(tensor.text) && !program_.find_definition(tensor.text))
      tokens_.fail<TypeError>(tensor, fmt::format("`{}` is no tensor", tensor.text),
                              "an input is bound to a tensor that is declared above; name an expression with `let`");
    how_.inputs.emplace(bound, tensor.text);
  }

  [[noreturn]] void fail_no_input(const Token& name) const {
    std::vector<std::string> known;
    append_names(known, formula_.inputs);
    append_names(known, formula_.dims);
    const std::string similar = did_you_mean(name.text, known);
    tokens_.fail<TypeError>(name, fmt::format("the formula `{}` has no input `{}`", formula_.name, name.text),
                            similar.empty() ? fmt::format("it has {}", fmt::join(known, ", ")) : similar);
  }

  /// `(alpha = k, beta = weights)`
  void rename() {
    do {
      const Token name = tokens_.expect_name("the name of a definition of the formula");
      if (!formula_.find_definition(name.text)) {
        std::vector<std::string> known;
        append_names(known, formula_.definitions);
        const std::string similar = did_you_mean(name.text, known);
        tokens_.fail<TypeError>(name, fmt::format("the formula `{}` defines no `{}`", formula_.name, name.text),
                                similar.empty() ? fmt::format("it defines {}", fmt::join(known, ", ")) : similar);
      }
      tokens_.expect("=", fmt::format("write {} = its name here", name.text));
      const Token here = tokens_.expect_name("the name of a definition");
      names_.check_new(program_, here, "a definition");
      how_.outputs[std::string(name.text)] = here.text;
    } while (tokens_.accept(","));
    tokens_.expect(")");
  }

  void check_names(const Token& at) const {
    for (const Definition& definition : formula_.definitions) {
      if (how_.outputs.contains(definition.name)) continue;
      const std::string name = how_.prefix + definition.name;
      names_.check_new(program_, {TokenKind::Name, name, at.offset}, "a definition of this formula");
    }
  }

  void append(const Token& at) {
    formula_ = with_bound_definitions(std::move(formula_), how_);
    check_names(at);
    const std::size_t first = program_.definitions.size();
    try {
      include(program_, formula_, how_);
    } catch (const TypeError& error) {
      tokens_.fail<TypeError>(at, error.what());
    } catch (const ShapeError& error) {
      tokens_.fail<ShapeError>(at, error.what());
    }
    for (std::size_t k = first; k < program_.definitions.size(); ++k) {
      Definition& definition = program_.definitions[k];
      definition.output = false;
      definition.line = tokens_.source().line_of(at.offset);
      for (AxisDecl& axis : definition.axes) axis.name = free_name(definition, axis);
    }
  }

  /// The name of an axis, unless something else is called so here.
  std::string free_name(const Definition& definition, const AxisDecl& axis) const {
    const auto is_taken = [&](const std::string& name) {
      const bool is_axis = std::ranges::any_of(
          definition.axes, [&](const AxisDecl& other) { return &other != &axis && other.name == name; });
      return is_axis || program_.find_dim(name) || program_.find_input(name) || program_.find_definition(name);
    };
    if (!is_taken(axis.name)) return axis.name;
    for (int number = 2;; ++number) {
      std::string name = axis.name + std::to_string(number);
      if (!is_taken(name)) return name;
    }
  }

  TokenStream& tokens_;
  Program& program_;
  const Names& names_;
  const TextLibrary& library_;
  Program formula_;
  Inclusion how_;
};

}  // namespace

void parse_use(TokenStream& tokens, Program& program, const Names& names, const TextLibrary& library) {
  UseParser(tokens, program, names, library).run();
}

}  // namespace moxie
