// Recurrent networks of means and variances, and the cell of the SP-LSTM against many draws.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "ops/network.h"

namespace {

using namespace moxie;
using Cell = SpGruOptions::Cell;

SpGruOptions small_options(Cell cell) {
  SpGruOptions options;
  options.frames_in = 3;
  options.frames_out = 2;
  options.pixels = 4;
  options.hidden = 5;
  options.cell = cell;
  return options;
}

TensorValues inputs_of(const Network& network, std::int64_t samples) {
  std::mt19937_64 generator(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  TensorValues values;
  const auto fill = [&](const std::string& name, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) values[name].push_back(uniform(generator));
  };
  fill("x", samples * 12);
  fill("target", samples * 8);
  for (const Parameter& parameter : network.parameters) {
    std::int64_t count = 1;
    for (const std::int64_t extent : parameter.shape) count *= extent;
    fill(parameter.name, count);
    for (double& value : values[parameter.name]) value = value - 0.5 + parameter.initialiser.low;
  }
  return values;
}

TensorValues run(const Program& program, TensorValues inputs, std::uint64_t step = 0) {
  std::erase_if(inputs, [&](const auto& item) { return !program.find_input(item.first); });
  return evaluate(program, {{"S", 2}}, inputs, 1, step);
}

TEST_CASE("every cell reads frames and writes frames") {
  for (const Cell cell : {Cell::Gru, Cell::GammaGru, Cell::PoissonGru, Cell::Lstm, Cell::DropoutLstm}) {
    CAPTURE(static_cast<int>(cell));
    const Network network = sp_gru_network(small_options(cell));
    CHECK_NOTHROW(verify(network.train));
    CHECK_NOTHROW(verify(network.predict));
    const TensorValues inputs = inputs_of(network, 2);
    const TensorValues outputs = run(network.predict, inputs);
    REQUIRE(outputs.at("mean").size() == 2 * 2 * 4);
    for (const double mean : outputs.at("mean")) CHECK((mean > 0 && mean < 1));
    CHECK(std::isfinite(run(network.train, inputs).at("loss")[0]));
    CHECK(outputs.contains("variance") == (cell != Cell::DropoutLstm));
    CHECK((outputs.at("mean") == run(network.predict, inputs, 1).at("mean")) == (cell != Cell::DropoutLstm));
  }
}

TEST_CASE("variances of the input and of the weights reach the prediction") {
  const auto total = [](double input, double weights) {
    SpGruOptions options = small_options(Cell::Gru);
    options.input_variance = input;
    options.weight_variance = weights;
    const Network network = sp_gru_network(options);
    const auto outputs = run(network.predict, inputs_of(network, 2));
    const std::vector<double>& variances = outputs.at("variance");
    return std::accumulate(variances.begin(), variances.end(), 0.0);
  };
  CHECK(total(0.5, 1e-3) != total(0, 1e-3));  // gates that are less certain may close
  CHECK(total(0, 1e-1) > total(0, 1e-3));
}

/// Weights, inputs and states of the cell as given, or drawn from their laws.
class DrawnCell {
 public:
  explicit DrawnCell(const TensorValues& moments) : moments_(moments) {}

  /// h of one draw, for one sample and M = N = 2.
  std::array<double, 2> h() {
    const auto x = draw("x"), h_prev = draw("h_prev"), c_prev = draw("c_prev");
    std::array<std::array<double, 2>, 4> gates;
    const std::string names = "ifog";
    for (std::size_t g = 0; g < names.size(); ++g) {
      const std::string gate(1, names[g]);
      const auto U = draw("U" + gate), W = draw("W" + gate), b = draw("b" + gate);
      for (std::size_t n = 0; n < 2; ++n) {
        gates[g][n] = b[n];
        for (std::size_t k = 0; k < 2; ++k) gates[g][n] += U[2 * n + k] * x[k] + W[2 * n + k] * h_prev[k];
      }
    }
    const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
    std::array<double, 2> h;
    for (std::size_t n = 0; n < 2; ++n) {
      const double c = sigmoid(gates[1][n]) * c_prev[n] + sigmoid(gates[0][n]) * std::tanh(gates[3][n]);
      h[n] = sigmoid(gates[2][n]) * std::tanh(c);
    }
    return h;
  }

