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

constexpr double kDarkness = -3;  // most pixels are black: sigmoid(-3) is what one starts as

/// What a cell is made of.
struct CellKind {
  const char* sequence;    // the operation
  const char* readout;     // and that of the pixels
  std::string_view gates;  // each with U, W and b
  bool has_variances;
};

CellKind kind_of(Cell cell) {
  switch (cell) {
    case Cell::Gru:
      return {"sp_gru.sequence", "sp_gru.readout", "rzc", true};
    case Cell::Lstm:
      return {"sp_lstm.sequence", "sp_gru.readout", "ifog", true};
    case Cell::DropoutLstm:
      return {"lstm.dropout_sequence", "lstm.readout", "ifog", false};
  }
  throw InternalError("a recurrent network has an unknown cell");
}

void check_positive(std::string_view name, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw TypeError(fmt::format("{} of a recurrent network is {}, but must be positive", name, value));
}

void check(const SpGruOptions& options) {
  check_positive("the number of frames that are read", static_cast<double>(options.frames_in));
  check_positive("the number of frames that are written", static_cast<double>(options.frames_out));
  check_positive("the number of pixels of a frame", static_cast<double>(options.pixels));
  check_positive("the number of hidden units", static_cast<double>(options.hidden));
  check_positive("the variance of the weights", options.weight_variance);
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
                 {options.frames_out, options.pixels}, training) {}

  NetworkBuilder build() && {
    const Affine s = Symbol::dim("S"), in = options_.frames_in, out = options_.frames_out, p = options_.pixels,
                 n = options_.hidden;
    const Symbol axis[] = {Symbol::axis(0), Symbol::axis(1), Symbol::axis(2)};
    define("frames", {in, s, p}, tensor_access("x", {axis[1], axis[0], axis[2]}), options_.input_variance);
    define("start", {s, n}, 0, 0);
    recur("encoder.", "frames", "start", options_.pixels);
    define("code", {s, n}, {}, {}, [&](const std::string& part) {
      return tensor_access("encoder.h" + part, {in - Affine(1), axis[0], axis[1]});
    });
    const Expr time = (index_value(Affine(axis[0])) + Expr(1)) / Expr(static_cast<double>(options_.frames_out));
    define("clock", {out, s, 1}, time, 0);
    recur("decoder.", "clock", "code", 1);
    read_out();
    if (training_) lose();
    return std::move(builder_);
  }

 private:
  /// The parts of a tensor: its mean and variance, or its value.
  std::vector<std::string> parts() const {
    return kind_.has_variances ? std::vector<std::string>{"_m", "_s"} : std::vector<std::string>{""};
  }

  void define(const std::string& name, const std::vector<Affine>& shape, const Expr& mean, const Expr& variance,
              const std::function<Expr(const std::string& part)>& body = {}) {
    for (const std::string& part : parts())
      builder_.define(name + part, shape, body ? body(part) : part == "_s" ? variance : mean);
  }

  /// A parameter with its parts, bound to the input `input` of an operation.
  void parameter(const std::string& name, const std::vector<Affine>& shape, const Initialiser& mean,
                 const std::string& input, Inputs& inputs) {
    for (const std::string& part : parts()) {
      const std::string tensor = name + part;
      inputs[input + part] = tensor;
      if (part != "_s") {
        builder_.parameter(tensor, shape, mean);
        continue;
      }
      const std::string logarithm = name + "_log_s";
      builder_.parameter(logarithm, shape, {Kind::Constant, std::log(options_.weight_variance)});
      builder_.define(tensor, shape, call("exp", {element(logarithm, shape.size())}));
    }
  }

  void recur(const std::string& prefix, const std::string& x, const std::string& start, std::int64_t width) {
    const Affine m = width, n = options_.hidden;
    Inputs inputs;
    for (const std::string& part : parts()) {
      inputs["x" + part] = x + part;
      inputs["h0" + part] = start + part;
    }
    for (const char gate : kind_.gates) {
      const auto weights = [&](const char* name, const std::vector<Affine>& shape, const Initialiser& mean) {
        const std::string input = std::string(name) + gate;
        parameter(prefix + input, shape, mean, input, inputs);
      };
      weights("U", {n, m}, {Kind::Glorot});
      weights("W", {n, n}, {Kind::Glorot});
      weights("b", {n}, {Kind::Constant, 0});
    }
    if (!kind_.has_variances) inputs["rate"] = rate(prefix);
    builder_.apply(kind_.sequence, {prefix, std::move(inputs)});
  }

  std::string rate(const std::string& prefix) {
    builder_.define(prefix + "rate", {}, options_.dropout);
    return prefix + "rate";
  }

  void read_out() {
    const Affine p = options_.pixels, n = options_.hidden;
    Inputs inputs;
    for (const std::string& part : parts()) inputs["h" + part] = "decoder.h" + part;
    parameter("readout.W", {p, n}, {Kind::Glorot}, "W", inputs);
    parameter("readout.b", {p}, {Kind::Constant, kDarkness}, "b", inputs);
    builder_.apply(kind_.readout, {"readout.", std::move(inputs), {}, {{"mean", "mean"}}});
    if (!kind_.has_variances) return;
    const std::vector<Affine> shape = {Symbol::dim("S"), options_.frames_out, options_.pixels};
    builder_.define("variance", shape, element("readout.variance", shape.size()) + Expr(kLeastVariance), true);
  }

  void lose() {
    Inputs inputs = {{"mean", "mean"}, {"target", "target"}};
    if (kind_.has_variances) inputs["variance"] = "variance";
    builder_.apply(kind_.has_variances ? "loss.gaussian_frames" : "loss.squared_error_frames",
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
