// moxie dump: folders, pages, filters, sources and bad input.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/program/program.h"
#include "tests/cli/process.h"
#include "tests/skip.h"

using namespace moxie;
using moxie::test::contains;
using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> kDump = {"dump", "gpn.response_mean", "--dim", "N=2,R=3", "--grad", "mean"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

const Json& stage_of(const Json& kernel, const std::string& title) {
  for (const Json& stage : kernel.at("stages")) {
    if (stage.at("title") == title) return stage;
  }
  FAIL("no stage " << title);
  return kernel;
}

/// Whether a line of one stage leads back to `line` of the Program as it is compiled.
std::size_t traced_lines(const Json& stage) {
  std::size_t count = 0;
  for (const Json& line : stage.at("lines")) count += line != 0;
  return count;
}

}  // namespace

TEST_CASE("a dump is a folder with a manifest of all stages, their line tables and figures") {
  const Workshop shop;
  const Outcome outcome = shop.moxie(with(kDump, {"-o", "d"}));
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const Json manifest = Json::parse(read_file(shop.path("d") / "manifest.json"));
  CHECK(manifest.at("assumed_dims") == Json({"S"}));
  bool has_difference = false;
  for (const Json& stage : manifest.at("program")) has_difference = has_difference || stage.contains("diff");
  CHECK(has_difference);
  for (const Json& kernel : manifest.at("kernels")) {
    for (const char* title : {"loop", "cuda", "llvm", "llvm-opt", "asm"}) {
      const Json& stage = stage_of(kernel, title);
      if (stage.contains("missing")) {  // a kernel that one device has alone
        CHECK(contains(stage.at("missing"), "other kernels"));
        continue;
      }
      CHECK(std::filesystem::exists(shop.path("d") / stage.at("file").get<std::string>()));
      CHECK_MESSAGE(traced_lines(stage) > 0, kernel.at("name"), " ", title);
    }
    CHECK(kernel.at("schedule").is_string() == kernel.at("estimate_s").is_number());
    CHECK(kernel.at("schedule").is_string() != stage_of(kernel, "llvm").contains("missing"));
    for (const char* figure : {"registers", "shared_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes"})
      CHECK(kernel.contains(figure));
    for (const char* figure : {"flops", "special_ops", "bytes_read", "bytes_written"}) CHECK(kernel.at(figure) >= 0);
    for (const char* title : {"ptx", "sass"}) {
      const Json& stage = stage_of(kernel, title);
      CHECK((stage.contains("missing") || traced_lines(stage) > 0));
    }
  }
  CHECK_NOTHROW(parse(read_file(shop.path("d") / "diff.mox")));
}

TEST_CASE("a dump that was written can be looked at again") {
  const Workshop shop;
  REQUIRE(shop.moxie(with(kDump, {"-o", "d"})).code == 0);
  const Outcome again = shop.moxie({"dump", "d", "--stage", "loop", "--kernel", "^k_mean$"});
  REQUIRE_MESSAGE(again.code == 0, again.err);
  CHECK(again.out == shop.moxie(with(kDump, {"--stage", "loop", "--kernel", "^k_mean$"})).out);
  REQUIRE(shop.moxie({"dump", "d", "-o", "copy"}).code == 0);
  CHECK(shop.shell("diff -r d copy").code == 0);
  CHECK(shop.moxie({"dump", "d", "--grad", "mean"}).code == 2);
}

TEST_CASE("a dump that is damaged or no dump is refused, naming the part") {
  const Workshop shop;
  REQUIRE(shop.moxie(with(kDump, {"-o", "d", "--stage", "loop"})).code == 0);
  REQUIRE(shop.shell("rm d/k_mean.loop.txt").code == 0);
  const Outcome lost = shop.moxie({"dump", "d"});
  CHECK(lost.code == 1);
  CHECK(contains(lost.err, "k_mean.loop.txt is missing"));
  shop.write("d/manifest.json", "{\"format\": 1}");
  CHECK(contains(shop.moxie({"dump", "d"}).err, "is damaged"));
  shop.write("d/manifest.json", "{\"format\": 77}");
  CHECK(contains(shop.moxie({"dump", "d"}).err, "a dump of format 77"));
  REQUIRE(shop.shell("mkdir other && touch other/precious").code == 0);
  const Outcome occupied = shop.moxie(with(kDump, {"-o", "other", "--stage", "ir"}));
  CHECK(occupied.code == 1);
  CHECK(contains(occupied.err, "it holds something else"));
  CHECK(std::filesystem::exists(shop.path("other") / "precious"));
  CHECK(shop.moxie(with(kDump, {"-o", "/proc/nowhere", "--stage", "ir"})).code == 1);
  CHECK(contains(shop.moxie(with(kDump, {"--kernel", "("})).err, "'(' is no regular expression"));
  CHECK(contains(shop.moxie(with(kDump, {"--kernel", "zzz"})).err, "there is no kernel with such a name"));
  CHECK(shop.moxie(with(kDump, {"--gpu", "Voodoo2"})).code == 2);
}

