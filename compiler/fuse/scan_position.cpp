#include "compiler/fuse/scan_position.h"

#include <fmt/format.h>

#include <charconv>

namespace moxie {
namespace {

constexpr std::string_view kFolded = "%folded_";
constexpr std::string_view kOf = "_of_";

std::int64_t parsed(std::string_view digits) {
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

}  // namespace

ScanPosition scan_position(std::int64_t taken, std::int64_t steps, bool is_backwards) {
  const std::int64_t left = steps - 1 - taken;
  return {is_backwards ? left : taken, left};
}

std::string FoldedStep::argument() const { return fmt::format("{}{}{}{}", kFolded, lag, kOf, count); }

std::optional<FoldedStep> folded_step(std::string_view argument) {
  if (!argument.starts_with(kFolded)) return std::nullopt;
  argument.remove_prefix(kFolded.size());
  const std::size_t of = argument.find(kOf);
  return FoldedStep{parsed(argument.substr(0, of)), parsed(argument.substr(of + kOf.size()))};
}

bool is_scan_argument(std::string_view argument) { return argument == kScanStep || folded_step(argument); }

std::optional<std::int64_t> scan_argument(std::string_view argument, const ScanPosition& at) {
  return is_scan_argument(argument) ? std::optional(ScanArgument(argument).value(at)) : std::nullopt;
}

}  // namespace moxie
