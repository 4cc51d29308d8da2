// moxie run, from files to files.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/reference/evaluate.h"
#include "data/npy.h"
#include "runtime/safetensors.h"
#include "tests/cli/process.h"

using namespace moxie;
using moxie::test::Outcome;
using moxie::test::read_file;
using moxie::test::Workshop;

namespace {

constexpr const char* kFormula =
    "dim S dynamic, N\n"
    "index s:S, n:N\n"
    "input x[S,N], w[N] > 0\n"
    "output y[s] = sum[n](w[n]*x[s,n]^2)\n"
    "output z[s,n] = exp(x[s,n])\n";

HostTensor tensor(std::vector<std::int64_t> shape, const std::vector<double>& values, DType dtype = DType::f32) {
  return make_host_tensor(dtype, std::move(shape), values);
}

/// x is 2x3, w has 3 elements.
void write_inputs(const Workshop& shop) {
  shop.write("f.mox", kFormula);
  write_safetensors(shop.path("in.st"),
                    {{{"x", tensor({2, 3}, {1, 2, 3, -1, 0, 0.5})}, {"w", tensor({3}, {1, 0.5, 2})}}, {}});
}

const std::vector<std::string> kRun = {"run", "f.mox", "--in", "in.st", "--out", "out.st"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void check_failure(const Outcome& outcome, int code, const std::string& text) {
  CHECK(outcome.code == code);
  CHECK(outcome.err.starts_with("moxie: "));
  INFO(outcome.err);
  CHECK(outcome.err.find(text) != std::string::npos);
}

}  // namespace

TEST_CASE("run reads and writes files of NumPy, and keeps the file that it reads") {
  const Workshop shop;
  write_inputs(shop);
  NpyArrays arrays;
  for (const auto& [name, tensor] : read_safetensors(shop.path("in.st")).tensors) {
    const std::vector<double> values = to_doubles(tensor);
    arrays.emplace(name, make_npy_array<double>({tensor.shape.begin(), tensor.shape.end()}, values));
  }
  shop.write("in.npz", print_npz(arrays));
  REQUIRE(shop.moxie(kRun).code == 0);
  const Outcome outcome = shop.moxie({"run", "f.mox", "--in", "in.npz", "--out", "out.npz"});
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const NpyArrays got = parse_npz(read_file(shop.path("out.npz")), "out.npz");
  for (const auto& [name, tensor] : read_safetensors(shop.path("out.st")).tensors) {
    CHECK(got.at(name).type == NpyType::f4);
    CHECK(got.at(name).to<double>() == to_doubles(tensor));
  }
  check_failure(shop.moxie({"run", "f.mox", "--in", "in.npz", "--out", "in.npz"}), 2, "the command reads this file");
  check_failure(shop.moxie({"run", "f.mox", "--in", "in.npz", "--out", "f.mox"}), 2, "--out f.mox: the command reads");
  check_failure(shop.moxie({"run", "f.mox", "--in", "in.npz", "--out", "y.csv"}), 2, "FILE.safetensors or FILE.npz");
  CHECK(parse_npz(read_file(shop.path("in.npz")), "in.npz") == arrays);
  shop.write("x.npy", "\x93NUMPY\1");
  check_failure(shop.moxie({"run", "f.mox", "--in", "x.npy", "--out", "y.npz"}), 1, "one array without a name");
  shop.write("none.npz", std::string("PK\5\6") + std::string(18, '\0'));
  check_failure(shop.moxie({"run", "f.mox", "--in", "none.npz", "--out", "y.npz"}), 1, "holds no arrays");
  shop.write("text.npz", "x = 1");
  check_failure(shop.moxie({"run", "f.mox", "--in", "text.npz", "--out", "y.npz"}), 1, "is no .npz file");
}

TEST_CASE("run takes no number that the input's dtype does not hold") {
  const Workshop shop;
  write_inputs(shop);
  write_safetensors(
      shop.path("in.st"),
      {{{"x", tensor({2, 3}, {1, 2, 3, -1, 0, 1e300}, DType::f64)}, {"w", tensor({3}, {1, 0.5, 2})}}, {}});
  check_failure(shop.moxie(kRun), 1, "x[1,2] = 1e+300, which f32 has no finite number for");
  CHECK(shop.moxie(with(kRun, {"--dtype", "f64"})).code == 0);
}

TEST_CASE("run writes every output, on every device and in both precisions") {
  const Workshop shop;
  write_inputs(shop);
  for (const char* device : {"cpu", "interp", "cuda-emu"}) {
    for (const char* dtype : {"f32", "f64"}) {
      CAPTURE(device);
      const Outcome outcome = shop.moxie(with(kRun, {"--device", device, "--dtype", dtype}));
      REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
      CHECK(outcome.out.empty());
      const auto results = read_safetensors(shop.path("out.st")).tensors;
      REQUIRE(results.size() == 2);
      CHECK(results.at("y").dtype == (dtype == std::string("f32") ? DType::f32 : DType::f64));
      CHECK(to_doubles(results.at("y")) == std::vector<double>{21, 1.5});
      CHECK(to_doubles(results.at("z"))[0] == doctest::Approx(std::exp(1.0)));
    }
  }
}

TEST_CASE("gradients take cotangents from the file, and ones where it has none") {
  const Workshop shop;
  write_inputs(shop);
  const auto gradient = [&] {
    const Outcome outcome = shop.moxie(with(kRun, {"--grad", "y", "--wrt", "x"}));
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const auto results = read_safetensors(shop.path("out.st")).tensors;
    CHECK(results.contains("y"));
    CHECK_FALSE(results.contains("grad.w"));
    return to_doubles(results.at("grad.x"));
  };
  CHECK(gradient() == std::vector<double>{2, 2, 12, -2, 0, 2});
  TensorFile file = read_safetensors(shop.path("in.st"));
  file.tensors["cot.y"] = tensor({2}, {0, 3});
  write_safetensors(shop.path("in.st"), file);
  CHECK(gradient() == std::vector<double>{0, 0, 0, -6, 0, 6});
}

TEST_CASE("tangents, products with the Hessian and Jacobians") {
  const Workshop shop;
  write_inputs(shop);
  const auto derivative = [&](const std::vector<std::string>& options, const std::string& name) {
    const Outcome outcome = shop.moxie(with(kRun, options));
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return to_doubles(read_safetensors(shop.path("out.st")).tensors.at(name));
  };
  CHECK(derivative({"--tangent", "y", "--wrt", "x"}, "tan.y") == std::vector<double>{16, 0});
  CHECK(derivative({"--hvp", "y", "--wrt", "x"}, "hvp.x") == std::vector<double>{2, 1, 4, 2, 1, 4});
  for (const char* mode : {"auto", "forward", "reverse"}) {
    CHECK(derivative({"--jacobian", "y", "--wrt", "w", "--mode", mode}, "jac.y.w") ==
          std::vector<double>{1, 4, 9, 1, 0, .25});
  }
  TensorFile file = read_safetensors(shop.path("in.st"));
  file.tensors["tan.x"] = tensor({2, 3}, {0, 0, 0, 0, 0, 1});
  write_safetensors(shop.path("in.st"), file);
  CHECK(derivative({"--tangent", "y", "--wrt", "x"}, "tan.y") == std::vector<double>{0, 2});
}

TEST_CASE("random numbers follow seed and step") {
  const Workshop shop;
  shop.write("f.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n] + randu(1)\n");
  write_safetensors(shop.path("in.st"), {{{"x", tensor({4}, {0, 0, 0, 0})}}, {}});
  const auto draw = [&](const std::string& seed, const std::string& step) {
    REQUIRE(shop.moxie(with(kRun, {"--seed", seed, "--step", step})).code == 0);
    return read_file(shop.path("out.st"));
  };
  const std::string first = draw("1", "0");
  CHECK(draw("1", "0") == first);
  CHECK(draw("2", "0") != first);
  CHECK(draw("1", "1") != first);
}

TEST_CASE("where there is no GPU, device cuda fails with the reason and auto takes the CPU in one line") {
  const Workshop shop;
  write_inputs(shop);
  const Outcome wanted = shop.moxie(with(kRun, {"--device", "cuda"}));
  const Outcome automatic = shop.moxie(with(kRun, {"--device", "auto"}));
  CHECK(automatic.code == 0);
  if (wanted.code == 0) {
    CHECK(automatic.err.empty());
    return;
  }
  check_failure(wanted, 1, "--device cpu");
  CHECK(automatic.err.starts_with("moxie: --device auto takes the CPU: "));
  CHECK(std::ranges::count(automatic.err, '\n') == 1);
}

TEST_CASE("`all` are the outputs that have a derivative") {
  const Workshop shop;
  write_inputs(shop);
  const auto results = [&](const char* outputs) {
    const Outcome outcome = shop.moxie(with(kRun, {"--grad", outputs}));
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return read_file(shop.path("out.st"));
  };
  CHECK(results("all") == results("y,z"));
}

TEST_CASE("a warm start plans and compiles nothing") {
  const Workshop shop;
  write_inputs(shop);
  const auto arguments = with(kRun, {"--grad", "y,z", "--stats"});
  const Outcome cold = shop.moxie(arguments);
  REQUIRE_MESSAGE(cold.code == 0, cold.err);
  CHECK(cold.err.find("plans made 1,") != std::string::npos);
  CHECK(cold.err.find("LLVM compilations 0") == std::string::npos);
  const std::string result = read_file(shop.path("out.st"));
  double fastest = 1e9;
  for (int i = 0; i < 5; ++i) {
    const Outcome warm = shop.moxie(arguments);
    CHECK(warm.err.find("plans made 0, loops tried 0, LLVM compilations 0,") != std::string::npos);
    CHECK(read_file(shop.path("out.st")) == result);
    fastest = std::min(fastest, warm.seconds);
  }
  MESSAGE("warm start: ", fastest * 1e3, " ms");
  CHECK(fastest < 1);  // 60 ms on an idle machine; this only catches compiling in disguise
}

TEST_CASE("a damaged cache entry is compiled again, and doctor counts it") {
  const Workshop shop;
  write_inputs(shop);
  REQUIRE(shop.moxie(kRun).code == 0);
  const std::string result = read_file(shop.path("out.st"));
  REQUIRE(shop.shell("for f in $(find cache -name '*.kernel'); do echo rubbish > $f; done").code == 0);
  const Outcome outcome = shop.moxie(kRun);
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(read_file(shop.path("out.st")) == result);
  const Outcome doctor = shop.moxie({"doctor"});
  INFO(doctor.out);
  CHECK(doctor.out.find(" 0 damaged and rebuilt so far") == std::string::npos);
  CHECK(doctor.out.find(" 0 damaged, ") != std::string::npos);
}

TEST_CASE("what is wrong with files and tensors is said") {
  const Workshop shop;
  write_inputs(shop);
  const auto replaced = [&](const char* name, const HostTensor& value) {
    TensorFile file = read_safetensors(shop.path("in.st"));
    file.tensors[name] = value;
    write_safetensors(shop.path("bad.st"), file);
    return shop.moxie({"run", "f.mox", "--in", "bad.st", "--out", "out.st"});
  };
  check_failure(replaced("v", tensor({1}, {1})), 1, "bad.st: f has no input 'v'; it reads x, w");
  check_failure(replaced("w", tensor({4}, {1, 1, 1, 1})), 1, "N = 4");
  check_failure(replaced("w", tensor({3, 1}, {1, 1, 1})), 1, "input w has shape [3,1], but 1 axes are wanted");
  check_failure(replaced("w", tensor({3}, {1, -1, 1})), 1, "bad.st: w[1] = -1, but w is declared > 0");
  check_failure(replaced("x", tensor({2, 3}, {1, 1, 1, 1, NAN, 1})), 1, "bad.st: x[1,1] = nan");
  write_safetensors(shop.path("bad.st"), {{{"x", tensor({2, 3}, {1, 1, 1, 1, 1, 1})}}, {}});
  check_failure(shop.moxie({"run", "f.mox", "--in", "bad.st", "--out", "out.st"}), 1,
                "bad.st: input w of f is missing; the file holds x");
  shop.write("bad.st", read_file(shop.path("in.st")).substr(0, 100));
  check_failure(shop.moxie({"run", "f.mox", "--in", "bad.st", "--out", "out.st"}), 1, "bad.st");
  check_failure(shop.moxie({"run", "f.mox", "--in", "absent.st", "--out", "out.st"}), 1, "absent.st");
  check_failure(shop.moxie({"run", "absent.mox", "--in", "in.st", "--out", "out.st"}), 1,
                "cannot read absent.mox: No such file or directory");
  CHECK_FALSE(std::filesystem::exists(shop.path("out.st")));
  shop.write("f.mox", "dim N, K, F\nindex n:N, k:K\ninput w[N]\noutput y[n,k] = k*w[n]\n");
  write_safetensors(shop.path("in.st"), {{{"w", tensor({3}, {1, 0.5, 2})}}, {}});
  check_failure(shop.moxie(kRun), 1, "dim K has no value: no input shows it; give it (--dim K=...)");
  check_failure(shop.moxie(with(kRun, {"--dim", "K=2"})), 1, "dim F has no value: no input shows it");
}

TEST_CASE("values outside a declared domain are taken where the check is turned off") {
  const Workshop shop;
  write_inputs(shop);
  TensorFile file = read_safetensors(shop.path("in.st"));
  file.tensors["w"] = tensor({3}, {1, -0.5, 2});
  write_safetensors(shop.path("in.st"), file);
  const char* message = "in.st: w[1] = -0.5, but w is declared > 0";
  check_failure(shop.moxie(kRun), 1, message);
  check_failure(shop.moxie(kRun, "MOXIE_CHECK_INPUTS=on "), 1, message);
  CHECK(shop.moxie(kRun, "MOXIE_CHECK_INPUTS=off ").code == 0);
  CHECK(to_doubles(read_safetensors(shop.path("out.st")).tensors.at("y"))[0] == doctest::Approx(1 - 2 + 18));
}

/// The inputs of an operation: all ones, of these shapes, but for one value everywhere in `changed`.
TensorFile ones(const std::map<std::string, std::vector<std::int64_t>>& shapes, const std::string& changed,
                double value) {
  TensorFile file;
  for (const auto& [name, shape] : shapes) {
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)), name == changed ? value : 1);
    file.tensors[name] = tensor(shape, values);
  }
  return file;
}

