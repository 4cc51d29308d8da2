// Options of a device in code, in the place of switches of the environment.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "compiler/support/error.h"
#include "runtime/byte_size.h"
#include "runtime/compiled_function.h"
#include "runtime/session.h"
#include "runtime/temporary_folder.h"
#include "tests/devices.h"
#include "tests/runtime/session_program.h"
#include "tests/setting.h"

using namespace moxie;
using moxie::test::tensor;

namespace {

const char* const kRoots = "dim N = 2\nindex n:N\ninput x[N], z[N] >= 0\noutput y[n] = sqrt(x[n]) + z[n]\n";

std::shared_ptr<Device> with_options(std::string_view name, const ProgramOptions& programs) {
  return test::test_device(name, {.programs = programs});
}

/// Runs with these values of x and z.
void run_roots(const std::shared_ptr<Device>& device, double x, double z) {
  Session session(parse(kRoots), {}, device);
  session.set("x", tensor({2}, {1, x}));
  session.set("z", tensor({2}, {1, z}));
  session.run();
  session.wait();
}

}  // namespace

TEST_CASE("kernels check what the options of their device say, else what the switch says") {
  for (const char* name : {"interp", "cpu", "cuda-emu", "cuda"}) {
    CAPTURE(name);
    const auto plain = with_options(name, {}), checked = with_options(name, {.checks = "nan"});
    if (!plain || !checked) continue;
    run_roots(plain, -1, 0);
    CHECK_THROWS_WITH_AS(run_roots(checked, -1, 0), doctest::Contains("y is not finite at n = 1"), DeviceError);
    run_roots(checked, 4, 0);
    const test::Setting setting("MOXIE_CHECK", "bounds");
    run_roots(plain, -1, 0);
    CHECK_THROWS_AS(run_roots(checked, -1, 0), DeviceError);
  }
}

TEST_CASE("inputs are checked, or not, as the options of the device say") {
  for (const char* name : {"interp", "cpu", "cuda-emu", "cuda"}) {
    CAPTURE(name);
    const auto trusting = with_options(name, {.check_inputs = false}),
               strict = with_options(name, {.check_inputs = true});
    if (!trusting || !strict) continue;
    run_roots(trusting, 1, -1);
    CHECK_THROWS_AS(run_roots(strict, 1, -1), DataError);
    const test::Setting setting("MOXIE_CHECK_INPUTS", "off");
    CHECK_THROWS_AS(run_roots(strict, 1, -1), DataError);
    CompiledFunction function(parse(kRoots), {}, strict);
    const std::array<float, 2> x = {1, 1}, z = {1, -1};
    std::array<float, 2> y{};
    const std::array<const void*, 2> inputs = {x.data(), z.data()};
    const std::array<void*, 1> outputs = {y.data()};
    CHECK_THROWS_AS(function.bind({{2}, {2}})->run(inputs, outputs, 0, 0), DataError);
  }
}

TEST_CASE("plans without some passes are others in the cache") {
  const TemporaryFolder folder;
  const auto made = [&](const ProgramOptions& programs) {
    const auto device = open_device("interp", {.cache_directory = folder.path().string(), .programs = programs});
    Session session(parse(kRoots), {}, device);
    static_cast<void>(session.plan());
    return session.planning().made;
  };
  const bool is_cached = open_device("interp")->plan_cache() != nullptr;
  CHECK(made({}) == 1);
  CHECK(made({}) == (is_cached ? 0 : 1));
  CHECK(made({.disabled_passes = "share"}) == 1);
  CHECK(made({.checks = "nan"}) == 1);
}

TEST_CASE("options whose values are none are refused when the device is opened") {
  const auto open = [](const DeviceOptions& options) { open_device("cpu", options); };
  CHECK_THROWS_WITH_AS(open({.programs = {.checks = "inf"}}),
                       "the option that stands for MOXIE_CHECK is 'inf': 'inf' is unknown; choose from: nan, negvar, "
                       "bounds",
                       TypeError);
  CHECK_THROWS_WITH_AS(open({.programs = {.disabled_passes = "fuse"}}), doctest::Contains("'fuse' is unknown"),
                       TypeError);
  CHECK_THROWS_WITH_AS(open({.kernel_override = "/no/such/folder"}), doctest::Contains("there is no such folder"),
                       TypeError);
  CHECK_THROWS_WITH_AS(open({.dump = {.folder = "dumped", .stages = "lop"}}), doctest::Contains("'lop' is unknown"),
                       TypeError);
  CHECK_THROWS_AS(open({.dump = {.folder = "dumped", .kernels = "("}}), TypeError);
  CHECK_FALSE(std::filesystem::exists("dumped"));
}

TEST_CASE("a device dumps what it compiles into the folder that its options name") {
  const TemporaryFolder folder;
  {
    const auto device = test::test_device("cpu", {.dump = {.folder = folder.path().string(), .stages = "loop"}});
    if (!device) return;
    run_roots(device, 1, 1);
  }
  const auto files = std::filesystem::recursive_directory_iterator(folder.path());
  const auto texts = std::count_if(begin(files), end(files), [](const auto& entry) { return entry.is_regular_file(); });
  CHECK(texts > 0);
}

TEST_CASE("an amount of memory is a number with a unit, or the option is refused") {
  CHECK(byte_size("500M") == std::int64_t{500} << 20);
  CHECK(byte_size("1.5GiB") == std::int64_t{3} << 29);
  CHECK(byte_size("77") == 77);
  for (const char* wrong : {"", "M", "2X", "2Gigs", "-1", "1e30", "9999999T"}) {
    CAPTURE(wrong);
    CHECK(!byte_size(wrong));
  }
  CHECK_THROWS_WITH_AS(open_device("interp", {.programs = {.memory = "much"}}), doctest::Contains("write 500M or 2G"),
                       TypeError);
}

TEST_CASE("a program without a device is refused") {
  CHECK_THROWS_WITH_AS(Session(parse(kRoots), {}, nullptr), doctest::Contains("open_device()"), TypeError);
  CHECK_THROWS_WITH_AS(CompiledFunction(parse(kRoots), {}, nullptr), doctest::Contains("open_device()"), TypeError);
}
