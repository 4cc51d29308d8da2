// The commands that have no file of tests of their own.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/program/program.h"
#include "ops/catalogue.h"
#include "runtime/safetensors.h"
#include "tests/cli/process.h"
#include "tests/skip.h"

using namespace moxie;
using moxie::test::contains;
using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

TEST_CASE("ops lists the catalogue and prints its files") {
  const Workshop shop;
  const Outcome table = shop.moxie({"ops"});
  CHECK(table.code == 0);
  for (const Op& op : catalogue()) CHECK(contains(table.out, std::string(op.name) + " "));
  const Outcome text = shop.moxie({"ops", "gpn.kappa"});
  CHECK(text.out == get_op("gpn.kappa").text);
  CHECK_NOTHROW(parse(text.out, "", catalogue_library()));
  CHECK(nlohmann::json::parse(shop.moxie({"ops", "--json"}).out).size() == catalogue().size());
  const Outcome unknown = shop.moxie({"ops", "gpn.kapa"});
  CHECK(unknown.code == 1);
  CHECK(contains(unknown.err, "gpn.kappa"));
}

TEST_CASE("every process writes the same text of the same Program") {
  const Workshop shop;
  const std::vector<std::string> dump = {
      "dump", "gpn.response_variance", "--dim", "N=5,R=4", "--grad", "variance", "--stage", "cuda"};
  const std::string first = shop.moxie(dump).out;
  CHECK(first.find("__global__") != first.npos);
  // Elsewhere in memory, so that nothing that is ordered by addresses comes out alike.
  for (const char* elsewhere : {"", "MALLOC_ARENA_MAX=1 MALLOC_TOP_PAD_=1000003 ", "LD_BIND_NOW=1 MALLOC_PERTURB_=85 "})
    CHECK(shop.moxie(dump, elsewhere).out == first);
}

TEST_CASE("dump shows every stage") {
  const Workshop shop;
  const std::vector<std::string> arguments = {
      "dump", "gpn.response_mean", "--dim", "N=2,R=3", "--grad", "mean", "--wrt", "U"};
  auto every = arguments;
  every.insert(every.end(), {"--stage", "all"});
  const Outcome all = shop.moxie(every);
  REQUIRE_MESSAGE(all.code == 0, all.err);
  for (const char* stage :
       {"ir", "diff", "rewrite", "fuse", "schedule", "loop", "cuda", "ptx", "sass", "llvm", "llvm-opt", "asm"}) {
    CHECK(contains(all.out, std::string("# ======== ") + stage + ":"));
  }
  auto one = arguments;
  one.insert(one.end(), {"--stage", "diff"});
  const Outcome diff = shop.moxie(one);
  CHECK_NOTHROW(parse(diff.out));
  CHECK(contains(diff.out, "grad.U"));
  one.back() = "cubin";
  CHECK(shop.moxie(one).code == 2);
  const Outcome open = shop.moxie({"dump", "gpn.response_mean", "--stage", "loop"});
  CHECK(open.code == 0);
  CHECK(contains(open.err, "no value was given for N, R, and 256 was taken; give others with --dim N=..,R=.."));
}

TEST_CASE("dump is short unless stages are asked for, and takes a formula as the README shows it") {
  const Workshop shop;
  shop.write("density.mox",
             "dim S dynamic, R\nindex s:S, r:R\ninput x[S], point[R]\n"
             "output density[s] = sum[r](exp(-(x[s] - point[r])^2/2))\n");
  const Outcome dumped = shop.moxie({"dump", "density.mox"});
  REQUIRE_MESSAGE(dumped.code == 0, dumped.err);
  CHECK(dumped.err.empty());
  CHECK(std::ranges::count(dumped.out, '\n') < 20);
  for (const char* part : {"output density[s] = sum[r](", "1 kernel for R = 256 (assumed), S = 256 (assumed)",
                           "k_density", " 100 % ##########", "give others with --dim R=..,S=..", "--stage all"})
    CHECK_MESSAGE(contains(dumped.out, part), dumped.out);
  CHECK(contains(shop.moxie({"dump", "density.mox", "--dim", "R=8,S=100"}).out, "1 kernel for R = 8, S = 100; times"));
}

TEST_CASE("doctor names every part, as text and as JSON") {
  const Workshop shop;
  const Outcome text = shop.moxie({"doctor"});
  CHECK_MESSAGE(text.code == 0, text.out);
  for (const char* part : {"processor", "LLVM plugin", "OpenBLAS", "CUDA driver", "NVRTC", "cuBLAS", "cuSOLVER",
                           "kernel cache", "MOXIE_CACHE_DIR"}) {
    CHECK(contains(text.out, part));
  }
  const auto report = nlohmann::json::parse(shop.moxie({"doctor", "--json"}).out);
  CHECK(report.at(0).at("part") == "processor");
  CHECK(report.back().at("llvm_compilations") == 0);  // the first call filled the cache
  CHECK(report.back().at("hits") == 1);
}