 private:
  std::vector<double> draw(const std::string& name) {
    std::vector<double> values = moments_.at(name + "_m");
    const std::vector<double>& variances = moments_.at(name + "_s");
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += std::sqrt(variances[i]) * normal_(generator_);
    return values;
  }

  const TensorValues& moments_;
  std::mt19937_64 generator_{1};
  std::normal_distribution<double> normal_;
};

TEST_CASE("the SP-LSTM's moments are those of many draws, within the error of its activations") {
  const Program cell = load_op("sp_lstm.cell");
  const DimValues dims = {{"S", 1}, {"M", 2}, {"N", 2}};
  std::mt19937_64 generator(2);
  std::uniform_real_distribution<double> mean(-1, 1), variance(0.05, 0.2);
  TensorValues inputs;
  for (const InputDecl& input : cell.inputs) {
    const bool is_variance = input.name.ends_with("_s");
    const std::size_t count = input.name[0] == 'U' || input.name[0] == 'W' ? 4 : 2;
    for (std::size_t i = 0; i < count; ++i)
      inputs[input.name].push_back(is_variance ? variance(generator) : mean(generator));
  }
  const TensorValues moments = evaluate(cell, dims, inputs);
  DrawnCell drawn(inputs);
  constexpr int kDraws = 100000;
  std::array<double, 2> sum{}, squares{};
  for (int k = 0; k < kDraws; ++k) {
    const auto h = drawn.h();
    for (std::size_t n = 0; n < 2; ++n) sum[n] += h[n], squares[n] += h[n] * h[n];
  }
  for (std::size_t n = 0; n < 2; ++n) {
    const double average = sum[n] / kDraws;
    CHECK(std::abs(moments.at("h_m")[n] - average) < 0.04);
    CHECK(std::abs(moments.at("h_s")[n] - (squares[n] / kDraws - average * average)) < 0.11);
  }
}

/// A random point of an operation's domain where S = M = N = 2.
TensorValues positive_point(const Program& program) {
  std::mt19937_64 generator(3);
  std::uniform_real_distribution<double> uniform(0.1, 1);
  const DimValues dims = {{"S", 2}, {"M", 2}, {"N", 2}, {"T", 1}};
  TensorValues values;
  for (const InputDecl& input : program.inputs) {
    std::int64_t count = 1;
    for (const Affine& extent : input.shape)
      count *= extent.evaluate([&](Symbol dim) { return dims.find(dim.name())->second; });
    for (std::int64_t i = 0; i < count; ++i) values[input.name].push_back(uniform(generator));
  }
  return values;
}

/// The cell from the operations that it is made of.
class ComposedCell {
 public:
  ComposedCell(bool gamma, const TensorValues& inputs) : gamma_(gamma), in_(inputs) {}

  TensorValues h() const {
    const TensorValues r = unit('r', "h_prev", in_, {1}), z = unit('z', "h_prev", in_, {1});
    TensorValues product;
    for (std::size_t i = 0; i < 4; ++i) {
      const double r_m = r.at("a_m")[i], r_s = r.at("a_s")[i], h_m = in_.at("h_prev_m")[i], h_s = in_.at("h_prev_s")[i];
      product["g_m"].push_back(r_m * h_m);
      product["g_s"].push_back(r_s * h_s + r_s * h_m * h_m + r_m * r_m * h_s);
    }
    const TensorValues c = unit('c', "g", product, in_.at("c"));
    return evaluate(load_op("sp_gru.cell_state"), kDims,
                    {{"z_m", z.at("a_m")},
                     {"z_s", z.at("a_s")},
                     {"c_m", c.at("a_m")},
                     {"c_s", c.at("a_s")},
                     {"h_prev_m", in_.at("h_prev_m")},
                     {"h_prev_s", in_.at("h_prev_s")}});
  }

 private:
  inline static const DimValues kDims = {{"S", 2}, {"M", 2}, {"N", 2}};

  /// Where the cell knows no variance, none.
  std::vector<double> variance(const std::string& name, std::size_t count) const {
    const auto found = in_.find(name);
    return found == in_.end() ? std::vector<double>(count, 0) : found->second;
  }