TEST_CASE("only folders that moxie wrote, and nobody added to, are replaced") {
  const Workshop shop;
  const std::vector<std::string> again = with(kDump, {"-o", "d", "--stage", "ir"});
  const auto refuses = [&](const std::string& prepare, const std::string& reason) {
    REQUIRE(shop.shell("rm -rf d d.* && mkdir d && " + prepare).code == 0);
    const std::string before = shop.shell("ls -RAl d").out;
    const Outcome outcome = shop.moxie(again);
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(contains(outcome.err, reason), outcome.err);
    CHECK(shop.shell("ls -RAl d").out == before);
    CHECK(shop.shell("ls -d d.*").out.empty());
  };
  refuses("touch d/figures.txt d/precious", "holds something else");
  refuses("touch d/moxie-folder d/precious", "holds something else");
  REQUIRE(shop.shell("rm -rf d").code == 0);
  REQUIRE(shop.moxie(again).code == 0);
  REQUIRE(shop.shell("cp -r d good").code == 0);
  refuses("cp -r good/. d && touch d/precious", "moxie did not write");
  refuses("cp -r good/. d && mkdir d/sub && touch d/sub/precious", "moxie did not write");
  REQUIRE(shop.shell("rm -rf d && cp -r good d && echo old > d/figures.txt").code == 0);
  REQUIRE(shop.moxie(with(kDump, {"-o", "d/", "--stage", "ir"})).code == 0);
  CHECK(shop.shell("ls -A d").out == shop.shell("ls -A good").out);
  CHECK(read_file(shop.path("d") / "figures.txt") != "old\n");
  CHECK(shop.shell("ls -d d.*").out.empty());

  REQUIRE(shop.moxie(with(kDump, {"--repro", "k_mean", "-o", "r"})).code == 0);
  CHECK(contains(shop.moxie(with(kDump, {"-o", "r", "--stage", "ir"})).err, "no moxie-folder of a dump"));
  REQUIRE(shop.shell("sh r/build.sh").code == 0);
  CHECK(shop.moxie(with(kDump, {"--repro", "k_mean", "-o", "r"})).code == 0);
  REQUIRE(shop.shell("touch r/launch.h r/precious").code == 0);
  CHECK(shop.moxie(with(kDump, {"--repro", "k_mean", "-o", "r"})).code == 1);
}

TEST_CASE("the working directory and the folders around it are not replaced") {
  const Workshop shop;
  REQUIRE(shop.moxie(with(kDump, {"-o", "d", "--stage", "ir"})).code == 0);
  const std::string moxie = "cd d && " MOXIE_PROGRAM " dump gpn.response_mean --dim N=2,R=3 --stage ir -o ";
  const std::string itself = "../../" + shop.path("").parent_path().filename().string();
  for (const std::string& folder : {std::string("."), std::string("../d"), std::string(".."), itself}) {
    const Outcome outcome = shop.shell(moxie + folder);
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(contains(outcome.err, "is the working directory or holds it"), outcome.err);
  }
  CHECK(std::filesystem::exists(shop.path("d") / "manifest.json"));
}

TEST_CASE("names in a manifest lead nowhere else") {
  const Workshop shop;
  REQUIRE(shop.moxie(with(kDump, {"-o", "d"})).code == 0);
  const std::string good = read_file(shop.path("d") / "manifest.json");
  const auto refuses = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    REQUIRE(contains(changed, from));
    for (std::size_t at = 0; (at = changed.find(from, at)) != changed.npos; at += to.size())
      changed.replace(at, from.size(), to);
    shop.write("d/manifest.json", changed);
    const Outcome outcome = shop.moxie({"dump", "d", "-o", "copy"});
    CHECK(outcome.code == 1);
    CHECK_MESSAGE(contains(outcome.err, "leads out of the folder"), outcome.err);
    CHECK_FALSE(std::filesystem::exists(shop.path("copy")));
  };
  refuses("\"title\":\"rewrite.", "\"title\":\"../rewrite.");
  refuses("\"file\":\"k_mean.loop.txt\"", "\"file\":\"../secret\"");
  refuses("\"file\":\"k_mean.loop.txt\"", "\"file\":\"" + (shop.path("secret")).string() + "\"");
  CHECK_FALSE(contains(shop.shell("ls").out, ".diff"));
}

