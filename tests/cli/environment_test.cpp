// What the environment and the plugin change about a run: switches, logs, kernels that are dumped, edited or known.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/safetensors.h"
#include "tests/cli/process.h"
#include "tests/skip.h"

using namespace moxie;
using moxie::test::contains;
using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

/// y and z in kernels of their own, with inputs in in.st.
void write_two_kernels(const Workshop& shop, const std::vector<double>& x) {
  shop.write("f.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = sqrt(x[n])\noutput z = sum[n](y[n])\n");
  const auto size = static_cast<std::int64_t>(x.size());
  write_safetensors(shop.path("in.st"), {{{"x", make_host_tensor(DType::f32, {size}, x)}}, {}});
}

const std::vector<std::string> kRun = {"run", "f.mox", "--in", "in.st", "--out", "out.st"};

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder, const std::string& extension) {
  std::vector<std::filesystem::path> files;
  std::error_code absent;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, absent)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

TEST_CASE("switches are checked") {
  const Workshop shop;
  const Outcome unknown = shop.moxie({"ops"}, "MOXIE_CASH_DIR=x ");
  CHECK(unknown.code == 2);
  CHECK(
      contains(unknown.err,
               "there is no switch MOXIE_CASH_DIR; did you mean `CACHE_DIR`? (after MOXIE_; `moxie help environment`"));
  // Other tools have variables with the same prefix.
  CHECK(shop.moxie({"ops"}, "MOXIE_ROOT=/x MOXIE_DIR=/x MOXIE_AOT_TOOL=/x/moxie ").code == 0);
  const Outcome bad = shop.moxie({"ops"}, "MOXIE_THREADS=many ");
  CHECK(bad.code == 2);
  CHECK(contains(bad.err, "switch MOXIE_THREADS is 'many': expected a number from 0 (all processors) to "));
  CHECK(shop.moxie({"ops"}, "MOXIE_DEVICE=gpu ").code == 2);
}

TEST_CASE("MOXIE_DUMP writes what a command compiles, also on a warm start") {
  const Workshop shop;
  shop.write("f.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n");
  write_safetensors(shop.path("in.st"), {{{"x", make_host_tensor(DType::f32, {2}, std::vector<double>{0, 1})}}, {}});
  for (const char* folder : {"cold", "warm"}) {
    REQUIRE(shop.moxie({"run", "f.mox", "--in", "in.st", "--out", "out.st"}, std::string("MOXIE_DUMP=") + folder + " ")
                .code == 0);
    CHECK(contains(read_file(shop.path(folder) / "00_f" / "k_y.asm.s"), "k_y:"));
  }
}

TEST_CASE("MOXIE_DUMP_FILTER and MOXIE_DUMP_STAGES choose what is written") {
  const Workshop shop;
  write_two_kernels(shop, {1, 4});
  REQUIRE(shop.moxie(kRun, "MOXIE_DUMP=d MOXIE_DUMP_STAGES=loop,llvm MOXIE_DUMP_FILTER='^k_[yz]$' ").code == 0);
  const auto texts = files_below(shop.path("d"), ".txt");
  REQUIRE(texts.size() == 3);
  CHECK(texts[0].filename() == "figures.txt");
  CHECK(texts[1].filename() == "k_y.loop.txt");
  CHECK(texts[2].filename() == "k_z.loop.txt");
  REQUIRE(files_below(shop.path("d"), ".ll").size() == 2);
  for (const auto& file : files_below(shop.path("d"), ".ll")) CHECK(contains(read_file(file), "define hidden void"));
  REQUIRE(shop.moxie({"check", "gpn.kappa"}, "MOXIE_DUMP=c MOXIE_DUMP_STAGES=ir ").code == 0);
  CHECK(files_below(shop.path("c"), ".mox").size() >=
        5);  // a folder for each Plan: of the interpreter, and of the CPU and the emulator in both precisions
  REQUIRE(shop.moxie(kRun, "MOXIE_DUMP=e MOXIE_DUMP_FILTER=nothing ").code == 0);
  CHECK_FALSE(std::filesystem::exists(shop.path("e")));
}

