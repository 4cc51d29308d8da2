#include "ops/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/support/error.h"
#include "ops/op_texts.h"

namespace moxie {
namespace {

constexpr std::string_view kConstants = "constants:";
constexpr std::size_t kSuggestions = 3;

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == text.npos ? std::string_view() : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The comment lines before the first statement, without their `#`.
std::vector<std::string_view> header_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (text.starts_with('#')) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(trim(text.substr(1, end - 1)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string_view> split_names(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    names.push_back(trim(list.substr(0, comma)));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return names;
}

Op describe(const OpText& file) {
  const std::vector<std::string_view> header = header_of(file.text);
  if (header.size() < 2)
    throw InternalError(fmt::format("{}.mox does not start with a summary and its equations", file.name));
  Op op{file.name, header[0], header[1], file.text, {}};
  if (header.size() > 2 && header[2].starts_with(kConstants))
    op.constants = split_names(header[2].substr(kConstants.size()));
  return op;
}

std::vector<Op> describe_all() {
  std::vector<Op> ops;
  for (const OpText& file : op_texts()) ops.push_back(describe(file));
  std::ranges::sort(ops, {}, &Op::name);
  return ops;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::vector<std::string_view> closest_names(std::string_view wanted) {
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  for (const Op& op : catalogue()) ranked.emplace_back(edit_distance(wanted, op.name), op.name);
  std::ranges::sort(ranked);
  ranked.resize(std::min(ranked.size(), kSuggestions));
  std::vector<std::string_view> names;
  for (const auto& [distance, name] : ranked) names.push_back(name);
  return names;
}

}  // namespace

std::span<const Op> catalogue() {
  static const std::vector<Op> ops = describe_all();
  return ops;
}

const Op* find_op(std::string_view name) {
  const std::span<const Op> ops = catalogue();
  const auto it = std::ranges::lower_bound(ops, name, {}, &Op::name);
  return it != ops.end() && it->name == name ? &*it : nullptr;
}

const Op& get_op(std::string_view name) {
  if (const Op* op = find_op(name)) return *op;
  throw TypeError(fmt::format("there is no built-in operation '{}'; the closest names are {}; `moxie ops` lists all",
                              name, fmt::join(closest_names(name), ", ")));
}

TextLibrary catalogue_library() {
  TextLibrary library;
  library.shared_text = [](std::string_view path) -> std::optional<std::string_view> {
    const auto texts = shared_texts();
    const auto found = std::ranges::find(texts, path, &OpText::name);
    return found == texts.end() ? std::nullopt : std::optional(found->text);
  };
  library.formula = [](std::string_view name) -> std::optional<Program> {
    if (!find_op(name)) return std::nullopt;
    return load_op(name);
  };
  for (const Op& op : catalogue()) library.formula_names.emplace_back(op.name);
  return library;
}

Program load_op(std::string_view name) {
  const Op& op = get_op(name);
  Program program = parse(op.text, fmt::format("{}.mox", op.name), catalogue_library());
  program.name = op.name;
  return program;
}

std::vector<std::string> differentiable_inputs(const Op& op, const Program& program) {
  std::vector<std::string> names;
  for (const InputDecl& input : program.inputs) {
    if (std::ranges::find(op.constants, input.name) == op.constants.end()) names.push_back(input.name);
  }
  return names;
}

}  // namespace moxie
