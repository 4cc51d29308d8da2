// moxie aot and moxie export as a user runs them.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/safetensors.h"
#include "tests/cli/process.h"

namespace moxie::test {
namespace {

#if defined(__aarch64__)
constexpr const char* kHere = "cpu:aarch64";
constexpr const char* kElsewhere = "cpu:x86-64";
#else
constexpr const char* kHere = "cpu:x86-64-v3,cpu:x86-64";
constexpr const char* kElsewhere = "cpu:aarch64";
#endif

constexpr const char* kDensity = R"(dim S dynamic, R
index s:S, r:R
input x[S], point[R]
output density[s] = sum[r](exp(-(x[s] - point[r])^2/2)) + 0*randu(1)
)";

void write_inputs(const Workshop& shop) {
  const std::vector<double> x = {0, 1, 2}, point = {0, 3};
  write_safetensors(
      shop.path("in.safetensors"),
      {{{"x", make_host_tensor(DType::f32, {3}, x)}, {"point", make_host_tensor(DType::f32, {2}, point)}}, {}});
}

/// Seconds behind a word of `moxie aot bench`.
double milliseconds(const std::string& text, const std::string& word) {
  return std::stod(text.substr(text.find("\n" + word) + 1 + word.size()));
}

void check_refused(const Outcome& outcome, int code, const std::string& message) {
  CAPTURE(outcome.err);
  CHECK(outcome.code == code);
  CHECK(contains(outcome.err, message));
}

}  // namespace

TEST_CASE("a library is made, described and run, and gives what `moxie run` gives") {
  const Workshop shop;
  shop.write("density.mox", kDensity);
  write_inputs(shop);
  const Outcome made =
      shop.moxie({"aot", "density.mox", "--dim", "R=2", "--target", kHere, "-o", "lib", "--depfile", "lib.d"});
  CHECK(made.code == 0);
  CHECK(made.err == "");
  CHECK(read_file(shop.path("lib.d")) == "lib/libdensity.a: \\\n  density.mox\n");
  for (const char* file : {"lib", "lib/density.json", "lib/libdensity.a"}) {
    const Outcome described = shop.moxie({"aot", "describe", file});
    CHECK(
        contains(described.out, "density(S)\n  input  x[S]: f32\n  input  point[2]: f32\n  output density[S]: f32\n"));
  }
  CHECK(shop.moxie({"aot", "run", "lib", "--in", "in.safetensors", "--out", "a.safetensors"}).code == 0);
  CHECK(shop.moxie({"run", "density.mox", "--in", "in.safetensors", "--out", "b.safetensors"}).code == 0);
  CHECK(read_safetensors(shop.path("a.safetensors")).tensors == read_safetensors(shop.path("b.safetensors")).tensors);
}

TEST_CASE("a library says which values its inputs take, and does not look; aot run does") {
  const Workshop shop;
  shop.write("root.mox", "dim S dynamic\nindex s:S\ninput x[S] >= 0\noutput y[s] = sqrt(1 + x[s])\n");
  CHECK(shop.moxie({"aot", "root.mox", "--target", kHere, "-o", "lib"}).code == 0);
  CHECK(contains(read_file(shop.path("lib/root.h")), "x; /* x[S], >= 0; count: S */"));
  CHECK(contains(read_file(shop.path("lib/root.h")), "This is not checked"));
  CHECK(contains(shop.moxie({"aot", "describe", "lib"}).out, "input  x[S]: f32 >= 0\n"));
  write_safetensors(shop.path("x.safetensors"),
                    {{{"x", make_host_tensor(DType::f32, {2}, std::vector<double>{3, -0.75})}}, {}});
  const std::vector<std::string> run = {"aot", "run", "lib", "--in", "x.safetensors", "--out", "y.safetensors"};
  check_refused(shop.moxie(run), 1, "x[1] = -0.75, but x is declared >= 0");
  CHECK(shop.moxie(run, "MOXIE_CHECK_INPUTS=off ").code == 0);
  CHECK(to_doubles(read_safetensors(shop.path("y.safetensors")).tensors.at("y")) == std::vector<double>{2, 0.5});
}

