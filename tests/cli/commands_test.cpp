// The commands that have no file of tests of their own.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compiler/ir/program.h"
#include "ops/catalogue.h"
#include "runtime/safetensors.h"
#include "tests/cli/process.h"
#include "tests/skip.h"

using namespace moxie;
using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("ops lists the catalogue and prints its files") {
  const Workshop shop;
  const Outcome table = shop.moxie({"ops"});
  CHECK(table.code == 0);
  for (const Op& op : catalogue()) CHECK(contains(table.out, std::string(op.name) + " "));
  const Outcome text = shop.moxie({"ops", "gpn.kappa"});
  CHECK(text.out == get_op("gpn.kappa").text);
  CHECK_NOTHROW(parse(text.out));
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

TEST_CASE("bench gives the fields that others read") {
  const Workshop shop;
  const Outcome layer =
      shop.moxie({"bench", "gpn_layer_variance", "--dims", "S=8,N=3,R=4", "--json", "--threads", "1"});
  REQUIRE_MESSAGE(layer.code == 0, layer.err);
  const auto entry = nlohmann::json::parse(layer.out).at(0);
  CHECK(entry.at("case") == "gpn_layer_variance");
  CHECK(entry.at("device") == "cpu");
  CHECK(entry.at("dtype") == "f32");
  CHECK(entry.at("threads") == 1);
  CHECK(entry.at("dims") == nlohmann::json{{"S", 8}, {"N", 3}, {"R", 4}});
  for (const char* field : {"forward_s", "forward_backward_s", "compile_s", "peak_bytes", "input_bytes"})
    CHECK(entry.at(field) > 0);
  const Outcome no_dim = shop.moxie({"bench", "gpn_kappa", "--dims", "S=8"});
  CHECK(no_dim.code == 2);
  CHECK(contains(no_dim.err, "--dim S=8: gpn_kappa has no dim 'S'; it has N, R"));
  const Outcome unknown = shop.moxie({"bench", "nothing"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err,
                 "'nothing' is no benchmark case, no built-in formula (`moxie ops` lists them) and no .mox file; the "
                 "cases are gpn_layer_variance, "));
  const Outcome gradient = shop.moxie({"bench", "gpn_kappa", "--grad", "kappa"});
  CHECK(gradient.code == 2);
  CHECK(gradient.err ==
        "moxie: --grad, --wrt and --in are options of formulas; the case gpn_kappa has gradients and inputs of its "
        "own\n");
}

TEST_CASE("bench measures any formula") {
  const Workshop shop;
  shop.write("density.mox",
             "dim S dynamic, R, K = 2\nindex s:S, r:R\ninput x[S], point[R]\n"
             "output density[s] = sum[r](exp(-(x[s] - point[r])^2/K))\noutput total = sum[s](density[s])\n");
  const auto bench = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "./density.mox", "--json"});
    return shop.moxie(more);
  };
  const auto entry_of = [](const Outcome& outcome) {
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return nlohmann::json::parse(outcome.out).at(0);
  };
  const auto entry = entry_of(bench({"--dim", "S=8,R=3"}));
  CHECK(entry.at("case") == "density");
  CHECK(entry.at("dims") == nlohmann::json{{"S", 8}, {"R", 3}, {"K", 2}});
  CHECK(entry.at("dtype") == "f32");
  CHECK(entry.at("grad") == nlohmann::json{"density", "total"});
  CHECK(entry.at("wrt") == nlohmann::json{"x", "point"});
  CHECK(entry.at("finite") == true);
  for (const char* field : {"forward_s", "forward_cpu_s", "forward_backward_s", "forward_backward_cpu_s", "compile_s",
                            "peak_bytes", "input_bytes", "forward_launches", "forward_backward_launches"})
    CHECK(entry.at(field) > 0);
  CHECK(entry.at("input_bytes") == 4 * (8 + 3 + 8 + 1));  // with the cotangents
  CHECK(entry.at("peak_bytes") == entry.at("workspace_bytes").get<int>() + 4 * (8 + 1 + 8 + 3));

  const auto chosen = entry_of(
      bench({"--dim", "S=8,R=3", "--grad", "total", "--wrt", "point", "--dtype", "f64", "--device", "interp"}));
  CHECK(chosen.at("dtype") == "f64");
  CHECK(chosen.at("device") == "interp");
  CHECK(chosen.at("grad") == nlohmann::json{"total"});
  CHECK(chosen.at("wrt") == nlohmann::json{"point"});
  CHECK(chosen.at("input_bytes") == 8 * (8 + 3 + 1));

  TensorFile given;
  given.tensors["x"] = make_host_tensor(DType::f32, {4}, std::vector<double>{1, 2, 3, 4});
  write_safetensors(shop.path("in.st"), given);
  CHECK(bench({"--in", "in.st"}).err == "moxie: in.st: input point of density is missing; the file holds x\n");
  given.tensors["point"] = make_host_tensor(DType::f32, {2}, std::vector<double>{1, 2});
  write_safetensors(shop.path("in.st"), given);
  CHECK(entry_of(bench({"--in", "in.st"})).at("dims") == nlohmann::json{{"S", 4}, {"R", 2}, {"K", 2}});

  const Outcome missing = bench({"--dim", "K=3"});
  CHECK(missing.code == 2);
  CHECK(missing.err == "moxie: density: no value for the dims S, R; add --dim S=..,R=..\n");
  const Outcome output = bench({"--dim", "S=8,R=3", "--grad", "densty"});
  CHECK(output.code == 1);
  CHECK(output.err ==
        "moxie: cannot differentiate program density: it has no definition 'densty'; it has density, total\n");
  const Outcome input = bench({"--dim", "S=8,R=3", "--wrt", "y"});
  CHECK(input.err == "moxie: cannot differentiate program density: it has no input 'y'; it has x, point\n");
  const Outcome file = shop.moxie({"bench", "nothing.mox"});
  CHECK(file.code == 1);
  CHECK(file.err == "moxie: cannot read nothing.mox: No such file or directory\n");
}

