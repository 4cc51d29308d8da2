#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <string_view>

#include "compiler/support/error.h"
#include "ops/network_builder.h"

namespace moxie {
namespace {

using Kind = Initialiser::Kind;
using Cell = SpGruOptions::Cell;
using Inputs = std::map<std::string, std::string, std::less<>>;

constexpr double kLeastVariance =
    1e-3;  // of a pixel: what is black in every image must not promise infinite likelihood

constexpr double kUnit = 1;              // c and gamma of Gamma and Poisson units, which then resemble tanh (A.1)
constexpr double kPositiveOffset = 0.1;  // where offsets that must be positive start

constexpr double kDarkness = -3;  // most pixels are black: sigmoid(-3) is what one starts as

/// The endings of a tensor's parts: its mean and variance, its mean alone, or its value.
using Parts = std::vector<std::string>;
const Parts kMoments = {"_m", "_s"}, kMeanOnly = {"_m"}, kValue = {""};

/// How means of weights start: of either sign, or, where `scale` is given, as exponentials of `initialiser` times it.
struct Mean {
  Initialiser initialiser;
  double scale = 0;
};

/// What a cell is made of.
struct CellKind {
  const char* sequence;    // the operation
  const char* readout;     // and that of the pixels
  std::string_view gates;  // each with U, W and b
  Parts state, weights;    // the inputs of a cell have the parts of its weights
  bool positive = false;   // inputs and weights are not negative; units are c (1 - exp(-gamma x))

  bool has_variances() const { return state == kMoments; }
};

CellKind kind_of(Cell cell) {
  switch (cell) {
    case Cell::Gru:
      return {"sp_gru.sequence", "sp_gru.readout", "rzc", kMoments, kMoments};
    case Cell::GammaGru:
      return {"sp_gru.gamma_sequence", "sp_gru.readout", "rzc", kMoments, kMoments, true};
    case Cell::PoissonGru:  // which has one parameter, so that variances of weights make no difference
      return {"sp_gru.poisson_sequence", "sp_gru.readout", "rzc", kMoments, kMeanOnly, true};
    case Cell::Lstm:
      return {"sp_lstm.sequence", "sp_gru.readout", "ifog", kMoments, kMoments};
    case Cell::DropoutLstm:
      return {"lstm.dropout_sequence", "lstm.readout", "ifog", kValue, kValue};
  }
  throw InternalError("a recurrent network has an unknown cell");
}

void require_positive(std::string_view name, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw TypeError(fmt::format("{} of a recurrent network is {}, but must be positive", name, value));
}

void check(const SpGruOptions& options) {
  require_positive("the number of frames that are read", static_cast<double>(options.frames_in));
  require_positive("the number of frames that are written", static_cast<double>(options.frames_out));
  require_positive("the number of pixels of a frame", static_cast<double>(options.pixels));
  require_positive("the number of hidden units", static_cast<double>(options.hidden));
  require_positive("the variance of the weights", options.weight_variance);
  if (!(options.input_variance >= 0) || !std::isfinite(options.input_variance))
    throw TypeError(
        fmt::format("the variance of the pixels that a recurrent network reads is {}, but must not be "
                    "negative",
                    options.input_variance));
  if (!(options.dropout >= 0 && options.dropout < 1))
    throw TypeError(fmt::format("the dropout rate is {}, but must be at least 0 and below 1", options.dropout));
}

/// An encoder reads the frames; from its last state a decoder, which sees nothing but the time, writes frames.
class SpGruBuilder {
 public:
  SpGruBuilder(const SpGruOptions& options, bool training)
      : options_(options),
        kind_(kind_of(options.cell)),
        training_(training),
        builder_(training ? "sp_gru_train" : "sp_gru_predict", {options.frames_in, options.pixels},
                 {options.frames_out, options.pixels}, training,
                 kind_.positive ? ValueDomain::NonNegative : ValueDomain::Any) {}

  NetworkBuilder build() && {
    const Affine s = Symbol::dim("S"), in = options_.frames_in, out = options_.frames_out, p = options_.pixels,
                 n = options_.hidden;
    const Symbol axis[] = {Symbol::axis(0), Symbol::axis(1), Symbol::axis(2)};
    define("frames", {in, s, p}, kind_.weights, tensor_access("x", {axis[1], axis[0], axis[2]}),
           options_.input_variance);
    define("start", {s, n}, kind_.state, 0, 0);
    recur("encoder.", "frames", "start", options_.pixels);
    for (const std::string& part : kind_.state)
      builder_.define("code" + part, {s, n}, tensor_access("encoder.h" + part, {in - Affine(1), axis[0], axis[1]}));
    const Expr time = (index_value(Affine(axis[0])) + Expr(1)) / Expr(static_cast<double>(options_.frames_out));
    define("clock", {out, s, 1}, kind_.weights, time, 0);
    recur("decoder.", "clock", "code", 1);
    read_out();
    if (training_) lose();
    return std::move(builder_);
  }