TEST_CASE("variances, noise and parameters outside of an operation's domain") {
  using Shapes = std::map<std::string, std::vector<std::int64_t>>;
  struct Refusal {
    const char* op;
    Shapes shapes;
    const char* changed;
    double value;
    const char* message;
  };
  const Shapes linear = {{"a_m", {2, 3}}, {"a_s", {2, 3}}, {"W_m", {4, 3}},
                         {"W_s", {4, 3}}, {"b_m", {4}},    {"b_s", {4}}};
  const Shapes bounded = {{"k", {3}}, {"alpha", {}}, {"beta", {}}};
  const Shapes gamma = {{"shape", {2, 3}}, {"rate", {2, 3}}, {"c", {}}, {"gamma", {}}};
  const Shapes poisson = {{"rate", {2, 3}}, {"c", {}}, {"gamma", {}}};
  const Shapes moments = {{"m", {2, 3}}, {"s", {2, 3}}};
  const Shapes natural = {{"alpha", {2, 3}}, {"beta", {2, 3}}};
  const std::vector<Refusal> refusals = {
      {"probact.moments",
       {{"mu", {2, 3}}, {"var", {2, 3}}, {"sigma", {3}}},
       "var",
       -1,
       "var[0,0] = -1, but var is declared >= 0"},
      {"probact.bounded_sigma", bounded, "alpha", -1, "alpha = -1, but alpha is declared > 0"},
      {"probact.bounded_sigma", bounded, "alpha", 0, "alpha = 0, but alpha is declared > 0"},
      {"probact.bounded_sigma", bounded, "beta", 0, "beta = 0, but beta is declared > 0"},
      {"sp_gru.linear", linear, "a_s", -0.5, "a_s[0,0] = -0.5, but a_s is declared >= 0"},
      {"sp_gru.linear", linear, "W_s", -0.5, "W_s[0,0] = -0.5, but W_s is declared >= 0"},
      {"sp_gru.gamma_activation", gamma, "shape", 0, "shape[0,0] = 0, but shape is declared > 0"},
      {"sp_gru.gamma_activation", gamma, "rate", -2, "rate[0,0] = -2, but rate is declared > 0"},
      {"sp_gru.poisson_activation", poisson, "rate", 0, "rate[0,0] = 0, but rate is declared > 0"},
      {"sp_gru.gamma_natural", moments, "s", 0, "s[0,0] = 0, but s is declared > 0"},
      {"sp_gru.gaussian_natural", moments, "s", -1, "s[0,0] = -1, but s is declared > 0"},
      {"sp_gru.gamma_moments", natural, "alpha", -1, "alpha[0,0] = -1, but alpha is declared > -1"},
      {"sp_gru.gamma_moments", natural, "beta", 1, "beta[0,0] = 1, but beta is declared < 0"},
      {"sp_gru.gaussian_moments", natural, "beta", 0, "beta[0,0] = 0, but beta is declared < 0"},
  };
  const Workshop shop;
  for (const Refusal& refusal : refusals) {
    CAPTURE(refusal.message);
    write_safetensors(shop.path("in.st"), ones(refusal.shapes, refusal.changed, refusal.value));
    check_failure(shop.moxie({"run", refusal.op, "--in", "in.st", "--out", "out.st"}), 1, refusal.message);
  }
  CHECK_FALSE(std::filesystem::exists(shop.path("out.st")));
}