TEST_CASE("bench finds inputs that a formula takes, and says where it cannot differentiate") {
  const Workshop shop;
  const std::string dim = "dim N\nindex n:N, m:N\n";
  shop.write("root.mox", dim + "input a[N,N]\noutput r[n,m] = cholesky[n,m](a[n,m])\n");
  shop.write("log.mox", dim + "input x[N]\noutput y[n] = log(x[n])\n");
  shop.write("count.mox", dim + "output y[n] = n\n");
  const Outcome table = shop.moxie(
      {"bench", "root.mox", "log.mox", "count.mox", "gpn_kappa", "gpn.kappa", "--dim", "N=40", "--device", "interp"});
  CHECK(table.code == 2);  // the case gpn_kappa has a default for R, the formula gpn.kappa has none
  CHECK(table.err == "moxie: gpn.kappa: no value for the dim R; add --dim R=..\n");
  CHECK(contains(table.out, "\nroot  "));
  const std::string infinite = "  some outputs are infinite or NaN with the made-up inputs";
  CHECK(contains(table.out, infinite));
  CHECK(table.out.find(infinite) > table.out.find("\nlog  "));
  CHECK(contains(table.out, "  no gradient: count has no inputs to differentiate with respect to\n"));
  const auto entry = nlohmann::json::parse(shop.moxie({"bench", "count.mox", "--dim", "N=4", "--json"}).out).at(0);
  CHECK(entry.at("forward_backward_s").is_null());
  CHECK(entry.at("no_gradient") == "count has no inputs to differentiate with respect to");
  const Outcome asked = shop.moxie({"bench", "count.mox", "--dim", "N=4", "--grad", "y"});
  CHECK(asked.code == 1);
  CHECK(asked.err == "moxie: count has no inputs to differentiate with respect to\n");
}

TEST_CASE("doctor names every part, as text and as JSON") {
  const Workshop shop;
  const Outcome text = shop.moxie({"doctor"});
  CHECK_MESSAGE(text.code == 0, text.out);
  for (const char* part :
       {"processor", "LLVM plugin", "OpenBLAS", "CUDA driver", "NVRTC", "cuBLAS", "kernel cache", "MOXIE_CACHE_DIR"}) {
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
                            " completion)\n"
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

TEST_CASE(
    "kernels are known by the LLVM library and the switches that change code, and LLVM is not loaded to find out") {
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
  const std::string loads = "strace -f -e trace=openat -o trace ";
  if (shop.shell("strace -V").code == 0) {
    REQUIRE(shop.moxie(kRun, loads).code == 0);
    CHECK_FALSE(contains(read_file(shop.path("trace")), "libLLVM"));
  }
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