  TensorValues linear(const std::string& weight, const std::vector<double>& a_m, const std::vector<double>& a_s,
                      const std::string& offset) const {
    return evaluate(load_op("sp_gru.linear"), kDims,
                    {{"a_m", a_m},
                     {"a_s", a_s},
                     {"W_m", in_.at(weight + "_m")},
                     {"W_s", variance(weight + "_s", 4)},
                     {"b_m", offset.empty() ? std::vector<double>(2, 0) : in_.at(offset + "_m")},
                     {"b_s", offset.empty() ? std::vector<double>(2, 0) : variance(offset + "_s", 2)}});
  }

  TensorValues unit(char gate, const std::string& h, const TensorValues& from, const std::vector<double>& c) const {
    TensorValues o = linear(std::string("U") + gate, in_.at("x_m"), variance("x_s", 4), std::string("b") + gate);
    const TensorValues states = linear(std::string("W") + gate, from.at(h + "_m"), from.at(h + "_s"), "");
    for (const char* part : {"o_m", "o_s"}) {
      for (std::size_t i = 0; i < 4; ++i) o[part][i] += states.at(part)[i];
    }
    o["c"] = c;
    o["gamma"] = in_.at("gamma");
    if (gamma_) return evaluate(load_op("sp_gru.gamma_layer"), kDims, o);
    return evaluate(load_op("sp_gru.poisson_activation"), kDims,
                    {{"rate", o.at("o_m")}, {"c", c}, {"gamma", in_.at("gamma")}});
  }

  bool gamma_;
  const TensorValues& in_;
};

TEST_CASE("cells with Gamma and Poisson units are made of the operations on them, and sequences of cells") {
  for (const bool gamma : {true, false}) {
    CAPTURE(gamma);
    const std::string family = gamma ? "sp_gru.gamma_" : "sp_gru.poisson_";
    const Program cell = load_op(family + "cell");
    TensorValues inputs = positive_point(cell);
    const TensorValues h = evaluate(cell, {{"S", 2}, {"M", 2}, {"N", 2}}, inputs);
    const TensorValues composed = ComposedCell(gamma, inputs).h();
    for (const char* part : {"m", "s"})
      inputs[std::string("h0_") + part] = inputs.extract(std::string("h_prev_") + part).mapped();
    const TensorValues sequence =
        evaluate(load_op(family + "sequence"), {{"T", 1}, {"S", 2}, {"M", 2}, {"N", 2}}, inputs);
    for (const char* part : {"h_m", "h_s"}) {
      for (std::size_t i = 0; i < 4; ++i) {
        CHECK(h.at(part)[i] == doctest::Approx(composed.at(part)[i]).epsilon(1e-12));
        CHECK(h.at(part)[i] == doctest::Approx(sequence.at(part)[i]).epsilon(1e-12));
      }
    }
  }
}

struct Refusal {
  void (*spoil)(SpGruOptions& options);
  const char* message;
};

TEST_CASE("options of recurrent networks out of range are refused") {
  const Refusal refusals[] = {
      {[](SpGruOptions& o) { o.hidden = 0; }, "the number of hidden units of a recurrent network is 0"},
      {[](SpGruOptions& o) { o.frames_in = 0; }, "the number of frames that are read of a recurrent network is 0"},
      {[](SpGruOptions& o) { o.pixels = -4; }, "the number of pixels of a frame of a recurrent network is -4"},
      {[](SpGruOptions& o) { o.weight_variance = 0; }, "the variance of the weights of a recurrent network is 0"},
      {[](SpGruOptions& o) { o.input_variance = -1; },
       "the variance of the pixels that a recurrent network reads is -1, but must not be negative"},
      {[](SpGruOptions& o) { o.dropout = 1; }, "the dropout rate is 1, but must be at least 0 and below 1"},
  };
  for (const Refusal& refusal : refusals) {
    SpGruOptions options = small_options(Cell::Gru);
    refusal.spoil(options);
    CHECK_THROWS_WITH_AS(sp_gru_network(options), doctest::Contains(refusal.message), TypeError);
  }
}

}  // namespace
