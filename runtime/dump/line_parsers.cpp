#include "runtime/dump/line_parsers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

namespace moxie {
namespace {

std::string_view without_indent(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  return line.substr(begin);
}

/// The number at the beginning of a text.
std::optional<int> leading_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

/// The number behind the first `mark`.
std::optional<int> number_after(std::string_view text, std::string_view mark) {
  const std::size_t at = text.find(mark);
  return at == text.npos ? std::nullopt : leading_number(text.substr(at + mark.size()));
}

void append(TracedText& traced, std::string_view line, int origin) {
  traced.text += line;
  traced.text += '\n';
  traced.lines.push_back(origin > 0 ? std::vector<int>{origin} : std::vector<int>{});
}

// ---- Programs ----

/// A name as .mox text spells it, from the beginning of `text`.
std::string_view leading_name(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of("[ :=,"), text.size()));
}

std::vector<std::string_view> names_in(std::string_view line) {
  line = without_indent(line);
  for (const std::string_view word : {"let ", "output "}) {
    if (line.starts_with(word)) return {leading_name(line.substr(word.size()))};
  }
  std::vector<std::string_view> names;
  if (!line.starts_with("input ")) return names;
  line.remove_prefix(6);
  for (int depth = 0; !line.empty();) {
    names.push_back(leading_name(line));
    std::size_t end = 0;
    while (end < line.size() && (depth > 0 || line[end] != ','))
      depth += (line[end] == '[') - (line[end] == ']'), ++end;
    line = without_indent(line.substr(std::min(end + 1, line.size())));
  }
  return names;
}

using LinesOfNames = std::map<std::string, int, std::less<>>;

LinesOfNames lines_of_names(std::string_view program) {
  LinesOfNames result;
  int number = 0;
  for (const std::string_view line : split_lines(program)) {
    ++number;
    for (const std::string_view name : names_in(line)) result.emplace(name, number);
  }
  return result;
}