TEST_CASE("the name of a built-in formula goes before files") {
  const Workshop shop;
  const Outcome formula = shop.moxie({"dump", "gpn.kernel", "--dim", "N=2,R=3", "--stage", "ir"});
  REQUIRE_MESSAGE(formula.code == 0, formula.err);
  shop.write("gpn.kernel", "rubbish");
  CHECK(shop.moxie({"dump", "gpn.kernel", "--dim", "N=2,R=3", "--stage", "ir"}).out == formula.out);
  CHECK(contains(shop.moxie({"dump", "./gpn.kernel"}).err, "is no entry of a kernel cache"));
}

TEST_CASE("an entry of the kernel cache is dumped from what it keeps") {
  const Workshop shop;
  REQUIRE(shop.moxie({"check", "gpn.kappa", "--dim", "N=2,R=3"}).code == 0);
  std::istringstream entries(shop.shell("find cache -name '*.kernel'").out);
  std::size_t of_cpu = 0, plans = 0;
  for (std::string entry; std::getline(entries, entry);) {
    const Outcome outcome = shop.moxie({"dump", entry});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    if (contains(outcome.out, "plan of ")) {
      ++plans;
      continue;
    }
    // Of cuda-emu, the other ones.
    CHECK(contains(outcome.out, "define hidden void") != contains(outcome.out, "__global__"));
    of_cpu += contains(outcome.out, "define hidden void") ? 1 : 0;
  }
  CHECK(of_cpu > 0);
  CHECK(plans > 0);
  shop.write("bad.kernel", "rubbish");
  CHECK(contains(shop.moxie({"dump", "bad.kernel"}).err, "bad.kernel is no entry of a kernel cache"));
}

