// A LoopProgram as text: comments, head, declarations, then one statement a line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "compiler/loop/loop_text.h"
#include "compiler/loop/statement_lines.h"
#include "compiler/support/line_table.h"

namespace moxie {
namespace {

bool is_constant(const LoopProgram& program, const Statement& statement) {
  const auto* let = std::get_if<stmt::Let>(&statement);
  return let && let->id < program.values.size() &&
         std::holds_alternative<op::Constant>(program.values[let->id].operation);
}

std::string storage_order(const BufferDecl& buffer, const LoopText& text) {
  std::vector<std::uint32_t> row_major(buffer.shape.size());
  std::iota(row_major.begin(), row_major.end(), 0);
  if (buffer.layout == row_major) return "";
  std::vector<std::string> extents;
  for (const std::uint32_t axis : buffer.layout)
    extents.push_back(axis < buffer.shape.size() ? text.affine(buffer.shape[axis]) : "?");
  return fmt::format(" stored by axes [{}] as [{}]", fmt::join(buffer.layout, ", "), fmt::join(extents, ", "));
}

std::string declarations(const LoopProgram& program, const LoopText& text) {
  std::string out;
  for (const BufferDecl& b : program.buffers)
    out += fmt::format("  {} {}: {}{}{}\n", b.written ? "out" : "in ", b.name, to_string(b.dtype), text.list(b.shape),
                       storage_order(b, text));
  for (const ArrayDecl& a : program.arrays)
    out += fmt::format("  scratch {}: {}{}{}\n", a.name, to_string(a.dtype), text.list(a.extents),
                       a.varying ? " per lane" : "");
  for (std::size_t i = 0; i < program.vars.size(); ++i)
    out += fmt::format("  var acc{}: {}\n", i, type_text(program.vars[i].type, program.vars[i].varying));
  for (std::size_t i = 0; i < program.checks.size(); ++i)
    out += fmt::format("  check {} [{}]: \"{}\"\n", i, fmt::join(program.checks[i].coordinate_names, ", "),
                       program.checks[i].message);
  return out;
}

void print_block(const LoopProgram& program, const Block& block, LoopText& text, int depth, std::string& out) {
  for (const Statement& statement : block) {
    if (is_constant(program, statement)) continue;  // spelled where it is used
    out += fmt::format("{:{}}{}\n", "", 2 * depth, text.line(statement));
    const auto* loop = std::get_if<stmt::For>(&statement);
    if (!loop) continue;
    text.enter(*loop);
    print_block(program, loop->body, text, depth + 1, out);
    text.leave(*loop);
    out += fmt::format("{:{}}}}\n", "", 2 * depth);
  }
}

/// All that comes before the first statement.
std::string head(const LoopProgram& program, const LoopText& text) {
  std::string out;
  for (const std::string& comment : program.comments) out += fmt::format("# {}\n", comment);
  const std::string precision =
      program.precision == Precision::Strict ? "" : fmt::format(" in {} precision", to_string(program.precision));
  out += fmt::format("kernel {}({}){} {{\n", program.name, fmt::join(program.arguments, ", "), precision);
  if (const std::string declared = declarations(program, text); !declared.empty()) out += declared + "\n";
  return out;
}

void number_lines(const LoopProgram& program, const Block& block, int& line, StatementLines& lines) {
  for (const Statement& statement : block) {
    if (is_constant(program, statement)) continue;
    lines[&statement] = ++line;
    const auto* loop = std::get_if<stmt::For>(&statement);
    if (!loop) continue;
    number_lines(program, loop->body, line, lines);
    ++line;
  }
}

}  // namespace

std::string print(const LoopProgram& program) {
  LoopText text(program);
  std::string out = head(program, text);
  print_block(program, program.body, text, 1, out);
  return out + "}\n";
}

StatementLines statement_lines(const LoopProgram& program) {
  int line = count_lines(head(program, LoopText(program)));
  StatementLines lines;
  number_lines(program, program.body, line, lines);
  return lines;
}

}  // namespace moxie
