#include "compiler/codegen/cuda/cuda_preference.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "compiler/support/error.h"

namespace moxie {
namespace {

struct Field {
  std::string_view name;
  int CudaPreference::* value;
  int least, most;
};
constexpr Field kFields[] = {
    {"team", &CudaPreference::team, 1, 1024},
    {"threads", &CudaPreference::threads, 32, 1024},
    {"width", &CudaPreference::width, 1, 4},
    {"blocks", &CudaPreference::blocks, 1, 64},
};

std::string known_words() {
  std::string text;
  for (const Field& field : kFields)
    text += fmt::format("{}{}={} to {}", text.empty() ? "" : ", ", field.name, field.least, field.most);
  return text + "; all are powers of two";
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

void set(CudaPreference& preference, std::string_view word) {
  const std::size_t sign = std::min(word.find('='), word.size());
  const auto field = std::ranges::find(kFields, word.substr(0, sign), &Field::name);
  const auto value = number(word.substr(std::min(sign + 1, word.size())));
  const bool right = field != std::end(kFields) && value && *value >= field->least && *value <= field->most &&
                     std::has_single_bit(static_cast<unsigned>(*value));
  if (!right)
    throw TypeError(fmt::format("'{}' is nothing that a schedule can be told; there are {}", word, known_words()));
  preference.*field->value = *value;
}

}  // namespace

CudaPreference parse_cuda_preference(std::string_view text) {
  CudaPreference preference;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    set(preference, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return preference;
}

CudaPreferences parse_cuda_preferences(std::string_view text) {
  CudaPreferences preferences;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const std::size_t colon = part.find(':');
    if (colon == part.npos)
      preferences.all = parse_cuda_preference(part);
    else
      preferences.of_kernels[std::string(part.substr(0, colon))] = parse_cuda_preference(part.substr(colon + 1));
  }
  return preferences;
}

std::string print(const CudaPreference& preference) {
  std::string text;
  for (const Field& field : kFields) {
    if (preference.*field.value != 0)
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", field.name, preference.*field.value);
  }
  return text;
}

}  // namespace moxie