TEST_CASE("the step of a training run is dumped with its gradients and its optimiser") {
  const Workshop shop;
  REQUIRE(shop.moxie({"train", "gpn", "--data", "synthetic", "--layers", "3", "--epochs", "1", "--out", "run"}).code ==
          0);
  const Outcome outcome = shop.moxie({"dump", "run", "--stage", "fuse"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  CHECK(contains(outcome.out, "new.layer1.U"));
  CHECK(shop.moxie({"dump", "run", "--grad", "loss"}).code == 2);
  REQUIRE(shop.shell("rm run/model.safetensors").code == 0);
  const Outcome lost = shop.moxie({"dump", "run"});
  CHECK(lost.code == 1);
  CHECK(contains(lost.err, "run/model.safetensors"));
}

TEST_CASE("figures are printed as JSON") {
  const Workshop shop;
  const Outcome outcome = shop.moxie(with(kDump, {"--json"}));
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const Json json = Json::parse(outcome.out);
  CHECK(json.at("kernels").size() > 1);
  CHECK_FALSE(json.at("kernels")[0].contains("stages"));
  const Json texts = Json::parse(shop.moxie(with(kDump, {"--json", "--stage", "loop"})).out);
  CHECK(contains(texts.at("kernels")[0].at("stages").at("loop"), "kernel k_"));
}

TEST_CASE("a kernel of a scan counts at every step") {
  const Workshop shop;
  shop.write("decay.mox",
             "dim N\nindex n:N, t:200\ninput u0[N]\nscan t {\n"
             "  let u[t,n] = where(t == 0, u0[n], tanh(u[t-1,n]))\n}\noutput y[n] = u[199,n]\n");
  const std::vector<std::string> dump = {"dump", "decay.mox", "--dim", "N=5000", "--device", "cpu"};
  const Json kernels = Json::parse(shop.moxie(with(dump, {"--json"})).out).at("kernels");
  CHECK(kernels[0].at("launches") == 200);
  CHECK(kernels[1].at("launches") == 1);
  CHECK(contains(shop.moxie(dump).out, "shared loops, 200 launches of "));
}

TEST_CASE("the page is complete in itself") {
  const Workshop shop;
  const Outcome outcome = shop.moxie(with(kDump, {"--html", "page.html"}));
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const std::string page = read_file(shop.path("page.html"));
  CHECK(page.starts_with("<!doctype html>"));
  CHECK_FALSE(contains(page, "http://"));
  CHECK_FALSE(contains(page, "https://"));
  CHECK(contains(page, "id=\"kernel0\""));
}

TEST_CASE("the lines of the page lead to each other" * doctest::test_suite("browser")) {
  const Workshop shop;
  const Outcome browser =
      shop.shell("for b in chromium chromium-browser google-chrome; do command -v $b && break; done");
  if (browser.code != 0) return test::skip("none of chromium, chromium-browser, google-chrome is installed");
  const Outcome outcome = shop.moxie(with(kDump, {"--html", "page.html"}));
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const std::string loops = shop.moxie(with(kDump, {"--stage", "loop", "--kernel", "^k_mean$"})).out;
  const auto exponential = std::ranges::count(loops.substr(0, loops.find("exp2(")), '\n') + 1;
  const std::string program = browser.out.substr(0, browser.out.find('\n'));
  const Outcome shown =
      shop.shell(program +
                 " --headless --no-sandbox --disable-gpu --user-data-dir=profile --window-size=1600,1000 "
                 "--virtual-time-budget=3000 --dump-dom 'file://" +
                 shop.path("page.html").string() + "#k_mean/loop/" + std::to_string(exponential) + "'");
  REQUIRE_MESSAGE(contains(shown.out, "data-opened=\""), shown.err);
  const auto panes_with_hits = [&] {
    std::size_t panes = 0;
    for (std::size_t at = shown.out.find("<section"); at != std::string::npos;) {
      const std::size_t next = shown.out.find("<section", at + 1);
      panes += contains(shown.out.substr(at, next - at), "class=\"hit") ? 1 : 0;
      at = next;
    }
    return panes;
  };
  CHECK(panes_with_hits() == 4);
}

TEST_CASE("dump diff says what changed and what it cost") {
  const Workshop shop;
  shop.write("a.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n");
  shop.write("b.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n]) + exp(2*x[n])\n");
  for (const char* name : {"a", "b"})
    REQUIRE(shop.moxie({"dump", std::string(name) + ".mox", "--dim", "N=100", "-o", name}).code == 0);
  const Outcome same = shop.moxie({"dump", "diff", "a", "a"});
  CHECK(same.code == 0);
  CHECK(same.out.empty());
  const Outcome changed = shop.moxie({"dump", "diff", "a", "b", "--stage", "ir,loop"});
  CHECK(changed.code == 1);
  CHECK(contains(changed.out, "+output y[n] = exp(x[n]) + exp(2*x[n])"));
  CHECK(contains(changed.out, "special operations: 100 -> "));
  CHECK(shop.moxie({"dump", "diff", "a", "nowhere"}).code == 1);
  CHECK(shop.moxie({"dump", "diff", "a"}).code == 2);
  CHECK(shop.moxie({"dump"}).code == 2);
}

TEST_CASE("a kernel is run again alone, with what it read in a run") {
  const Workshop shop;
  const Outcome outcome = shop.moxie(with(kDump, {"--repro", "k_mean", "-o", "alone"}));
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const Outcome again = shop.shell("sh alone/build.sh");
  CHECK_MESSAGE(again.code == 0, again.out, again.err);
  CHECK(contains(again.out, "mean: the same bits, 512 elements"));
  REQUIRE(shop.shell("printf 'xxxx' | dd of=alone/buffer0.before conv=notrunc").code == 0);
  const Outcome unknown = shop.moxie(with(kDump, {"--repro", "k_meen"}));
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "k_mean"));
}

TEST_CASE("kernels are measured where they run") {
  const Workshop shop;
  const Json json = Json::parse(shop.moxie(with(kDump, {"--json", "--measure"})).out);
  for (const Json& kernel : json.at("kernels")) {
    if (kernel.at("schedule").is_string()) CHECK(kernel.at("measured_s") > 0);
  }
  REQUIRE(shop.moxie({"check", "gpn.kappa", "--dim", "N=2,R=3"}, "MOXIE_DUMP=d MOXIE_DUMP_STAGES=loop ").code == 0);
  std::size_t measured = 0;
  for (const auto& folder : std::filesystem::directory_iterator(shop.path("d"))) {
    const Json manifest = Json::parse(read_file(folder.path() / "manifest.json"));
    for (const Json& kernel : manifest.at("kernels")) measured += kernel.at("measured_s").is_number();
  }
  CHECK(measured > 0);
  REQUIRE(shop.moxie(with(kDump, {"-o", "e", "--stage", "ir"})).code == 0);
  CHECK(shop.moxie({"dump", "e", "--measure"}).code == 2);
}

