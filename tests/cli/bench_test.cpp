// `moxie bench`: of cases and of any formula.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/safetensors.h"
#include "tests/cli/process.h"

using namespace moxie;
using moxie::test::contains;
using moxie::test::Outcome;
using moxie::test::Workshop;

TEST_CASE("bench gives the fields that others read") {
  const Workshop shop;
  const Outcome layer =
      shop.moxie({"bench", "gpn_layer_variance", "--dims", "S=8,N=3,R=4", "--json", "--threads", "1"});
  REQUIRE_MESSAGE(layer.code == 0, layer.err);
  const auto entry = nlohmann::json::parse(layer.out).at(0);
  CHECK(entry.at("case") == "gpn_layer_variance");
  CHECK(entry.at("device") == "cpu");
  CHECK(entry.at("dtype") == "f32");
  CHECK(entry.at("precision") == "strict");
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
  CHECK(entry_of(bench({"--dim", "S=8,R=3", "--precision", "fast"})).at("precision") == "fast");
  CHECK(entry.at("dims") == nlohmann::json{{"S", 8}, {"R", 3}, {"K", 2}});
  CHECK(entry.at("dtype") == "f32");
  CHECK(entry.at("grad") == nlohmann::json{"density", "total"});
  CHECK(entry.at("wrt") == nlohmann::json{"x", "point"});
  CHECK(entry.at("finite") == true);
  for (const char* field :
       {"forward_s", "forward_cpu_s", "forward_backward_s", "forward_backward_cpu_s", "compile_s", "compile_cpu_s",
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
