// Extrema of random formulas with many equal elements: every gradient arrives once.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <numeric>

#include "compiler/diff/differentiate.h"
#include "tests/devices.h"
#include "tests/property/random.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// A formula y[s] = a*max(.. + shift) + b*min(.. + shift), whose gradient with respect to shift is (a + b) times the
/// sum of the cotangents, whichever elements take it.
class TiedFormula {
 public:
  explicit TiedFormula(unsigned seed, bool rounds) : random_(seed), rounds_(rounds) {
    const std::string first = extremum("max"), second = extremum("min");
    text_ = "dim N = " + std::to_string(n) +
            "\nindex s:N, i:N, j:N\ninput x[N,N], w[N], shift\noutput y[s] = " + std::to_string(a_) + "*" + first +
            " + " + std::to_string(b_) + "*" + second + "\n";
  }
  const std::string& text() const { return text_; }
  double weight() const { return a_ + b_; }

  static constexpr std::int64_t n = 5;

 private:
  std::string pick(const std::vector<std::string>& choices) { return random_.pick(choices); }

  /// Over one or two indices, in ranges that are never empty.
  std::string extremum(const std::string& kind) {
    const std::string first =
        pick({"i", "i in s..N", "i in 0..s+1", "i in max(0,s-1)..min(s+2,N)", "i in ceil(s/2)..floor(s/2)+2"});
    const std::string second = pick({"", ",j", ",j in i..N", ",j in 0..i+1"});
    const bool apart = random_.chance(30) && !second.empty();
    const std::string opened =
        apart ? kind + "[" + first + "](" + kind + "[" + second.substr(1) + "](" : kind + "[" + first + second + "](";
    return opened + element(second.empty() ? "s" : "j") + " + shift" + (apart ? "))" : ")");
  }

  std::string element(const std::string& other) {
    const std::string value =
        pick({"x[i," + other + "]", "x[" + other + ",i] + w[i]", "where(i == " + other + ", w[i], x[i,i])",
              "max(x[i," + other + "], w[i])", "w[" + other + "]*x[i,i]", "sum[q in 0..3](x[i,q])",
              "sum[q in 0..33](w[i])", "w[" + other + "]"});
    return rounds_ ? pick({"sin(" + value + ")", "0.1*(" + value + ")", "exp(0.3*(" + value + "))/3"}) : value;
  }

  Random random_;
  bool rounds_;
  double a_ = 3, b_ = -1;
  std::string text_;
};

TensorValues small_numbers(const Program& program, Random& random) {
  const std::map<std::string, std::size_t> sizes{{"x", 25}, {"w", 5}, {"shift", 1}, {"cot.y", 5}};
  TensorValues inputs;
  for (const InputDecl& input : program.inputs) {
    std::vector<double>& values = inputs[input.name];
    for (std::size_t k = 0; k < sizes.at(input.name); ++k) values.push_back(static_cast<double>(random.between(-1, 1)));
  }
  return inputs;
}

double total(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

void check(unsigned seed, bool rounds, const std::shared_ptr<Device>& device, DType dtype) {
  const TiedFormula formula(seed, rounds);
  const Program program = differentiate(with_dtype(parse(formula.text()), dtype), {"y"}, {});
  Random random(seed + 1);
  const TensorValues inputs = small_numbers(program, random);
  const TensorValues expected = evaluate(program, {}, inputs);
  const TensorValues got = device ? run_on(device, program, {{"N", TiedFormula::n}}, inputs) : expected;
  INFO("seed ", seed, ", ", to_string(dtype), device ? " on " + device->name() : std::string(), "\n", formula.text());
  CHECK(got.at("grad.shift")[0] == formula.weight() * total(inputs.at("cot.y")));
  // Whole numbers are exact everywhere; others may be rounded to the other side of a tie.
  for (const char* name : {"grad.x", "grad.w"}) CHECK((rounds || got.at(name) == expected.at(name)));
}

}  // namespace

TEST_CASE("of equal elements exactly one takes the gradient") {
  for (unsigned seed = 0; seed < 400; ++seed) check(seed, seed % 2 == 0, nullptr, DType::f64);
}

TEST_CASE("of equal elements exactly one takes the gradient, on every device") {
  for (const auto& device : test_devices()) {
    const unsigned count = device->name() == "cuda-emu" ? 4 : 40;  // the emulator takes long to compile
    for (unsigned seed = 0; seed < count; ++seed) {
      check(seed, seed % 2 == 0, device, DType::f32);
      check(seed, seed % 2 == 1, device, DType::f64);
    }
  }
}