TEST_CASE("the stages that MOXIE_DUMP_STAGES knows are those of dump") {
  const Workshop shop;
  const std::string known = shop.moxie({"ops"}, "MOXIE_DUMP_STAGES=x ").err;
  std::string dumped = shop.moxie({"dump", "gpn.kappa", "--dim", "N=2,R=2", "--stage", "all"}).out;
  std::string stages;
  constexpr std::string_view kMark = "# ======== ";
  dumped = dumped.substr(0, dumped.find("# ======== figures"));
  for (std::size_t at = dumped.find(kMark); at != dumped.npos; at = dumped.find(kMark, at + 1)) {
    const std::size_t begin = at + kMark.size();
    stages += (stages.empty() ? "" : ", ") + dumped.substr(begin, dumped.find(':', begin) - begin);
  }
  CHECK(contains(known, "choose from: " + stages + "\n"));
}

TEST_CASE("MOXIE_LOG writes to the standard error, and nothing is written without it") {
  const Workshop shop;
  write_two_kernels(shop, {1, 4});
  const Outcome cold = shop.moxie(kRun, "MOXIE_LOG=cache,codegen,runtime:debug ");
  REQUIRE(cold.code == 0);
  CHECK(cold.out.empty());
  CHECK(contains(cold.err, "moxie cache: miss " + shop.path("cache").string()));
  CHECK(contains(cold.err, "moxie codegen: compiled k_y ("));
  CHECK(contains(cold.err, "moxie runtime: plan f N=2: "));
  CHECK(contains(cold.err, "kernel k_y: "));
  const Outcome warm = shop.moxie(kRun, "MOXIE_LOG=cache ");
  CHECK(contains(warm.err, "moxie cache: hit "));
  CHECK_FALSE(contains(warm.err, "moxie runtime"));
  REQUIRE(shop.shell("for f in $(find cache -name '*.kernel'); do echo rubbish > $f; done").code == 0);
  CHECK(contains(shop.moxie(kRun, "MOXIE_LOG=cache ").err, "moxie cache: rebuild "));
  CHECK(shop.moxie(kRun).err.empty());
}

TEST_CASE("MOXIE_CHECK names the first bad value, on every device") {
  const Workshop shop;
  write_two_kernels(shop, {1, 4, -9});
  for (const char* device : {"cpu", "interp"}) {
    auto arguments = kRun;
    arguments.insert(arguments.end(), {"--device", device});
    CHECK(shop.moxie(arguments).code == 0);
    const Outcome checked = shop.moxie(arguments, "MOXIE_CHECK=nan,bounds ");
    CHECK(checked.code == 1);
    CHECK(checked.err == "moxie: y is not finite at n = 2 (value nan); it is computed as sqrt(x[n])\n");
  }
  CHECK(contains(shop.moxie({"dump", "f.mox", "--dim", "N=3", "--stage", "loop"}, "MOXIE_CHECK=nan ").out,
                 "\"y is not finite\""));
}

TEST_CASE("a kernel that MOXIE_DUMP wrote can be edited and run instead") {
  const Workshop shop;
  write_two_kernels(shop, {1, 4});
  REQUIRE(shop.moxie(kRun, "MOXIE_DUMP=d MOXIE_DUMP_STAGES=llvm ").code == 0);
  const auto kernels = files_below(shop.path("d"), ".ll");
  REQUIRE(!kernels.empty());
  const std::string text = read_file(kernels[0]), root = "@llvm.sqrt.v";
  REQUIRE(contains(text, root));
  REQUIRE(shop.shell("mkdir edited && cp '" + kernels[0].string() +
                     "' edited/ && touch edited/k_old-0.ll && sed -i "
                     "s/@llvm.sqrt.v/@llvm.fabs.v/ edited/" +
                     kernels[0].filename().string())
              .code == 0);
  auto arguments = kRun;
  arguments.emplace_back("--stats");
  const Outcome outcome = shop.moxie(arguments, "MOXIE_KERNEL_OVERRIDE=edited MOXIE_LOG=codegen ");
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.err, "overridden kernels 1"));
  CHECK(contains(outcome.err, "moxie codegen: replaced by edited/" + kernels[0].filename().string()));
  CHECK(contains(outcome.err,
                 "moxie codegen: unused: edited/k_old-0.ll is the file of no kernel that this device has run"));
  CHECK(to_doubles(read_safetensors(shop.path("out.st")).tensors.at("y")) == std::vector<double>{1, 4});
}