 private:
  void define(const std::string& name, const std::vector<Affine>& shape, const Parts& parts, const Expr& mean,
              const Expr& variance) {
    for (const std::string& part : parts) builder_.define(name + part, shape, part == "_s" ? variance : mean);
  }

  /// A positive parameter: what is trained is `logarithm`.
  void positive(const std::string& tensor, const std::string& logarithm, const std::vector<Affine>& shape,
                const Initialiser& initialiser, double scale) {
    builder_.parameter(logarithm, shape, initialiser);
    builder_.define(tensor, shape, call("exp", {element(logarithm, shape.size())}) * Expr(scale));
  }

  /// A parameter with its parts, bound to the input `input` of an operation.
  void parameter(const std::string& name, const std::vector<Affine>& shape, const Parts& parts, const Mean& mean,
                 const std::string& input, Inputs& inputs) {
    for (const std::string& part : parts) {
      inputs[input + part] = name + part;
      if (part == "_s")
        positive(name + part, name + "_log_s", shape, {Kind::Constant, std::log(options_.weight_variance)}, 1);
      else if (mean.scale > 0)
        positive(name + part, name + "_log_m", shape, mean.initialiser, mean.scale);
      else
        builder_.parameter(name + part, shape, mean.initialiser);
    }
  }

  void recur(const std::string& prefix, const std::string& x, const std::string& start, std::int64_t width) {
    const Affine m = width, n = options_.hidden;
    Inputs inputs;
    for (const std::string& part : kind_.weights) inputs["x" + part] = x + part;
    for (const std::string& part : kind_.state) inputs["h0" + part] = start + part;
    const double typical = 1 / static_cast<double>(width + options_.hidden);
    for (const char gate : kind_.gates) {
      const auto weights = [&](const char* name, const std::vector<Affine>& shape, const Mean& any,
                               const Mean& positive) {
        const std::string input = std::string(name) + gate;
        parameter(prefix + input, shape, kind_.weights, kind_.positive ? positive : any, input, inputs);
      };
      weights("U", {n, m}, {{Kind::Glorot}}, {Initialiser::normal(1), typical});
      weights("W", {n, n}, {{Kind::Glorot}}, {Initialiser::normal(1), typical});
      weights("b", {n}, {{Kind::Constant, 0}}, {{Kind::Constant, 0}, kPositiveOffset});
    }
    if (!kind_.has_variances()) inputs["rate"] = constant_input(prefix + "rate", options_.dropout);
    if (kind_.positive) {
      for (const char* name : {"c", "gamma"}) inputs[name] = constant_input(prefix + name, kUnit);
    }
    builder_.apply(kind_.sequence, {prefix, std::move(inputs)});
  }

  std::string constant_input(const std::string& name, double value) {
    builder_.define(name, {}, value);
    return name;
  }

  void read_out() {
    const Affine p = options_.pixels, n = options_.hidden;
    Inputs inputs;
    for (const std::string& part : kind_.state) inputs["h" + part] = "decoder.h" + part;
    parameter("readout.W", {p, n}, kind_.state, {{Kind::Glorot}}, "W", inputs);
    parameter("readout.b", {p}, kind_.state, {{Kind::Constant, kDarkness}}, "b", inputs);
    builder_.apply(kind_.readout, {"readout.", std::move(inputs), {}, {{"mean", "mean"}}});
    if (!kind_.has_variances()) return;
    const std::vector<Affine> shape = {Symbol::dim("S"), options_.frames_out, options_.pixels};
    builder_.define("variance", shape, element("readout.variance", shape.size()) + Expr(kLeastVariance), true);
  }

  void lose() {
    Inputs inputs = {{"mean", "mean"}, {"target", "target"}};
    if (kind_.has_variances()) inputs["variance"] = "variance";
    builder_.apply(kind_.has_variances() ? "loss.gaussian_frames" : "loss.squared_error_frames",
                   {"loss.", std::move(inputs), {}, {{"loss", "loss"}}});
  }

  const SpGruOptions& options_;
  CellKind kind_;
  bool training_;
  NetworkBuilder builder_;
};

}  // namespace

Network sp_gru_network(const SpGruOptions& options) {
  check(options);
  const NetworkBuilder train = SpGruBuilder(options, true).build();
  return {train.program(), SpGruBuilder(options, false).build().program(), train.parameters()};
}

}  // namespace moxie
