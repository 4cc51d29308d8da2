#include <fmt/format.h>

#include <cmath>
#include <set>

#include "compiler/ir/lexer.h"
#include "compiler/ir/names.h"
#include "compiler/ir/scans.h"
#include "compiler/ir/source_text.h"
#include "compiler/ir/text_library.h"
#include "compiler/ir/verify_definition.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

void check_name(std::set<std::string>& taken, const std::string& name, std::string_view what) {
  if (!is_identifier(name)) {
    throw TypeError(fmt::format("{} `{}`: names consist of letters, digits, `_` and inner dots and start with no digit",
                                what, name));
  }
  if (is_reserved(name))
    throw TypeError(fmt::format("{} `{}`: this is a word of the language; choose another name", what, name));
  if (!taken.insert(name).second)
    throw TypeError(fmt::format("{} `{}`: one name names one thing, but this one is taken", what, name));
}

void check_names(const Program& program) {
  std::set<std::string> taken;
  for (const DimDecl& dim : program.dims) check_name(taken, dim.name, "dim");
  for (const IndexDecl& index : program.indices) check_name(taken, index.name, "index");
  for (const InputDecl& input : program.inputs) check_name(taken, input.name, "input");
  for (const Definition& definition : program.definitions) check_name(taken, definition.name, "definition");
}

void check_dims_only(const Program& program, const Affine& affine, const std::string& where) {
  for (const auto& [symbol, coefficient] : affine.terms()) {
    if (symbol.is_dim() && program.find_dim(symbol.name())) continue;
    throw TypeError(
        fmt::format("{}: `{}` mentions `{}`, which is no declared dim", where, print(affine), symbol.name()));
  }
}

void check_extent(const Program& program, const Affine& extent, const std::string& where) {
  check_dims_only(program, extent, where);
  if (extent.is_constant() && extent.constant() < 0)
    throw ShapeError(fmt::format("{} has the negative extent {}", where, print(extent)));
}

void check_index(const Program& program, const IndexDecl& index) {
  const std::string where = fmt::format("index `{}`", index.name);
  check_range_form(index.range, where);
  for (const auto* bounds : {&index.range.lows, &index.range.highs}) {
    for (const Bound& bound : *bounds) check_dims_only(program, bound.value, where);
  }
}

void check_shape(const Program& program, const std::vector<Affine>& shape, const std::string& tensor) {
  for (std::size_t k = 0; k < shape.size(); ++k)
    check_extent(program, shape[k], fmt::format("axis {} of `{}`", k, tensor));
}

void check_domain(const ValueDomain& domain, const std::string& tensor, DType dtype) {
  const auto fail = [&](const char* reason) {
    throw TypeError(fmt::format("`{}` is declared {}, but {}", tensor, to_string(domain), reason));
  };
  for (const auto& bound : {domain.low, domain.high}) {
    if (!bound) continue;
    if (!std::isfinite(bound->value)) fail("the bound of a domain is a finite number");
    if (holds_integers(dtype) && bound->value != stored_value(dtype, bound->value))
      fail("the bound of integers is one; write another bound");
  }
  if (!domain.low || !domain.high) return;
  const bool is_point = domain.low->value == domain.high->value && !domain.low->open && !domain.high->open;
  if (domain.low->value >= domain.high->value && !is_point) fail("no number is both");
}

void check_recomputed(const Program& program, const Definition& definition) {
  if (!definition.recomputed) return;
  const std::string reason = why_kept(program, definition);
  if (reason.empty()) return;
  throw TypeError(fmt::format("definition `{}` cannot be recomputed: {}; define it with let", definition.name, reason));
}

/// The definitions of a scan stand together and have their first axis in common, all of it.
void check_scans(const Program& program) {
  std::set<std::uint32_t> seen;
  for (const std::span<const Definition> group : groups_of(program)) {
    const Definition& first = group[0];
    if (!first.scan) continue;
    if (!seen.insert(first.scan->number).second)
      throw TypeError(fmt::format("definition `{}` belongs to a scan that has ended before it", first.name));
    if (const auto& points = first.scan->checkpoints; points && points->every) {
      const std::string problem = spacing_problem(program, *points->every);
      if (!problem.empty())
        throw ShapeError(fmt::format("the checkpoints of the scan of `{}` are taken every 1, 2, 3, .. steps: {}; {}",
                                     first.name, problem, kSpacingRemedy));
    }
    for (const Definition& member : group) {
      const bool steps = !member.axes.empty() && member.axes[0] == first.axes[0] &&
                         member.axes[0].range == Range::extent(member.axes[0].extent);
      if (steps) continue;
      throw ShapeError(
          fmt::format("definition `{}` of a scan does not have the scan's index as its first axis, from 0 to "
                      "the end; define it outside of the scan",
                      member.name));
    }
  }
}

void check_role(const Program& program, const Definition& definition) {
  if (definition.role == OutputRole::Value) return;
  const std::string where = fmt::format("definition `{}`", definition.name);
  if (!definition.output || definition.scan)
    throw TypeError(where + " has a role in training, but is no output outside of scans");
  if (definition.role == OutputRole::Loss && !definition.axes.empty())
    throw ShapeError(fmt::format("the loss `{}` is not a scalar: it has {} axes; add its elements up", definition.name,
                                 definition.axes.size()));
  if (definition.role != OutputRole::Next) return;
  const std::string state = definition.name.starts_with(kNextPrefix) ? definition.name.substr(kNextPrefix.size()) : "";
  const InputDecl* input = program.find_input(state);
  if (!input || input->role != InputRole::State || input->shape != program.shape_of(definition.name) ||
      input->dtype != definition.dtype)
    throw TypeError(where + " is the next value of no state of its shape and dtype");
}