TEST_CASE("--tune measures once") {
  const Workshop shop;
  write_two_kernels(shop, std::vector<double>(3000, 4));
  auto arguments = kRun;
  arguments.emplace_back("--tune");
  CHECK(contains(shop.moxie(arguments, "MOXIE_LOG=runtime ").err, "moxie runtime: tuned k_y: "));
  const Outcome again = shop.moxie(arguments, "MOXIE_LOG=runtime ");
  CHECK_FALSE(contains(again.err, "moxie runtime: tuned"));
  CHECK(contains(again.err, "the fastest of "));
  CHECK_FALSE(contains(shop.moxie(kRun, "MOXIE_LOG=runtime ").err, "the fastest of "));
}

TEST_CASE("a plugin of another build is refused") {
  const Workshop shop;
  write_two_kernels(shop, {1, 4});
  shop.write("fake.c", "const char *moxie_llvm_abi(void) { return \"moxie 0, plugin interface 1\"; }\n");
  REQUIRE(shop.shell("mkdir plugin && ${CC:-cc} -shared -fPIC -o plugin/libmoxie_llvm.so fake.c").code == 0);
  const Outcome foreign = shop.moxie(kRun, "MOXIE_PLUGIN_DIR=plugin ");
  CHECK(foreign.code == 1);
  CHECK_MESSAGE(contains(foreign.err, "plugin/libmoxie_llvm.so belongs to another build of moxie"), foreign.err);
  CHECK(contains(foreign.err, "found 'moxie 0, plugin interface 1'"));
  shop.write("fake.c", "int nothing;\n");
  REQUIRE(shop.shell("${CC:-cc} -shared -fPIC -o plugin/libmoxie_llvm.so fake.c").code == 0);
  CHECK(contains(shop.moxie(kRun, "MOXIE_PLUGIN_DIR=plugin ").err, "it has no function moxie_llvm_abi"));
  CHECK(shop.moxie(kRun).code == 0);
}

TEST_CASE("kernels are known by the LLVM library and the switches that change code") {
  const Workshop shop;
  write_two_kernels(shop, {1, 4});
  const auto compiles = [&](const std::string& environment = "") {
    const Outcome outcome = shop.moxie(kRun, "MOXIE_LOG=codegen " + environment);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return contains(outcome.err, "compiled k_");
  };
  CHECK(compiles());
  CHECK_FALSE(compiles());
  // Without a plugin the note still tells which library made the kernels.
  REQUIRE(shop.shell("sed -i '5s/.*/LLVM 0.0.0/' cache/llvm-*").code == 0);
  CHECK(compiles());  // by another LLVM, as far as the note tells
  REQUIRE(shop.shell("sed -i '4s/.*/1 bytes of 2.000000003/' cache/llvm-*").code == 0);
  CHECK_FALSE(compiles());  // another file has taken the library's place: the note is void
  CHECK_FALSE(contains(shop.shell("cat cache/llvm-*").out, "LLVM 0.0.0"));
  CHECK(compiles("MOXIE_SYMBOLS=gdb "));
  CHECK(compiles("MOXIE_CHECK=nan "));
  CHECK(compiles("MOXIE_SCHEDULE=threads=64 "));
  CHECK_FALSE(compiles("MOXIE_SCHEDULE=threads=64 "));
}

TEST_CASE("LLVM is not loaded where all kernels are in the cache" * doctest::test_suite("strace")) {
  const Workshop shop;
  if (shop.shell("strace -V").code != 0) {
    moxie::test::skip("there is no strace");
    return;
  }
  write_two_kernels(shop, {1, 4});
  REQUIRE(shop.moxie(kRun).code == 0);
  // LeakSanitizer refuses to look at a process that is traced.
  const std::string traced = "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 strace -f -e trace=openat -o trace ";
  REQUIRE(shop.moxie(kRun, traced).code == 0);
  CHECK_FALSE(contains(read_file(shop.path("trace")), "libLLVM"));
}

TEST_CASE("more threads than the stated maximum are refused by option and switch") {
  const Workshop shop;
  write_two_kernels(shop, {1, 4});
  std::vector<std::string> many = kRun;
  many.insert(many.end(), {"--threads", "1000000"});
  const Outcome option = shop.moxie(many);
  CHECK(option.code == 2);
  CHECK_MESSAGE(contains(option.err, "--threads"), option.err);
  CHECK(shop.moxie(kRun, "MOXIE_THREADS=1000000 ").code == 2);
  CHECK(shop.moxie({"train", "gpn", "--data", "synthetic", "--threads", "100000", "--out", "run"}).code == 2);
}
