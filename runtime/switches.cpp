#include "runtime/switches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <regex>
#include <vector>

#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "compiler/text/source_text.h"
#include "runtime/byte_size.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/device.h"
#include "runtime/dump/stages.h"
#include "runtime/given_schedules.h"
#include "runtime/log.h"

namespace moxie {
namespace {

constexpr std::string_view kPrefix = "MOXIE_";

std::string any_text(std::string_view) { return {}; }

std::string thread_count(std::string_view value) {
  int threads = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), threads);
  const bool right =
      error == std::errc() && end == value.data() + value.size() && threads >= 0 && threads <= maximum_threads();
  return right ? "" : fmt::format("expected a number from 0 (all processors) to {}", maximum_threads());
}

std::string folder(std::string_view value) {
  std::error_code ignored;
  return std::filesystem::is_directory(value, ignored) ? "" : "there is no such folder";
}

std::string regular_expression(std::string_view value) {
  try {
    static_cast<void>(std::regex(value.begin(), value.end()));
    return {};
  } catch (const std::regex_error& error) {
    return fmt::format("it is no regular expression: {}", error.what());
  }
}

std::string words_of(std::span<const std::string_view> known, std::string_view value) {
  for (const std::string& word : split_list(value)) {
    if (std::ranges::find(known, word) == known.end())
      return fmt::format("'{}' is unknown; choose from: {}", word, fmt::join(known, ", "));
  }
  return {};
}

std::string check_names(std::string_view value) { return words_of(kCheckNames, value); }
std::string pass_names(std::string_view value) {
  std::vector<std::string_view> known = optional_passes();
  known.emplace_back(kSlicesPass);
  return words_of(known, value);
}
std::string stages_to_dump(std::string_view value) {
  std::vector<std::string_view> known;
  for (const Stage& stage : dump_stages()) known.push_back(stage.name);
  return words_of(known, value);
}

std::string on_or_off(std::string_view value) { return value == "on" || value == "off" ? "" : "choose from: on, off"; }

std::string symbol_consumer_names(std::string_view value) {
  constexpr std::string_view kKnown[] = {"perf", "gdb"};
  return words_of(kKnown, value);
}

std::string log_levels(std::string_view value) {
  try {
    parse_log_levels(value);
    return {};
  } catch (const TypeError& error) {
    return error.what();
  }
}