TEST_CASE("the library of a GPN layer is small, and ready at once") {
  const Workshop shop;
  CHECK(shop.moxie({"aot", "gpn.first_layer", "--dim", "M=16,N=50,R=14", "--grad", "mean,variance", "--target",
                    std::string(kHere).substr(0, std::string(kHere).find(',')), "-o", "lib"})
            .code == 0);
  CHECK(std::filesystem::file_size(shop.path("lib/libgpn_first_layer.a")) < 200'000);
  double best = 1e9;
  for (int k = 0; k < 3; ++k) {
    const Outcome bench = shop.moxie({"aot", "bench", "lib", "--function", "gpn_first_layer", "--dim", "S=64"});
    REQUIRE(bench.code == 0);
    best = std::min(best, milliseconds(bench.out, "load") + milliseconds(bench.out, "first call"));
  }
  CHECK(best < 5);
}

TEST_CASE("a formula may come from the standard input, and code is for this processor unless another is named") {
  const Workshop shop;
  shop.write("y.mox", "dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n");
  const Outcome made = shop.shell("cat y.mox | " MOXIE_PROGRAM " aot - -o lib");
  CAPTURE(made.err);
  CHECK(made.code == 0);
  CHECK(std::filesystem::exists(shop.path("lib/formula.h")));
  CHECK(shop.shell("cat y.mox | " MOXIE_PROGRAM " check -").code == 0);
  const Outcome wrong = shop.shell("echo 'output y = z' | " MOXIE_PROGRAM " dump -");
  CHECK(wrong.code == 1);
  CHECK(wrong.err.find("stdin:1:12: ") != std::string::npos);
}

TEST_CASE("what cannot be made or called is refused, and nothing is left behind") {
  const Workshop shop;
  shop.write("density.mox", kDensity);
  shop.write("file", "no folder");
  write_inputs(shop);
  check_refused(shop.moxie({"aot", "--target", kHere, "-o", "lib"}), 2, "name the formulas");
  check_refused(shop.moxie({"aot", "density.mox", "--target", kHere}), 2, "-o DIR");
  check_refused(shop.moxie({"aot", "density.mox", "--target", "cpu:z80", "-o", "lib"}), 1, "unknown target 'cpu:z80'");
  check_refused(shop.moxie({"aot", "density.mox", "--target", kHere, "-o", "lib"}), 1,
                "density: dim R is a constant of the code and has no value; give it (--dim R=...)");
  check_refused(shop.moxie({"aot", "density.mox", "--target", kHere, "--dim", "R=2", "--grad", "y", "-o", "lib"}), 2,
                "--grad y: none of the formulas has it");
  const Outcome listed =
      shop.moxie({"aot", "density.mox", "--target", kHere, "--dim", "R=2", "-o", "lib", "--dry-run"});
  CHECK(listed.code == 0);
  for (const char* file : {" bytes  lib/libdensity.a\n", " bytes  lib/density.h\n", " bytes  lib/density.json\n"})
    CHECK(contains(listed.out, file));
  CHECK(!std::filesystem::exists(shop.path("lib")));
  check_refused(shop.moxie({"aot", "density.mox", "--dim", "R=2", "--target", kHere, "-o", "file/lib"}), 1, "file/lib");
  CHECK(shop.moxie({"aot", "density.mox", "--dim", "R=2", "--target", kElsewhere, "-o", "far"}).code == 0);
  check_refused(shop.moxie({"aot", "bench", "far"}), 1, "which this machine cannot run");
  CHECK(shop.moxie({"aot", "density.mox", "--dim", "R=3", "--target", kHere, "-o", "lib"}).code == 0);
  check_refused(shop.moxie({"aot", "run", "lib", "--in", "in.safetensors", "--out", "out.safetensors"}), 1, "point");
  check_refused(shop.moxie({"aot", "bench", "lib", "--function", "f"}), 2, "it has density");
  check_refused(shop.moxie({"aot", "describe", "density.mox"}), 1, "there is no manifest in it");
  CHECK(shop.shell("sed -i 's/\"format\": 1/\"format\": 7/' lib/density.json").code == 0);
  check_refused(shop.moxie({"aot", "describe", "lib"}), 1, "a library of format 7");
}

}  // namespace moxie::test
