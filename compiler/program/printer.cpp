// Writes programs as .mox text.
#include <fmt/format.h>

#include "compiler/program/expr_printer.h"
#include "compiler/program/scans.h"

namespace moxie {
namespace {

constexpr std::size_t kWidth = 100;  // lists of declarations start a new statement beyond it

/// `word a, b, c`, continued in further statements of the same word.
void append_list(std::string& text, std::string_view word, const std::vector<std::string>& items) {
  std::string line;
  for (const std::string& item : items) {
    const bool fits = line.size() + item.size() + 2 <= kWidth;
    if (!line.empty() && !fits) text += std::exchange(line, "") + "\n";
    line += line.empty() ? fmt::format("{} {}", word, item) : ", " + item;
  }
  if (!line.empty()) text += line + "\n";
}

std::string dim_text(const DimDecl& dim) {
  return dim.name + (dim.dynamic ? " dynamic" : "") + (dim.value ? fmt::format(" = {}", *dim.value) : "");
}

std::string index_text(const IndexDecl& index) {
  const SymbolSpelling spell = [](Symbol symbol) { return symbol.name(); };
  if (const std::optional<Affine> extent = index.range.as_extent())
    return index.name + ":" + affine_text(*extent, spell);
  return index.name + " in " + range_text(index.range, spell);
}

std::string dtype_text(DType dtype, const Program& program) {
  return dtype == program.default_dtype ? "" : fmt::format(": {}", to_string(dtype));
}

/// What is declared after the name and the axes.
std::string declared_text(DType dtype, const ValueDomain& domain, const Program& program) {
  return dtype_text(dtype, program) + (domain == ValueDomain::Any ? "" : " " + to_string(domain));
}

std::string input_text(const InputDecl& input, const Program& program) {
  std::string text = input.name;
  if (!input.shape.empty())
    text += "[" + affine_list_text(input.shape, [](Symbol symbol) { return symbol.name(); }) + "]";
  text += declared_text(input.dtype, input.domain, program);
  return input.role == InputRole::Data ? text : text + " init " + to_string(input.start);
}

const char* keyword(InputRole role) {
  return role == InputRole::Data ? "input" : role == InputRole::Parameter ? "parameter" : "state";
}

/// In the order of the program: inputs of one role that follow each other are one list.
void append_inputs(std::string& text, const Program& program) {
  for (std::size_t first = 0; first < program.inputs.size();) {
    const InputRole role = program.inputs[first].role;
    std::vector<std::string> items;
    for (; first < program.inputs.size() && program.inputs[first].role == role; ++first)
      items.push_back(input_text(program.inputs[first], program));
    append_list(text, keyword(role), items);
  }
}

const char* keyword(const Definition& definition) {
  if (definition.recomputed) return "recompute";
  if (!definition.output) return "let";
  switch (definition.role) {
    case OutputRole::Value:
      return "output";
    case OutputRole::Prediction:
      return "predict";
    case OutputRole::Loss:
      return "loss";
    case OutputRole::Next:
      return "next";
  }
  return "output";
}

std::string definition_text(const Definition& definition, const Program& program) {
  ExprPrinter printer(program, definition.axes);
  const bool is_next = definition.output && definition.role == OutputRole::Next;
  std::string text =
      fmt::format("{} {}", keyword(definition), definition.name.substr(is_next ? kNextPrefix.size() : 0));
  if (!definition.axes.empty()) {
    std::vector<std::string> axes;
    for (std::size_t k = 0; k < definition.axes.size(); ++k) axes.push_back(printer.axis(k));
    text += fmt::format("[{}]", fmt::join(axes, ","));
  }
  return text + declared_text(definition.dtype, definition.domain, program) + " = " + printer.print(definition.body) +
         "\n";
}

std::string checkpoints_text(const std::optional<Checkpoints>& checkpoints) {
  if (!checkpoints) return "";
  return fmt::format("recompute every {} ", checkpoints->every ? print(*checkpoints->every) : "sqrt");
}

std::string group_text(std::span<const Definition> group, const Program& program) {
  if (!group[0].scan) return definition_text(group[0], program);
  std::string text =
      fmt::format("scan {} {}{}{{\n", group[0].axes.at(0).name, group[0].scan->backwards ? "backwards " : "",
                  checkpoints_text(group[0].scan->checkpoints));
  for (const Definition& definition : group) text += "  " + definition_text(definition, program);
  return text + "}\n";
}

template <class Items, class Text>
std::vector<std::string> texts(const Items& items, const Text& text) {
  std::vector<std::string> result;
  for (const auto& item : items) result.push_back(text(item));
  return result;
}

}  // namespace

std::string print(const Program& program) {
  std::string text;
  if (!program.name.empty()) text += "# " + program.name + "\n";
  if (program.default_dtype != DType::f32) text += fmt::format("dtype {}\n", to_string(program.default_dtype));
  if (program.precision != Precision::Strict) text += fmt::format("precision {}\n", to_string(program.precision));
  append_list(text, "dim", texts(program.dims, dim_text));
  append_list(text, "index", texts(program.indices, index_text));
  append_inputs(text, program);
  for (const auto& group : groups_of(program)) text += group_text(group, program);
  return text;
}

std::string print(const Expr& expr, const Program& program, const std::vector<AxisDecl>& axes) {
  return ExprPrinter(program, axes).print(expr);
}

std::string print(const Affine& affine, const std::vector<AxisDecl>& axes) {
  return affine_text(affine, [&](Symbol symbol) {
    const bool known = symbol.kind() == Symbol::Kind::Axis && symbol.number() < axes.size();
    return known ? axes[symbol.number()].name : symbol.name();
  });
}

}  // namespace moxie