std::string schedules(std::string_view value) {
  try {
    parse_given_schedules(value);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string amount_of_memory(std::string_view value) {
  return byte_size(value) ? "" : "it is no amount of memory; write 500M or 2G";
}

constexpr std::array kSwitches = {
    Switch{"MOXIE_CACHE_DIR", "DIR", "where compiled kernels are kept; 0: nowhere (default: ~/.cache/moxie)", any_text},
    Switch{"MOXIE_CHECK", "LIST", "kernels look for bad values: nan, negvar, bounds", check_names, true},
    Switch{"MOXIE_CHECK_INPUTS", "on|off",
           "whether inputs are refused outside their declared domains, by `moxie run` NaN and infinities, too "
           "(default: on)",
           on_or_off},
    Switch{"MOXIE_DEVICE", "NAME",
           "the device of commands without --device: cpu, interp, cuda, cuda-emu or auto; cuda:1 is the "
           "second GPU",
           problem_with_device_name},
    Switch{"MOXIE_DISABLE", "LIST", "passes to leave out, to find the one that makes a fault: fold-double-sums, ...",
           pass_names, true},
    Switch{"MOXIE_DUMP", "DIR", "writes every stage of everything that is compiled into this folder", any_text},
    Switch{"MOXIE_DUMP_FILTER", "REGEX", "MOXIE_DUMP writes kernels with such names only", regular_expression},
    Switch{"MOXIE_DUMP_STAGES", "LIST", "MOXIE_DUMP writes these stages only: ir, loop, llvm, ...", stages_to_dump},
    Switch{"MOXIE_KERNEL_OVERRIDE", "DIR", "kernels are taken from this folder's files where it has them", folder},
    Switch{"MOXIE_LOG", "LIST", "says more on stderr: cache, codegen, runtime; cache:debug for all", log_levels},
    Switch{"MOXIE_MEMORY", "BYTES",
           "above this workspace, such as 2G, scans keep checkpoints for derivatives and compute their steps again",
           amount_of_memory},
    Switch{"MOXIE_PLUGIN_DIR", "DIR", "where the LLVM plugin is looked for first", any_text},
    Switch{"MOXIE_SCHEDULE", "LIST|@FILE",
           "schedules of kernels: y: lanes(n) parallel(s); on GPUs: team=32,threads=256,width=4,blocks=8 or k_y:team=1",
           schedules, true},
    Switch{"MOXIE_SYMBOLS", "LIST", "kernels of the CPU have names there: perf, gdb", symbol_consumer_names, true},
    Switch{"MOXIE_THREADS", "N", "the threads of commands without --threads; 0: all processors", thread_count},
};

/// Throws TypeError for a misspelt switch. A name that is like none is a variable of another tool.
void refuse_misspelt(std::string_view name) {
  std::vector<std::string> known;
  for (const Switch& each : kSwitches) known.emplace_back(each.name.substr(kPrefix.size()));
  const std::string similar = did_you_mean(name.substr(kPrefix.size()), known);
  if (!similar.empty())
    throw TypeError(fmt::format("there is no switch {}; {} (after {}; `moxie help environment` lists all)", name,
                                similar, kPrefix));
}

void check(std::string_view name, std::string_view value) {
  const auto* known = std::ranges::find(kSwitches, name, &Switch::name);
  if (known == kSwitches.end()) return refuse_misspelt(name);
  const std::string problem = value.empty() ? "" : known->problem(value);
  if (!problem.empty()) throw TypeError(fmt::format("switch {} is '{}': {}", name, value, problem));
}

}  // namespace

std::span<const Switch> switches() { return kSwitches; }

std::string switches_help() {
  std::string text = "Environment:\n";
  for (const Switch& known : kSwitches) {
    text += fmt::format("  {:28}{}\n", fmt::format("{}={}", known.name, known.value), known.meaning);
  }
  return text;
}

void check_switches() {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (!text.starts_with(kPrefix)) continue;
    const std::size_t equals = std::min(text.find('='), text.size() - 1);
    check(text.substr(0, equals), text.substr(equals + 1));
  }
}

std::string switch_value(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return {};
  check(name, value);
  return value;
}

std::string option_or_switch(const std::string& option, std::string_view name) {
  if (option.empty()) return switch_value(name);
  const auto* known = std::ranges::find(kSwitches, name, &Switch::name);
  if (known == kSwitches.end()) throw InternalError(fmt::format("there is no switch {}", name));
  if (const std::string problem = known->problem(option); !problem.empty())
    throw TypeError(fmt::format("the option that stands for {} is '{}': {}", name, option, problem));
  return option;
}

void check_program_options(const ProgramOptions& options) {
  chosen_checks(options);
  disabled_passes(options);
  memory_limit(options);
}

bool checks_inputs(const ProgramOptions& options) {
  return options.check_inputs.value_or(switch_value("MOXIE_CHECK_INPUTS") != "off");
}
std::vector<std::string> disabled_passes(const ProgramOptions& options) {
  return split_list(option_or_switch(options.disabled_passes, "MOXIE_DISABLE"));
}
std::int64_t memory_limit(const ProgramOptions& options) {
  const std::string limit = option_or_switch(options.memory, "MOXIE_MEMORY");
  return limit.empty() ? std::numeric_limits<std::int64_t>::max() : *byte_size(limit);
}
Checks chosen_checks(const ProgramOptions& options) {
  return checks_named(split_list(option_or_switch(options.checks, "MOXIE_CHECK")));
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

}  // namespace moxie
