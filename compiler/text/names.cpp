#include "compiler/text/names.h"
#include "compiler/program/identifiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/expression/functions.h"
#include "compiler/text/foreign_words.h"

namespace moxie {
namespace {

/// "an input", ... or an empty string for a name that is free.
std::string kind_of(const Program& program, std::string_view name) {
  if (is_reserved(name)) return "a word of the language";
  if (program.find_dim(name)) return "a dim";
  if (find_index(program, name)) return "an index";
  if (program.find_input(name)) return "an input";
  if (program.find_definition(name)) return "a definition";
  return "";
}

std::vector<std::string> dim_names(const Program& program) {
  std::vector<std::string> names;
  for (const DimDecl& dim : program.dims) names.push_back(dim.name);
  return names;
}

std::string how_to_bind(std::string_view name) {
  return fmt::format("make it an axis of the definition or reduce over it: sum[{}](...)", name);
}

}  // namespace

void Names::check_new(const Program& program, const Token& name, std::string_view what) const {
  std::string kind = kind_of(program, name.text);
  const TextFunction* function = functions_ ? functions_->find(name.text) : nullptr;
  if (function && !functions_->is_prelude(*function)) kind = "a function";
  if (functions_ && functions_->reductions.find(name.text)) kind = "a reduction";
  if (kind.empty()) return;
  tokens_.fail<TypeError>(name, fmt::format("`{}` cannot name {}: it is already {}", name.text, what, kind),
                          "one name names one thing; choose another");
}

void Names::check_bindable(const Program& program, const Token& name) const {
  if (find(name.text)) {
    tokens_.fail<TypeError>(name, fmt::format("index `{}` is already in scope here and would be shadowed", name.text),
                            fmt::format("use another index: declare one, or write [{}2 in low..high]", name.text));
  }
  if (find_argument(name.text)) {
    tokens_.fail<TypeError>(name, fmt::format("`{}` is a parameter here and would be shadowed", name.text),
                            fmt::format("use another index: declare one, or write [{}2 in low..high]", name.text));
  }
  // What a body binds was checked when the function was defined; a later tensor of that name is another thing.
  const bool is_checked = body_ && body_->is_checked;
  if (!is_checked && !find_index(program, name.text)) check_new(program, name, "an index");
}

std::vector<Binding> Names::whole_scope() const {
  std::vector<Binding> result = caller_ ? caller_->whole_scope() : std::vector<Binding>();
  result.insert(result.end(), scope_.begin(), scope_.end());
  return result;
}

const Argument* Names::find_argument(std::string_view name) const {
  const auto it = std::ranges::find(arguments_, name, &Argument::name);
  return it == arguments_.end() ? nullptr : &*it;
}

const Binding* Names::find(std::string_view name) const {
  const auto it =
      std::find_if(scope_.rbegin(), scope_.rend(), [&](const Binding& binding) { return binding.name == name; });
  return it == scope_.rend() ? nullptr : &*it;
}

bool Names::knows(const Program& program, std::string_view name) const {
  return find(name) || find_argument(name) || program.find_dim(name) || find_index(program, name) ||
         program.find_input(name) || program.find_definition(name);
}

Affine Names::resolve_dim(const Program& program, const Token& name) const {
  if (program.find_dim(name.text)) return Symbol::dim(name.text);
  const std::string kind = kind_of(program, name.text);
  const std::string similar = did_you_mean(name.text, dim_names(program));
  tokens_.fail<TypeError>(name,
                          kind.empty() ? fmt::format("dim `{}` is not declared", name.text)
                                       : fmt::format("`{}` is {}, but only dims may stand here", name.text, kind),
                          similar.empty() ? fmt::format("declare it first: dim {}", name.text) : similar);
}

Affine Names::resolve_index(const Program& program, const Token& name) const {
  if (const Binding* binding = find(name.text)) return binding->symbol;
  if (const Argument* argument = find_argument(name.text)) return affine_argument(*argument, name);
  if (program.find_dim(name.text)) return Symbol::dim(name.text);
  if (program.find_input(name.text) || program.find_definition(name.text)) {
    tokens_.fail<TypeError>(name,
                            fmt::format("`{}` is a tensor; only indices, dims and integers may stand here", name.text),
                            "subscripts and bounds are affine in indices; to select by value, reduce with where(...)");
  }
  fail_unknown(program, name);
}

const Affine& Names::affine_argument(const Argument& argument, const Token& name) const {
  if (argument.value.affine) return *argument.value.affine;
  if (argument.is_tensor) {
    tokens_.fail<TypeError>(
        name, fmt::format("parameter `{}` is a tensor; only indices, dims and integers may stand here", name.text),
        "give the function an index or a dim, or an element of an integer tensor, such as idx[i]");
  }
  tokens_.fail<TypeError>(name,
                          fmt::format("parameter `{}` stands in a subscript or range, but the argument is no "
                                      "combination of indices, dims and integers",
                                      name.text),
                          "give the function an integer, such as i+1 or idx[i]; to compute one, name it: "
                          "let j[i]: i32 = floor(..), and give j[i]");
}

namespace {

/// Whether the line in which the name stands defines it.
bool is_defined_there(std::string_view text, const Token& name) {
  std::string_view line = text.substr(0, name.offset);
  line.remove_prefix(line.find_last_of('\n') + 1);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  return std::ranges::any_of(std::array<std::string_view, 2>{"let ", "output "}, [&](std::string_view word) {
    if (!line.starts_with(word)) return false;
    const std::string_view rest = line.substr(word.size());
    return rest.starts_with(name.text) && rest.size() > name.text.size() &&
           !is_identifier(rest.substr(0, name.text.size() + 1));
  });
}

}  // namespace

void Names::fail_unknown(const Program& program, const Token& name) const {
  if (find_index(program, name.text)) {
    tokens_.fail<TypeError>(name, fmt::format("index `{}` is not bound here", name.text), how_to_bind(name.text));
  }
  if (is_reserved(name.text)) {
    tokens_.fail<ParseError>(name, fmt::format("`{}` is a word of the language and no value", name.text),
                             fmt::format("functions are called: {}(x)", name.text));
  }
  std::vector<std::string> known = dim_names(program);
  for (const IndexDecl& index : program.indices) known.push_back(index.name);
  for (const InputDecl& input : program.inputs) known.push_back(input.name);
  for (const Definition& definition : program.definitions) known.push_back(definition.name);
  for (const Binding& binding : scope_) known.push_back(binding.name);
  for (const Argument& argument : arguments_) known.emplace_back(argument.name);
  std::string hint;
  if (is_defined_there(tokens_.source().text(), name))
    hint = fmt::format(
        "a definition that reads its elements of an earlier step stands in a scan over its first index: "
        "`scan t {{ let {0}[t] = where(t == 0, .., {0}[t-1]) }}`",
        name.text);
  if (hint.empty()) hint = did_you_mean(name.text, known);
  if (hint.empty()) hint = said_here(name.text);
  if (hint.empty()) hint = "declare it in a line above: `input` or `let` for tensors, `index` for indices, `dim`";
  tokens_.fail<TypeError>(name, fmt::format("`{}` is not declared", name.text), hint);
}

}  // namespace moxie
