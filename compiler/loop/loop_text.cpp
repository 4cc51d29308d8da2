#include "compiler/loop/loop_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "compiler/expression/functions.h"
#include "compiler/loop/overload.h"

namespace moxie {
namespace {

std::string scalar_name(ValueType type) {
  switch (type) {
    case ValueType::f32:
      return "f32";
    case ValueType::f64:
      return "f64";
    case ValueType::truth:
      return "truth";
    case ValueType::index:
      return "index";
  }
  return "?";
}

std::string term_text(const std::string& name, std::int64_t coefficient) {
  if (coefficient == 1) return name;
  if (coefficient == -1) return "-" + name;
  return fmt::format("{}*{}", coefficient, name);
}

/// `a + b` or, where `b` is negative, `a - |b|`.
std::string joined(const std::string& a, const std::string& b) {
  return b.starts_with('-') ? fmt::format("{} - {}", a, b.substr(1)) : fmt::format("{} + {}", a, b);
}

std::string extreme(const std::vector<std::string>& ends, std::string_view function) {
  return ends.size() == 1 ? ends[0] : fmt::format("{}({})", function, fmt::join(ends, ", "));
}

std::optional<std::string> find_line(LoopText& text, const Block& block, const Statement& wanted) {
  for (const Statement& statement : block) {
    if (&statement == &wanted) return text.line(statement);
    const auto* loop = std::get_if<stmt::For>(&statement);
    if (!loop) continue;
    text.enter(*loop);
    if (auto line = find_line(text, loop->body, wanted)) return line;
    text.leave(*loop);
  }
  return std::nullopt;
}

}  // namespace

std::string type_text(ValueType type, bool varying) {
  return varying ? fmt::format("<{}>", scalar_name(type)) : scalar_name(type);
}

std::string describe(const LoopProgram& program, const Statement& statement) {
  LoopText text(program);
  return find_line(text, program.body, statement).value_or(LoopText(program).line(statement));
}

void LoopText::enter(const stmt::For& loop) {
  const std::string number = std::to_string(loop.variable.number());
  std::string name = loop.name.empty() ? "i" + number : loop.name;
  const auto taken = [&](const auto& entry) { return entry.second == name; };
  if (std::ranges::any_of(names_, taken) || std::ranges::count(program_.arguments, name) > 0) name += "_" + number;
  names_.insert_or_assign(loop.variable, std::move(name));
}

std::string LoopText::symbol(Symbol symbol) const {
  if (symbol.is_value()) return value(symbol.number());
  const auto found = names_.find(symbol);
  return found == names_.end() ? symbol.name() : found->second;
}

std::string LoopText::affine(const Affine& value) const {
  std::string text;
  for (const auto& [symbol, coefficient] : value.terms()) {
    const std::string term = term_text(this->symbol(symbol), coefficient);
    text = text.empty() ? term : joined(text, term);
  }
  if (text.empty()) return std::to_string(value.constant());
  return value.constant() == 0 ? text : joined(text, std::to_string(value.constant()));
}

std::string LoopText::list(std::span<const Affine> values) const {
  std::vector<std::string> texts;
  for (const Affine& value : values) texts.push_back(affine(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string LoopText::range(const Range& range) const {
  std::vector<std::string> lows, highs;
  for (const auto& [divisor, value] : range.lows)
    lows.push_back(divisor == 1 ? affine(value) : fmt::format("ceil(({})/{})", affine(value), divisor));
  for (const auto& [divisor, value] : range.highs)
    highs.push_back(divisor == 1 ? affine(value + Affine(1))
                                 : fmt::format("floor(({})/{}) + 1", affine(value), divisor));
  return fmt::format("{}..{}", extreme(lows, "max"), extreme(highs, "min"));
}

template <class Declarations>
std::string LoopText::name_in(const Declarations& declarations, std::uint32_t id, std::string_view kind) const {
  return id < declarations.size() ? declarations[id].name : fmt::format("{}{}", kind, id);
}

std::string LoopText::value(ValueId id) const {
  if (id < program_.values.size())
    if (const auto* constant = std::get_if<op::Constant>(&program_.values[id].operation))
      return fmt::format("{}", constant->value);
  return fmt::format("v{}", id);
}

std::string LoopText::values(std::span<const ValueId> ids, std::string_view separator) const {
  std::vector<std::string> texts;
  for (const ValueId id : ids) texts.push_back(value(id));
  return fmt::format("{}", fmt::join(texts, separator));
}

std::string LoopText::call(const op::Call& call) const {
  if (!call.function) return fmt::format("no_function({})", values(call.args, ", "));
  if (call.function->fixity == Fixity::Infix) return values(call.args, fmt::format(" {} ", call.function->name));
  return fmt::format("{}({})", call.function->name, values(call.args, ", "));
}

std::string LoopText::operation(const Value& result) const {
  return std::visit(
      Overload{
          [](const op::Constant& o) { return fmt::format("{}", o.value); },
          [&](const op::Number& o) { return fmt::format("number({})", affine(o.value)); },
          [&](const op::Load& o) {
            const std::string element = name_in(program_.buffers, o.buffer, "buffer") + list(o.subscripts);
            return o.guard ? fmt::format("{} if {} else 0", element, value(*o.guard)) : element;
          },
          [&](const op::Subscript& o) {
            const std::string guard = o.guard ? fmt::format(" if {}", value(*o.guard)) : "";
            return fmt::format("subscript {} of {}: {}{}", o.axis, name_in(program_.buffers, o.buffer, "buffer"),
                               affine(o.value), guard);
          },
          [&](const op::LoadArray& o) { return name_in(program_.arrays, o.array, "array") + list(o.subscripts); },
          [](const op::ReadVar& o) { return fmt::format("acc{}", o.var); },
          [&](const op::Call& o) { return call(o); },
          [&](const op::Convert& o) { return fmt::format("{}({})", scalar_name(result.type), value(o.value)); },
          [&](const op::Random& o) {
            return fmt::format("{}(stream {} at {})", to_string(o.kind), o.stream, list(o.coordinates));
          },
          [&](const op::CombineLanes& o) { return fmt::format("{}[lanes]({})", to_string(o.kind), value(o.value)); },
          [&](const op::PrefixLanes& o) {
            return fmt::format("{}[lanes so far]({})", to_string(o.kind), value(o.value));
          },
          [&](const op::LastLane& o) { return fmt::format("last[lanes]({})", value(o.value)); },
      },
      result.operation);
}

std::string LoopText::line(const Statement& statement) const {
  return std::visit(Overload{
                        [&](const stmt::Let& s) {
                          if (s.id >= program_.values.size()) return fmt::format("v{} = ?", s.id);
                          const Value& v = program_.values[s.id];
                          return fmt::format("v{}: {} = {}", s.id, type_text(v.type, v.varying), operation(v));
                        },
                        [&](const stmt::SetVar& s) { return fmt::format("acc{} = {}", s.var, value(s.value)); },
                        [&](const stmt::Store& s) {
                          return fmt::format("{}{} = {}", name_in(program_.buffers, s.buffer, "buffer"),
                                             list(s.subscripts), value(s.value));
                        },
                        [&](const stmt::StoreArray& s) {
                          return fmt::format("{}{} = {}", name_in(program_.arrays, s.array, "array"),
                                             list(s.subscripts), value(s.value));
                        },
                        [&](const stmt::For& s) {
                          LoopText inside = *this;
                          inside.enter(s);
                          const std::string kind = s.vector ? "vector " : s.parallel ? "parallel " : "";
                          const std::string taken = s.interleave > 1 ? fmt::format(", {} at once", s.interleave) : "";
                          return fmt::format("{}for {} in {}{} {{", kind, inside.symbol(s.variable), range(s.range),
                                             taken);
                        },
                        [&](const stmt::Check& s) {
                          return fmt::format("check {}: fail if {} at {} with {}", s.check, value(s.bad),
                                             list(s.coordinates), value(s.value));
                        },
                    },
                    statement);
}

}  // namespace moxie