/// The line of the definition of that name, or of the one that it was derived from: names of derived definitions hold
/// it between dots.
int line_of(std::string_view name, const LinesOfNames& lines) {
  for (std::string_view rest = name;;) {
    for (std::string_view part = rest;;) {
      if (const auto found = lines.find(part); found != lines.end()) return found->second;
      const std::size_t dot = part.rfind('.');
      if (dot == part.npos) break;
      part = part.substr(0, dot);
    }
    const std::size_t dot = rest.find('.');
    if (dot == rest.npos) return 0;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace

LineTable lines_by_name(std::string_view later, std::string_view earlier) {
  const LinesOfNames known = lines_of_names(earlier);
  LineTable table;
  for (const std::string_view line : split_lines(later)) {
    std::set<int> origins;
    for (const std::string_view name : names_in(line)) origins.insert(line_of(name, known));
    origins.erase(0);
    table.emplace_back(origins.begin(), origins.end());
  }
  return table;
}

LineTable lines_of_definitions(std::string_view loops, const LineTable& by_definition, std::string_view program) {
  const LinesOfNames known = lines_of_names(program);
  std::vector<int> definitions;
  const auto lines = split_lines(loops);
  for (const std::string_view line : lines) {
    if (!line.starts_with("# ")) break;
    const std::size_t equals = std::min(line.find(" = "), line.size());
    definitions.push_back(line_of(line.substr(0, equals).substr(line.substr(0, equals).rfind(' ') + 1), known));
  }
  LineTable table(lines.size());
  for (std::size_t k = 0; k < std::min(lines.size(), by_definition.size()); ++k) {
    for (const int number : by_definition[k]) {
      const int line = static_cast<std::size_t>(number) <= definitions.size()
                           ? definitions[static_cast<std::size_t>(number) - 1]
                           : 0;
      if (line > 0) table[k].push_back(line);
    }
  }
  return table;
}

// ---- LLVM ----

namespace {

/// Numbers of metadata that kernels do not use themselves.
constexpr int kUnit = 1000, kFile = 1001, kType = 1002, kTypes = 1003, kFirstFunction = 1010;
constexpr int kFirstLine = 2000;

struct DebugFunction {
  std::string name;
  int line;
};

/// k of `define void @"k"(...) {`
std::string function_name(std::string_view definition) {
  const std::size_t at = std::min(definition.find('@'), definition.size() - 1) + 1;
  std::string name(definition.substr(at, definition.find('(', at) - at));
  std::erase(name, '"');
  return name;
}

std::string debug_metadata(const std::vector<std::pair<int, int>>& locations,
                           const std::vector<DebugFunction>& functions, std::string_view file) {
  std::string text =
      fmt::format("\n!llvm.dbg.cu = !{{!{}}}\n!llvm.module.flags = !{{!{}, !{}}}\n", kUnit, kTypes + 1, kTypes + 2);
  text += fmt::format(
      "!{} = distinct !DICompileUnit(language: DW_LANG_C, file: !{}, producer: \"moxie\", isOptimized: true, "
      "runtimeVersion: 0, emissionKind: LineTablesOnly)\n",
      kUnit, kFile);
  text += fmt::format("!{} = !DIFile(filename: \"{}\", directory: \".\")\n", kFile, file);
  text += fmt::format("!{} = !DISubroutineType(types: !{})\n!{} = !{{}}\n", kType, kTypes, kTypes);
  text += fmt::format("!{} = !{{i32 2, !\"Debug Info Version\", i32 3}}\n!{} = !{{i32 7, !\"Dwarf Version\", i32 4}}\n",
                      kTypes + 1, kTypes + 2);
  for (std::size_t k = 0; k < functions.size(); ++k) {
    text += fmt::format(
        "!{} = distinct !DISubprogram(name: \"{}\", file: !{}, line: {}, type: !{}, unit: !{}, spFlags: "
        "DISPFlagDefinition | DISPFlagOptimized)\n",
        kFirstFunction + static_cast<int>(k), functions[k].name, kFile, functions[k].line, kType, kUnit);
  }
  for (const auto& [line, function] : locations)
    text +=
        fmt::format("!{} = !DILocation(line: {}, scope: !{})\n", kFirstLine + line, line, kFirstFunction + function);
  return text;
}

bool is_instruction(std::string_view line) { return line.starts_with("  "); }

}  // namespace

std::string with_debug_lines(std::string_view llvm_ir, std::string_view file) {
  std::string text;
  std::vector<std::pair<int, int>> locations;
  std::vector<DebugFunction> functions;
  int number = 0;
  bool inside = false;
  for (const std::string_view line : split_lines(llvm_ir)) {
    ++number;
    const bool begins = line.starts_with("define ") && line.ends_with(" {");
    if (begins) {
      inside = true;
      functions.push_back({function_name(line), number});
      text += fmt::format("{} !dbg !{} {{\n", line.substr(0, line.size() - 2),
                          kFirstFunction + static_cast<int>(functions.size()) - 1);
      continue;
    }
    if (line == "}") inside = false;
    text += line;
    if (inside && is_instruction(line)) {
      locations.emplace_back(number, static_cast<int>(functions.size()) - 1);
      text += fmt::format(", !dbg !{}", kFirstLine + number);
    }
    text += '\n';
  }
  return text + debug_metadata(locations, functions, file);
}

namespace {

/// "<float 1.0, float 1.0>" as "splat (float 1.0)", which is LLVM's own shorter spelling.
std::string with_splats(std::string_view line) {
  std::string text;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = line[at] == '<' ? line.find('>', at) : line.npos;
    const std::string_view inside = end == line.npos ? "" : line.substr(at + 1, end - at - 1);
    const std::string_view first = inside.substr(0, inside.find(", "));
    bool is_splat = first.size() < inside.size() && first.find(' ') != first.npos;
    for (std::size_t k = first.size(); is_splat && k < inside.size(); k += first.size() + 2)
      is_splat = inside.substr(k, first.size() + 2) == fmt::format(", {}", first);
    if (is_splat)
      text += fmt::format("splat ({})", first);
    else
      text += line[at];
    at = is_splat ? end + 1 : at + 1;
  }
  return text;
}

}  // namespace

TracedText trace_llvm(std::string_view optimised) {
  std::map<int, int> lines;  // of metadata
  for (const std::string_view line : split_lines(optimised)) {
    if (!line.starts_with('!') || line.find("!DILocation(") == line.npos) continue;
    const auto number = leading_number(line.substr(1)), origin = number_after(line, "line: ");
    if (number && origin) lines[*number] = *origin;
  }
  TracedText traced;
  for (std::string_view line : split_lines(optimised)) {
    const bool is_debug = line.starts_with("!") && (line.find("!DI") != line.npos || line.starts_with("!llvm."));
    if (is_debug) continue;
    const std::size_t mark = line.find(" !dbg !");
    if (mark == line.npos) {
      append(traced, with_splats(line), 0);
      continue;
    }
    const auto number = leading_number(line.substr(mark + 7));
    const auto found = number ? lines.find(*number) : lines.end();
    std::string shown(line.substr(0, mark - (mark > 0 && line[mark - 1] == ',')));
    const std::size_t behind = std::min(line.find_first_not_of("0123456789", mark + 7), line.size());
    shown += line.substr(behind);
    append(traced, with_splats(shown), found == lines.end() ? 0 : found->second);
  }
  return traced;
}

TracedText trace_assembly(std::string_view assembly) {
  TracedText traced;
  bool is_debug = false;
  int origin = 0;
  for (const std::string_view line : split_lines(assembly)) {
    const std::string_view word = without_indent(line);
    if (word.starts_with(".section")) is_debug = word.find(".debug") != word.npos;
    if (word == ".text") is_debug = false;
    if (word.starts_with(".loc")) {
      const std::size_t file_end =
          word.find_first_of(" \t", std::min<std::size_t>(word.find_first_not_of(" \t", 4), word.size()));
      origin = file_end == word.npos ? 0 : leading_number(without_indent(word.substr(file_end))).value_or(0);
    } else if (!is_debug && !word.starts_with(".file") && !word.starts_with(".Ltmp") && !word.starts_with(".Lfunc_") &&
               !word.starts_with(".cfi")) {
      const bool is_code = line.starts_with("\t") && !word.starts_with(".");
      append(traced, line, is_code ? origin : 0);
    }
  }
  return traced;
}

// ---- NVIDIA ----

namespace {

/// ".loc 1 12 3" or ".loc 1 40 3, function_name $L, inlined_at 1 12 3": a line and column, and where they were inlined.
struct PtxPlace {
  std::pair<int, int> own, caller;
};

std::pair<int, int> line_and_column(std::string_view words) {
  const std::size_t file_end = words.find(' ');
  if (file_end == words.npos) return {};
  words.remove_prefix(file_end + 1);
  const std::size_t line_end = std::min(words.find(' '), words.size());
  return {leading_number(words).value_or(0),
          leading_number(words.substr(std::min(line_end + 1, words.size()))).value_or(0)};
}

PtxPlace ptx_place(std::string_view loc) {
  std::string words(loc);
  std::ranges::replace(words, '\t', ' ');
  const std::string_view text = words;
  PtxPlace place;
  place.own = line_and_column(without_indent(text.substr(4)));
  const std::size_t inlined = text.find("inlined_at ");
  if (inlined != text.npos) place.caller = line_and_column(text.substr(inlined + 11));
  return place;
}

/// "/*0140*/ MOV R4, R6 ;" without the columns that nvdisasm pads.
std::string without_padding(std::string_view line) {
  std::string text;
  for (const char c : line) {
    if (c != ' ' || !text.ends_with(' ')) text += c;
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

}  // namespace

TracedText trace_ptx(std::string_view ptx, int skipped) {
  std::map<std::pair<int, int>, std::pair<int, int>> callers;
  constexpr int kDeepest = 16;
  const auto resolve = [&](std::pair<int, int> place) {
    for (int depth = 0; depth < kDeepest && place.first <= skipped; ++depth) {
      const auto caller = callers.find(place);
      if (caller == callers.end()) return 0;
      place = caller->second;
    }
    return std::max(0, place.first - skipped);
  };
  TracedText traced;
  int origin = 0;
  bool is_debug = false;
  for (const std::string_view line : split_lines(ptx)) {
    const std::string_view word = without_indent(line);
    if (word.starts_with(".section")) is_debug = true;
    // ".local" declares memory.
    if (word.starts_with(".loc") && !word.starts_with(".local")) {
      const PtxPlace place = ptx_place(word);
      if (place.caller.first > 0) callers[place.own] = place.caller;
      origin = resolve(place.own);
    } else if (!is_debug && !word.starts_with(".file")) {
      const bool is_code = word.ends_with(';') && !word.starts_with('.');
      append(traced, line, is_code ? origin : 0);
    }
    if (is_debug && word.starts_with('}')) is_debug = false;
  }
  return traced;
}

TracedText trace_sass(std::string_view disassembly, int skipped) {
  TracedText traced;
  int origin = 0;
  for (const std::string_view line : split_lines(disassembly)) {
    const std::string_view word = without_indent(line);
    if (word.starts_with("//## File")) {
      // One line for each call that was inlined, the innermost first.
      const int number = number_after(word, ", line ").value_or(0),
                caller = number_after(word, "inlined at \"kernel.cu\", line ").value_or(0);
      if (number > skipped)
        origin = number - skipped;
      else if (caller > skipped)
        origin = caller - skipped;
    } else {
      const bool is_code = word.starts_with("/*");
      append(traced, is_code ? "  " + without_padding(word) : std::string(line), is_code ? origin : 0);
    }
  }
  return traced;
}

}  // namespace moxie