/// Parameters and states, predictions and the loss.
void check_roles(const Program& program) {
  for (const InputDecl& input : program.inputs) {
    if (input.role == InputRole::Data) continue;
    if (const std::string problem = problem_of(input.start, input.shape.size()); !problem.empty())
      throw TypeError(fmt::format("`{}` cannot start as {}: {}", input.name, to_string(input.start), problem));
  }
  std::string loss;
  for (const Definition& definition : program.definitions) {
    check_role(program, definition);
    if (definition.role != OutputRole::Loss) continue;
    if (!loss.empty())
      throw TypeError(
          fmt::format("`{}` and `{}` are both the loss; add them up in one definition", loss, definition.name));
    loss = definition.name;
  }
}

/// The line of the text that defines the tensor, if there is one: it may stand in an included file.
std::optional<std::pair<std::size_t, std::string_view>> line_of(const Definition& definition, std::string_view text) {
  std::size_t begin = 0;
  for (int line = 1; line < definition.line && begin != std::string_view::npos; ++line) {
    const std::size_t end = text.find('\n', begin);
    begin = end == std::string_view::npos ? end : end + 1;
  }
  if (definition.line == 0 || begin == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  if (line.find(definition.name) == std::string_view::npos) return std::nullopt;
  return std::pair(begin, line);
}

/// The end of `quoted` where it stands at `begin` of the line, spaces aside.
std::optional<std::size_t> end_of_match(std::string_view line, std::size_t begin, std::string_view quoted) {
  std::size_t at = begin;
  for (const char c : quoted) {
    while (at > begin && at < line.size() && line[at] == ' ' && c != ' ') ++at;
    if (c == ' ' && (at == line.size() || line[at] != ' ')) continue;
    if (at == line.size() || line[at] != c) return std::nullopt;
    ++at;
  }
  return at;
}

/// Where the first thing that the message quotes stands in the line, or else the definition's name.
std::size_t quoted_place(std::string_view message, std::string_view line, const std::string& name) {
  const auto is_word = [&](std::size_t at) { return at < line.size() && is_identifier(line.substr(at, 1)); };
  std::size_t open = message.find('`');
  while (open != std::string_view::npos) {
    const std::size_t close = message.find('`', open + 1);
    if (close == std::string_view::npos) break;
    const std::string_view quoted = message.substr(open + 1, close - open - 1);
    for (std::size_t begin = line.find('=') + 1; begin < line.size() && !quoted.empty(); ++begin) {
      const auto end = end_of_match(line, begin, quoted);
      const bool cuts_word = end && ((is_word(begin) && is_word(begin - 1)) || (is_word(*end - 1) && is_word(*end)));
      if (end && !cuts_word) return begin;
    }
    open = message.find('`', close + 1);
  }
  return line.find(name);
}

/// Throws what verify() says about a definition, shown in the text.
template <class E>
[[noreturn]] void fail_in(const E& error, const Definition& definition, std::string_view text, std::string_view file) {
  const auto line = line_of(definition, text);
  const std::string head = fmt::format("definition `{}` (line {}): ", definition.name, definition.line);
  std::string message = error.what();
  if (!line || !message.starts_with(head)) throw E(error);
  message.erase(0, head.size());
  const std::size_t place = line->first + quoted_place(message, line->second, definition.name);
  const std::size_t remedy = message.rfind("; ");
  const std::string hint = remedy == std::string::npos ? "" : message.substr(remedy + 2);
  SourceText(text, file).fail<E>(place, message.substr(0, remedy), hint);
}

}  // namespace

void verify_text(const Program& program, std::string_view text, std::string_view file) {
  for (std::size_t k = 0; k < program.definitions.size(); ++k) {
    const Definition& definition = program.definitions[k];
    try {
      verify_definition(program, k);
    } catch (const TypeError& error) {
      fail_in(error, definition, text, file);
    } catch (const ShapeError& error) {
      fail_in(error, definition, text, file);
    }
  }
  verify(program);
}

void verify(const Program& program) {
  check_names(program);
  for (const DimDecl& dim : program.dims) {
    if (dim.value && *dim.value < 0) throw ShapeError(fmt::format("dim `{}` is negative: {}", dim.name, *dim.value));
  }
  for (const IndexDecl& index : program.indices) check_index(program, index);
  for (const InputDecl& input : program.inputs) {
    check_shape(program, input.shape, input.name);
    check_domain(input.domain, input.name, input.dtype);
  }
  check_scans(program);
  check_roles(program);
  for (std::size_t k = 0; k < program.definitions.size(); ++k) {
    const Definition& definition = program.definitions[k];
    for (std::size_t axis = 0; axis < definition.axes.size(); ++axis)
      check_extent(program, definition.axes[axis].extent, fmt::format("axis {} of `{}`", axis, definition.name));
    check_domain(definition.domain, definition.name, definition.dtype);
    verify_definition(program, k);
    check_recomputed(program, definition);
  }
}

}  // namespace moxie