TEST_CASE("inputs are finite numbers unless the switch takes any, and then NaN and infinity are computed with") {
  const Workshop shop;
  shop.write("f.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = max(x[n], 1)\n");
  write_safetensors(shop.path("in.st"), {{{"x", tensor({3}, {0, -std::nan(""), INFINITY})}}, {}});
  const std::vector<std::string> run = {"run", "f.mox", "--in", "in.st", "--out", "out.st"};
  check_failure(shop.moxie(run), 1, "x[1] = nan, but a finite number is expected (MOXIE_CHECK_INPUTS=off takes any)");
  REQUIRE(shop.moxie(run, "MOXIE_CHECK_INPUTS=off ").code == 0);
  const auto y = to_doubles(read_safetensors(shop.path("out.st")).tensors.at("y"));
  CHECK(y[0] == 1);
  CHECK(std::isnan(y[1]));
  CHECK(y[2] == INFINITY);
}

TEST_CASE("sequences of unequal length, and no samples at all") {
  const Workshop shop;
  std::map<std::string, std::vector<std::int64_t>> cell = {
      {"x_m", {3, 2, 3}}, {"x_s", {2, 2, 3}}, {"h0_m", {2, 4}}, {"h0_s", {2, 4}}};
  for (const std::string gate : {"r", "z", "c"}) {
    for (const std::string moment : {"_m", "_s"}) {
      cell["U" + gate + moment] = {4, 3};
      cell["W" + gate + moment] = {4, 4};
      cell["b" + gate + moment] = {4};
    }
  }
  write_safetensors(shop.path("in.st"), ones(cell, "", 1));
  check_failure(shop.moxie({"run", "sp_gru.sequence", "--in", "in.st", "--out", "out.st"}), 1,
                "axis 0 of x_s has 2 elements, so T = 2, but T = 3 from the tensors before it");
  write_safetensors(shop.path("in.st"), {{{"y", tensor({0, 2, 3}, {})}}, {}});
  check_failure(shop.moxie({"run", "probact.predictive", "--in", "in.st", "--out", "out.st"}), 1,
                "T = 0, but of the dims of probact.predictive only dynamic ones may be empty");
  CHECK_FALSE(std::filesystem::exists(shop.path("out.st")));
}