TEST_CASE("the GPU of a dump is the device's, or said to be assumed") {
  const Workshop shop;
  REQUIRE(shop.moxie({"check", "gpn.kappa", "--dim", "N=2,R=3"}, "MOXIE_DUMP=d MOXIE_DUMP_STAGES=loop ").code == 0);
  std::map<std::string, bool> assumed;
  for (const auto& folder : std::filesystem::directory_iterator(shop.path("d"))) {
    const Json manifest = Json::parse(read_file(folder.path() / "manifest.json"));
    assumed[manifest.at("gpu")] = manifest.at("gpu_is_assumed");
  }
  CHECK(assumed == std::map<std::string, bool>{{"H200", true}, {"moxie emulator (sm_90 on the CPU)", false}});
  CHECK(contains(shop.moxie(with(kDump, {"--stage", "ir,diff"})).out, "GPU: H200, assumed: figures of its data sheet"));
}

TEST_CASE("a dump of the CPU shows the kernels that run there, one of GPUs those that fusion arranges") {
  const Workshop shop;
  shop.write(
      "softmax.mox",
      "dim S = 512, N = 300\nindex s:S, n:N, m:N\ninput x[S,N]\noutput y[s,n] = exp(x[s,n])/sum[m](exp(x[s,m]))\n");
  REQUIRE(shop.moxie({"bench", "softmax.mox"}, "MOXIE_DUMP=ran MOXIE_DUMP_STAGES=llvm ").code == 0);
  REQUIRE(shop.moxie({"dump", "softmax.mox", "--device", "cpu", "-o", "cpu"}).code == 0);
  REQUIRE(shop.moxie({"dump", "softmax.mox", "--device", "cuda", "-o", "gpu"}).code == 0);
  const Json cpu = Json::parse(read_file(shop.path("cpu") / "manifest.json"));
  const Json gpu = Json::parse(read_file(shop.path("gpu") / "manifest.json"));
  // Files of LLVM IR are named after their text: the same name means the same code.
  for (const Json& kernel : cpu.at("kernels")) {
    const std::string file = stage_of(kernel, "llvm").at("file");
    CHECK_MESSAGE(!shop.shell("ls ran/*/" + file).out.empty(), file);
    CHECK(stage_of(kernel, "cuda").contains("missing"));
    CHECK(kernel.at("gpu_roofline_s").is_null());
  }
  for (const Json& kernel : gpu.at("kernels")) {
    CHECK(stage_of(kernel, "asm").contains("missing"));
    CHECK_FALSE(stage_of(kernel, "cuda").contains("missing"));
    CHECK(kernel.at("schedule").is_null());
  }
  CHECK(shop.moxie({"dump", "softmax.mox", "--device", "cuda", "--measure"}).code == 2);
  CHECK(shop.moxie({"dump", "softmax.mox", "--device", "tpu"}).code == 2);
}

TEST_CASE("stage schedule says why, and what was not taken; a given schedule is taken or refused") {
  const Workshop shop;
  shop.write("y.mox", "dim S = 512, N = 300\nindex s:S, n:N\ninput x[S,N]\noutput y[s] = sum[n](exp(x[s,n]))\n");
  const std::vector<std::string> dump = {"dump", "y.mox", "--stage", "schedule", "--device", "cpu"};
  const std::string text = shop.moxie(dump).out;
  for (const char* part : {"k_y: ", "  estimate: ", "compute ", " lanes, ", "  partition: "})
    CHECK_MESSAGE(contains(text, part), text);
  CHECK_FALSE(contains(text, "on a GPU"));
  const std::string both = shop.moxie({"dump", "y.mox", "--stage", "schedule"}, "MOXIE_SCHEDULE='y: lanes(s)' ").out;
  CHECK_MESSAGE(contains(both, "k_y: lanes(s)\n  estimate: given; "), both);
  CHECK(contains(both, "k_y on a GPU: "));
  CHECK(contains(shop.moxie(dump, "MOXIE_SCHEDULE='absent: lanes(s)' ").out, "given for absent is not used"));
  const Outcome ran = shop.moxie({"check", "y.mox"}, "MOXIE_SCHEDULE='y: unroll(s, 4) lanes(sum) parallel(s)' ");
  CHECK_MESSAGE(ran.code == 0, ran.out, ran.err);
  for (const char* command : {"dump", "check"}) {
    const Outcome refused = shop.moxie({command, "y.mox"}, "MOXIE_SCHEDULE='y: unroll(k, 4)' ");
    CHECK(refused.code != 0);
    CHECK_MESSAGE(contains(refused.out + refused.err, "there is no loop `k`; loops: s"), refused.out, refused.err);
  }
  CHECK(shop.moxie(dump, "MOXIE_SCHEDULE='y: frobnicate(s)' ").code == 2);
}
