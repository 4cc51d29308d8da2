#include "compiler/schedule/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "compiler/support/error.h"
#include "compiler/support/trim.h"

namespace moxie {
namespace {

constexpr std::array<std::string_view, 6> kStepNames = {"reorder", "unroll", "lanes", "parallel", "rfactor", "split"};

bool has_factor(ScheduleStep::Kind kind) {
  return kind == ScheduleStep::Kind::Unroll || kind == ScheduleStep::Kind::Rfactor || kind == ScheduleStep::Kind::Split;
}

[[noreturn]] void refuse(std::string_view step, const std::string& reason) {
  throw ParseError(fmt::format("schedule step `{}`: {}", step, reason));
}

/// Tiles and chunks are written out; the iterations of a loop that is split are not.
std::int64_t parse_factor(ScheduleStep::Kind kind, std::string_view step, std::string_view text) {
  std::int64_t factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  const std::int64_t most = kind == ScheduleStep::Kind::Split ? std::int64_t{1} << 31 : 64;
  if (error != std::errc() || end != text.data() + text.size() || factor < 1 || factor > most)
    refuse(step, fmt::format("`{}` is no factor; expected a number from 1 to {}", text, most));
  return factor;
}

ScheduleStep parse_step(std::string_view step) {
  const auto bracket = step.find('(');
  if (bracket == std::string_view::npos || step.back() != ')')
    refuse(step, "expected name(loop, ...), for example lanes(i)");
  const auto name = std::ranges::find(kStepNames, trimmed(step.substr(0, bracket)));
  if (name == kStepNames.end()) refuse(step, fmt::format("unknown step; known steps: {}", fmt::join(kStepNames, ", ")));
  ScheduleStep result{static_cast<ScheduleStep::Kind>(name - kStepNames.begin()), {}};
  std::string_view rest = step.substr(bracket + 1, step.size() - bracket - 2);
  while (!trimmed(rest).empty()) {
    const auto comma = rest.find(',');
    result.loops.emplace_back(trimmed(rest.substr(0, comma)));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  if (has_factor(result.kind)) {
    if (result.loops.size() != 2)
      refuse(step, "expected a loop and a factor, for example unroll(i, 4), rfactor(sum, 16) or split(i, 64)");
    result.factor = parse_factor(result.kind, step, result.loops.back());
    result.loops.pop_back();
  }
  if (result.loops.empty() || std::ranges::count(result.loops, "") > 0) refuse(step, "names no loop");
  if (result.kind != ScheduleStep::Kind::Reorder && result.loops.size() != 1) refuse(step, "takes one loop");
  return result;
}

}  // namespace

std::string print(const ScheduleStep& step) {
  const std::string factor = has_factor(step.kind) ? fmt::format(", {}", step.factor) : "";
  return fmt::format("{}({}{})", kStepNames.at(static_cast<std::size_t>(step.kind)), fmt::join(step.loops, ", "),
                     factor);
}

std::string print(const Schedule& schedule) {
  std::string text;
  for (const ScheduleStep& step : schedule.steps) text += (text.empty() ? "" : " ") + print(step);
  return text;
}

Schedule parse_schedule(std::string_view text) {
  Schedule schedule;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const auto end = std::min(text.find(')'), text.size() - 1) + 1;
    schedule.steps.push_back(parse_step(text.substr(0, end)));
    text.remove_prefix(end);
  }
  return schedule;
}

}  // namespace moxie
