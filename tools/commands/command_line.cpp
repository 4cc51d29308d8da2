#include "tools/commands/command_line.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>

#include "runtime/switches.h"

namespace moxie {
namespace {

constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;
constexpr const char* kOutOfMemory = "out of memory; use smaller dims or batches";

int fail(std::string_view message, int code) {
  fmt::print(stderr, "moxie: {}\n", message);
  return code;
}

void require_known_switches() {
  try {
    check_switches();
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

int run_command_line(OptionParser& parser, int argc, char** argv, const Work& work,
                     const std::function<void(const OptionParser&)>& explain) {
  require_known_switches();
  try {
    if (!parser.parse(argc, argv)) return 0;  // --help, --version
  } catch (const UsageError&) {
    if (explain) explain(parser);
    throw;
  }
  const int code = work();
  if (std::fflush(stdout) != 0)
    throw DataError("cannot write to the standard output: " + std::generic_category().message(errno));
  return code;
}

int exit_code(const std::function<int()>& run) {
  try {
    return run();
  } catch (const UsageError& error) {
    return fail(error.what(), kWrongUsage);
  } catch (const std::bad_alloc&) {
    return fail(kOutOfMemory, kFailure);
  } catch (const std::length_error&) {
    return fail(kOutOfMemory, kFailure);
  } catch (const std::exception& error) {
    return fail(error.what(), kFailure);
  }
}

}  // namespace moxie
