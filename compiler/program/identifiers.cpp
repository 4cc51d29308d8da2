#include "compiler/program/identifiers.h"

#include <set>

#include "compiler/expression/algebra_form.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

std::set<std::string_view> reserved_words() {
  std::set<std::string_view> words = {"dim",     "index", "input", "let",  "output",    "dtype",
                                      "dynamic", "in",    "of",    "and",  "or",        "not",
                                      "inf",     "nan",   "ceil",  "scan", "backwards", "recompute"};
  for (const DTypeInfo& row : dtypes()) words.insert(row.name);
  for (const ScalarFunction& row : scalar_functions()) {
    if (row.name != "neg") words.insert(row.name);  // texts write it as `-`
  }
  for (int kind = 0; kind <= static_cast<int>(kLastReduceKind); ++kind)
    words.insert(to_string(static_cast<ReduceKind>(kind)));
  for (int kind = 0; kind <= static_cast<int>(kLastAlgebraKind); ++kind) {
    const auto algebra = static_cast<LinearAlgebraKind>(kind);
    if (!sorts_row(algebra)) words.insert(to_string(algebra));  // a form, told from a tensor by what follows it
  }
  for (const RandomKind kind : {RandomKind::Normal, RandomKind::Uniform}) words.insert(to_string(kind));
  return words;
}

}  // namespace

bool is_identifier(std::string_view name) {
  bool part_start = true;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '.' && !part_start)
      part_start = true;
    else if (is_word(name[i]))
      part_start = false;
    else
      return false;
  }
  return !part_start && is_letter(name[0]);
}

bool is_reserved(std::string_view name) {
  static const std::set<std::string_view> words = reserved_words();
  return words.contains(name);
}

}  // namespace moxie
