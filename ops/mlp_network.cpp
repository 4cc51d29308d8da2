#include <fmt/format.h>

#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "ops/network_builder.h"

namespace moxie {
namespace {

void check(const MlpOptions& options) {
  check_sizes("multi-layer perceptron", options.sizes, 2);
  const std::string op = "dense." + options.activation;
  if (options.activation == "tanh_fast_dropout" || !find_op(op)) {
    throw TypeError(fmt::format("unknown activation '{}': `moxie ops` lists the known ones as dense.<activation>",
                                options.activation));
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    throw TypeError(fmt::format("the dropout rate is {}, but must be at least 0 and below 1", options.dropout));
  }
  if (options.dropout > 0 && options.activation != "tanh") {
    throw TypeError(
        fmt::format("fast dropout is known for tanh only, not for '{}'; leave dropout at 0", options.activation));
  }
}

class MlpBuilder {
 public:
  MlpBuilder(const MlpOptions& options, bool training)
      : options_(options),
        training_(training),
        builder_(training ? "mlp_train" : "mlp_predict", options.sizes, training) {}

  NetworkBuilder build() && {
    if (drops()) builder_.define("dropout.rate", {}, options_.dropout);
    std::string x = "x";
    const std::size_t last = options_.sizes.size() - 1;
    for (std::size_t layer = 1; layer < last; ++layer) x = hidden(layer, x);
    weights("readout.", last);
    builder_.apply("dense.identity",
                   {"readout.", {{"x", x}, {"W", "readout.W"}, {"b", "readout.b"}}, {}, {{"a", result()}}});
    finish();
    return std::move(builder_);
  }

 private:
  bool classifies() const { return options_.task == Task::Classification; }
  /// Prediction keeps the average over what is dropped: that is the function that was trained.
  bool drops() const { return options_.dropout > 0; }
  std::string result() const { return classifies() ? "logit_mean" : "mean"; }

  void weights(const std::string& prefix, std::size_t layer) {
    const Affine from = NetworkBuilder::width(layer - 1);
    const Affine to = NetworkBuilder::width(layer);
    builder_.parameter(prefix + "W", {from, to}, {Initialiser::Kind::Glorot});
    builder_.parameter(prefix + "b", {to}, {Initialiser::Kind::Constant, 0});
  }

  std::string hidden(std::size_t layer, const std::string& x) {
    const std::string prefix = fmt::format("layer{}.", layer);
    weights(prefix, layer);
    Inclusion how{prefix, {{"x", x}, {"W", prefix + "W"}, {"b", prefix + "b"}}};
    if (options_.activation == "prelu") {
      builder_.parameter(prefix + "slope", {NetworkBuilder::width(layer)}, {Initialiser::Kind::Constant, 0.25});
      how.inputs["slope"] = prefix + "slope";
    }
    if (drops()) how.inputs["rate"] = "dropout.rate";
    builder_.apply("dense." + options_.activation + (drops() ? "_fast_dropout" : ""), how);
    return prefix + "a";
  }

  void finish() {
    if (training_ && classifies()) {
      builder_.apply("loss.softmax_cross_entropy",
                     {"loss.", {{"logits", result()}, {"target", "target"}}, {}, {{"loss", "loss"}}});
    } else if (training_) {
      builder_.apply("loss.squared_error",
                     {"loss.", {{"prediction", result()}, {"target", "target"}}, {}, {{"loss", "loss"}}});
    } else if (classifies()) {
      builder_.apply("activation.softmax", {"readout.", {{"logits", result()}}, {}, {{"probability", "probability"}}});
    }
  }

  const MlpOptions& options_;
  bool training_;
  NetworkBuilder builder_;
};

}  // namespace

Network mlp_network(const MlpOptions& options) {
  check(options);
  const NetworkBuilder train = MlpBuilder(options, true).build();
  return {train.program(), MlpBuilder(options, false).build().program(), train.parameters()};
}

}  // namespace moxie