TEST_CASE("doctor measures this processor's table and keeps it beside the cache, and compares estimates with times") {
  const Workshop shop;
  const Outcome table = shop.moxie({"doctor", "--calibrate", "--json"});
  REQUIRE_MESSAGE(table.code == 0, table.err);
  auto measured = nlohmann::json::parse(table.out);
  CHECK(measured.at("gigahertz") > 0.2);
  CHECK(measured.at("gigahertz") < 10);
  for (const auto& level : measured.at("levels")) CHECK(level.at("bytes_per_cycle") > 0.01);
  const auto file = shop.path("cache") / ("machine-" + measured.at("name").get<std::string>() + ".json");
  auto kept = nlohmann::json::parse(test::read_file(file));
  CHECK(!kept.at("processor").get<std::string>().empty());
  kept.erase("processor");
  CHECK(kept == measured);
  CHECK(nlohmann::json::parse(shop.moxie({"doctor", "--json"}).out).at(0).at("calibrated") == true);

  shop.write("sums.mox", "dim N dynamic\nindex n:N\ninput x[N]\noutput y = sum[n](exp(-x[n]^2))\n");
  const Outcome outcome = shop.moxie({"doctor", "--estimates", "./sums.mox", "--extents", "64,4096", "--json"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const auto report = nlohmann::json::parse(outcome.out);
  CHECK(report.at("rank_correlation") <= 1);
  REQUIRE(report.at("kernels").size() >= 2);
  for (const auto& kernel : report.at("kernels")) {
    CHECK(kernel.at("measured_s") > 0);
    CHECK(kernel.at("estimated_s") > 0);
  }
  CHECK(contains(shop.moxie({"doctor", "--estimates", "./sums.mox", "--extents", "64"}).out, "rank correlation"));
}

TEST_CASE("help shows what a command, or a model, has, and the environment once") {
  const Workshop shop;
  CHECK(contains(shop.moxie({"help", "environment"}).out, "\n  MOXIE_CACHE_DIR=DIR"));
  CHECK_FALSE(contains(shop.moxie({"--help"}).out, "MOXIE_CACHE_DIR"));
  const std::string run = shop.moxie({"help", "run"}).out;
  CHECK(contains(run, "--stats"));
  CHECK(contains(run, "Examples:\n  moxie run density.mox"));
  CHECK(run == shop.moxie({"run", "--help"}).out);
  CHECK(contains(shop.moxie({"help", "trains"}).err, "there is nothing to say of 'trains'; did you mean `train`?"));

  const std::string gpn = shop.moxie({"train", "gpn", "--help"}).out;
  CHECK(contains(gpn, "--propagate"));
  CHECK_FALSE(contains(gpn, "--dropout-rate"));
  CHECK_FALSE(contains(gpn, "--sequences"));
  const std::string any = shop.moxie({"train", "--help"}).out;
  CHECK(contains(any, "--patience"));
  CHECK_FALSE(contains(any, "--propagate"));
  CHECK(contains(any, "moxie train gpn --help"));
}

TEST_CASE("the shell completes commands, their options and names of files") {
  const Workshop shop;
  shop.write("model.mox", "");
  shop.write("complete.sh", "source <(" MOXIE_PROGRAM
                            " completion bash)\n"
                            "COMP_WORDS=(moxie \"$@\")\nCOMP_CWORD=$#\n_moxie\necho \"${COMPREPLY[@]}\"\n");
  const auto completed = [&](const std::string& words) { return shop.shell("bash complete.sh " + words).out; };
  CHECK(completed("tr") == "train\n");
  CHECK(completed("train gpn --propa") == "--propagate\n");
  CHECK(completed("train mod") == "model.mox\n");
  CHECK(completed("aot des") == "describe\n");
  CHECK(completed("cache gc --li") == "--limit\n");
}

TEST_CASE("the cache is listed, shrunk and emptied") {
  const Workshop shop;
  REQUIRE(shop.moxie({"train", "mlp", "--layers", "2", "--epochs", "1", "--threads", "1"}).code == 0);
  const std::string full = shop.moxie({"cache", "stat"}).out;
  CHECK_FALSE(contains(full, "\nentries    0\n"));
  const std::string list = shop.moxie({"cache", "ls"}).out;
  CHECK(std::ranges::count(list, '\n') >= 2);
  CHECK(shop.moxie({"cache", "gc", "--limit", "1GiB"}).out.starts_with("0 entries"));
  CHECK(contains(shop.moxie({"cache", "gc", "--limit", "much"}).err, "much is not a size"));
  CHECK(shop.moxie({"cache", "clear"}).code == 0);
  CHECK(contains(shop.moxie({"cache", "stat"}).out, "\nentries    0\n"));
  CHECK(shop.moxie({"cache", "ls"}).out.empty());
}

TEST_CASE("output that cannot be written is a failure") {
  const Workshop shop;
  const Outcome outcome = shop.shell("'" MOXIE_PROGRAM "' ops > /dev/full");
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "No space left on device"));
}

TEST_CASE("a golden case becomes inputs for run" * doctest::test_suite("shared")) {
  const std::filesystem::path golden = std::filesystem::path(MOXIE_SHARED_DIR) / "golden" / "gpn.response_mean.json";
  const Workshop shop;
  if (!std::filesystem::exists(golden)) return test::skip("there is no " + golden.string());
  const std::string convert =
      "python3 '" MOXIE_TOOLS_DIR "/golden_to_safetensors.py' '" + golden.string() + "' in.st --expected want.st";
  REQUIRE_MESSAGE(shop.shell(convert).code == 0, read_file(shop.path(".err")));
  const Outcome outcome =
      shop.moxie({"run", "gpn.response_mean", "--dtype", "f64", "--in", "in.st", "--out", "out.st", "--grad", "mean"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const auto got = read_safetensors(shop.path("out.st")).tensors;
  for (const auto& [name, want] : read_safetensors(shop.path("want.st")).tensors) {
    CAPTURE(name);
    REQUIRE(got.contains(name));
    CHECK(got.at(name).shape == want.shape);
    const auto values = to_doubles(got.at(name)), wanted = to_doubles(want);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(values[i] == doctest::Approx(wanted[i]).epsilon(1e-9));
  }
  const Outcome unknown = shop.shell(convert + " --case none");
  CHECK(unknown.code == 1);
  CHECK(contains(unknown.err, "there is no case 'none'"));
}
