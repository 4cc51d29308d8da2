// The table of switches, and what their values mean.
#include "runtime/switches.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

#include "compiler/support/error.h"
#include "runtime/cache_key.h"
#include "runtime/log.h"

using namespace moxie;

TEST_CASE("lists are split at commas") {
  CHECK(split_list("").empty());
  CHECK(split_list("a") == std::vector<std::string>{"a"});
  CHECK(split_list("a,,b") == std::vector<std::string>{"a", "", "b"});
}

TEST_CASE("channels of the log have levels") {
  using enum LogLevel;
  CHECK(parse_log_levels("") == LogLevels{Off, Off, Off});
  CHECK(parse_log_levels("cache,runtime:debug") == LogLevels{Info, Off, Debug});
  CHECK(parse_log_levels("codegen:info") == LogLevels{Off, Info, Off});
  CHECK_THROWS_WITH_AS(parse_log_levels("cash"), "'cash' is no channel; choose from: cache, codegen, runtime",
                       TypeError);
  CHECK_THROWS_WITH_AS(parse_log_levels("cache:loud"), "'loud' is no level; choose from: info, debug", TypeError);
}

TEST_CASE("a value is checked where it is read, also in programs that never check them all") {
  ::setenv("MOXIE_CHECK", "nan,bounds", 1);
  CHECK(chosen_checks() == Checks{true, false, true});
  ::setenv("MOXIE_CHECK", "inf", 1);
  CHECK_THROWS_WITH_AS(chosen_checks(),
                       "switch MOXIE_CHECK is 'inf': 'inf' is unknown; choose from: nan, negvar, bounds", TypeError);
  ::unsetenv("MOXIE_CHECK");
  CHECK_FALSE(chosen_checks().any());
}

TEST_CASE("bad values of every switch are refused with what is wanted") {
  struct Case {
    const char *name, *value, *message;
  };
  for (const Case& bad :
       {Case{"MOXIE_DUMP_FILTER", "(", "it is no regular expression"},
        Case{"MOXIE_CHECK_INPUTS", "yes", "choose from: on, off"},
        Case{"MOXIE_DISABLE", "share,fuse", "'fuse' is unknown; choose from: drop-slopes, narrow-positions"},
        Case{"MOXIE_DUMP_STAGES", "ir,lop", "'lop' is unknown; choose from: ir, diff, rewrite"},
        Case{"MOXIE_KERNEL_OVERRIDE", "/no/such/folder", "there is no such folder"},
        Case{"MOXIE_LOG", "all", "'all' is no channel; choose from: cache, codegen, runtime"},
        Case{"MOXIE_THREADS", "-1", "expected a number from 0 (all processors) to "}}) {
    ::setenv(bad.name, bad.value, 1);
    try {
      check_switches();
      FAIL("accepted: ", bad.name);
    } catch (const TypeError& error) {
      CHECK(std::string(error.what())
                .starts_with(std::string("switch ") + bad.name + " is '" + bad.value + "': " + bad.message));
    }
    ::unsetenv(bad.name);
  }
}

TEST_CASE("the keys of kernels change with every switch that changes code, and with no other") {
  const std::map<std::string_view, const char*> values = {
      {"MOXIE_CHECK", "nan"}, {"MOXIE_DISABLE", "share"},       {"MOXIE_DEVICE", "interp"}, {"MOXIE_DUMP_STAGES", "ir"},
      {"MOXIE_LOG", "cache"}, {"MOXIE_SCHEDULE", "threads=64"}, {"MOXIE_SYMBOLS", "gdb"},   {"MOXIE_THREADS", "1"}};
  for (const Switch& known : switches()) {
    CAPTURE(known.name);
    const auto value = values.find(known.name);
    if (value == values.end()) CHECK_FALSE(known.changes_code);  // a new switch that does needs a value above
    if (value == values.end()) continue;
    const std::string name(known.name), before = key_head("kernel");
    ::setenv(name.c_str(), value->second, 1);
    CHECK((key_head("kernel") != before) == known.changes_code);
    ::unsetenv(name.c_str());
  }
  CHECK(key_head("kernel") != key_head("other kernel"));
}