TEST_CASE("an output that cannot be written leaves nothing behind") {
  const Workshop shop;
  write_inputs(shop);
  check_failure(shop.moxie({"run", "f.mox", "--in", "in.st", "--out", "absent/out.st"}), 1, "absent/out.st");
  check_failure(shop.moxie({"run", "f.mox", "--in", "in.st", "--out", "/dev/full/out.st"}), 1, "/dev/full/out.st");
  CHECK_FALSE(std::filesystem::exists(shop.path("absent")));
}

TEST_CASE("wrong usage has code 2") {
  const Workshop shop;
  write_inputs(shop);
  check_failure(shop.moxie({}), 2, "A subcommand is required");
  check_failure(shop.moxie({"fly"}), 2,
                "there is no command 'fly'; choose from: train, predict, compare, experiment, run");
  check_failure(shop.moxie({"run", "f.mox"}), 2, "--in is required");
  check_failure(shop.moxie(with(kRun, {"--dim", "S"})), 2, "--dim S: a name and a number are wanted, such as S=8");
  check_failure(shop.moxie(with(kRun, {"--dim", "S=-1"})), 2, "--dim S=-1");
  check_failure(shop.moxie(with(kRun, {"--dim", "Q=1"})), 2, "--dim Q=1: f has no dim 'Q'; it has S, N");
  check_failure(shop.moxie(with(kRun, {"--dtype", "f16"})), 2, "f16 not in {f32,f64}");
  check_failure(shop.moxie(with(kRun, {"--device", "gpu"})), 2,
                "there is no device 'gpu'; choose one of: cpu, interp, cuda, cuda-emu, auto");
  check_failure(shop.moxie(with(kRun, {"--wrt", "x"})), 2, "--wrt needs --grad");
  check_failure(shop.moxie(with(kRun, {"--grad", "y", "--tangent", "y"})), 2, "exclude each other");
  check_failure(shop.moxie(with(kRun, {"--tangent", "q"})), 1, "q");
  check_failure(shop.moxie(with(kRun, {"--seed", "-1"})), 2, "Value -1 not in range 0");
  CHECK(shop.moxie({"run", "--help"}).code == 0);
}

TEST_CASE("names that do not exist are refused with those that do") {
  const Workshop shop;
  write_inputs(shop);
  check_failure(shop.moxie({"run", "gpn.response_meen", "--in", "in.st", "--out", "out.st"}), 1, "gpn.response_mean");
  check_failure(shop.moxie(with(kRun, {"--grad", "q"})), 1, "q");
  check_failure(shop.moxie(with(kRun, {"--grad", "y", "--wrt", "q"})), 1, "q");
  check_failure(shop.moxie(with(kRun, {"--dim", "N=5"})), 1, "N = ");
  shop.write("bad.mox", "dim N\ninput x[N]\noutput y[n] = x[n\n");
  check_failure(shop.moxie({"run", "bad.mox", "--in", "in.st", "--out", "out.st"}), 1, "bad.mox:");
}
