// What verification finds in a text is shown there: at the definition's line, or in the function that it calls.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compiler/analysis/verify_definition.h"
#include "compiler/program/identifiers.h"
#include "compiler/support/error.h"
#include "compiler/text/lexer.h"
#include "compiler/text/source_text.h"
#include "compiler/text/text_library.h"

namespace moxie {
namespace {

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

/// Where the first thing that the message quotes stands in the line, behind its `=`.
std::optional<std::size_t> quoted_place(std::string_view message, std::string_view line) {
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
  return std::nullopt;
}

/// Names, numbers and operators of an expression, but for its brackets.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  const auto is_word = [&](std::size_t at) {
    return is_identifier(text.substr(at, 1)) || (text[at] >= '0' && text[at] <= '9');
  };
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (std::string_view(" ()[],").find(text[begin]) != std::string_view::npos) continue;
    std::size_t end = begin + 1;
    while (is_word(begin) && end < text.size() && (is_word(end) || text[end] == '.')) ++end;
    words.push_back(text.substr(begin, end - begin));
    begin = end - 1;
  }
  return words;
}

bool has_word(std::string_view text, std::string_view word) {
  const std::vector<std::string_view> words = words_of(text);
  return std::ranges::find(words, word) != words.end();
}

/// Places in the text: of what is wrong, in the body of a function, and of the calls that lead there, the innermost
/// first.
struct InFunction {
  std::size_t place;
  std::vector<std::pair<std::size_t, std::string_view>> calls;
};

/// Where `def name(` begins a line, and that line.
std::optional<std::pair<std::size_t, std::string_view>> function_line(std::string_view text, std::string_view name) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() > 2 && words[0] == "def" && words[1] == name) return std::pair(begin, line);
    begin += line.size() + 1;
  }
  return std::nullopt;
}

/// A function that the line calls and whose body has these words, or calls another one that has them.
std::optional<InFunction> find_in_functions(std::string_view text, std::size_t line_begin, std::string_view line,
                                            const std::vector<std::string_view>& words, int depth = 0) {
  constexpr int kMostCalls = 16;
  if (depth > kMostCalls) return std::nullopt;
  const std::string_view body = line.substr(line.find('=') + 1);
  for (const std::string_view name : words_of(body)) {
    if (!body.substr(static_cast<std::size_t>(name.data() - body.data()) + name.size()).starts_with("(")) continue;
    const auto function = function_line(text, name);
    if (!function) continue;
    const std::size_t call = line_begin + static_cast<std::size_t>(name.data() - line.data());
    const std::string_view inner = function->second.substr(function->second.find('=') + 1);
    const auto missing = std::ranges::find_if(words, [&](std::string_view word) { return !has_word(inner, word); });
    std::optional<InFunction> found;
    if (missing == words.end()) {
      const std::vector<std::string_view> in_body = words_of(inner);
      const std::string_view first = *std::ranges::find(in_body, words.front());
      found = {static_cast<std::size_t>(first.data() - text.data()), {}};
    } else {
      found = find_in_functions(text, function->first, function->second, words, depth + 1);
    }
    if (!found) continue;
    found->calls.emplace_back(call, name);
    return found;
  }
  return std::nullopt;
}

/// The same for what the message quotes first, if it has words that the line has not. Only these are looked for: the
/// others may come from an argument, for which the function's body has a parameter.
std::optional<InFunction> quoted_in_function(std::string_view message, std::string_view text, std::size_t line_begin,
                                             std::string_view line) {
  const std::size_t open = message.find('`'), close = message.find('`', open + 1);
  if (open == std::string_view::npos || close == std::string_view::npos) return std::nullopt;
  std::vector<std::string_view> words = words_of(message.substr(open + 1, close - open - 1));
  std::erase_if(words, [&](std::string_view word) { return has_word(line, word); });
  return words.empty() ? std::nullopt : find_in_functions(text, line_begin, line, words);
}

/// Throws what verify() says about a definition, shown in the text.
template <class E>
[[noreturn]] void fail_in(const E& error, const Definition& definition, std::string_view text, std::string_view file) {
  const auto line = line_of(definition, text);
  const std::string head = fmt::format("definition `{}` (line {}): ", definition.name, definition.line);
  std::string message = error.what();
  if (!line || !message.starts_with(head)) throw E(error);
  message.erase(0, head.size());
  const std::size_t remedy = message.rfind("; ");
  const std::string problem = message.substr(0, remedy);
  const std::string hint = remedy == std::string::npos ? "" : message.substr(remedy + 2);
  const SourceText source(text, file);
  const auto [begin, written] = *line;
  const auto quoted = quoted_place(message, written);
  const auto inside = quoted ? std::nullopt : quoted_in_function(message, text, begin, written);
  if (!inside) source.fail<E>(begin + quoted.value_or(written.find(definition.name)), problem, hint);
  std::string shown = source.describe(inside->place, problem, hint);
  for (const auto& [call, name] : inside->calls)
    shown += "\n" + source.describe(call, fmt::format("in this call of `{}`", name), "");
  throw E(shown, source.details(inside->place, problem, hint));
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

}  // namespace moxie
