#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/error.h"
#include "ops/gpn_layers.h"

namespace moxie {
namespace {

using Kind = Initialiser::Kind;
using Propagate = GpnOptions::Propagate;

constexpr const char* kRelativeJitter = "loss.relative_jitter";

void check_positive(std::string_view name, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw TypeError(fmt::format("{} of a GPN network is {}, but must be positive", name, value));
}

void check_noise(const GpnOptions& options) {
  check_positive("the noise", options.noise);
  check_positive("the jitter", options.jitter);
  check_positive("the posterior's scale", options.posterior_scale);
  if (!(options.least_noise >= 0 && options.least_noise < options.noise)) {
    throw TypeError(
        fmt::format("the least noise of a GPN network is {}, but must be at least 0 and below the {} it starts at",
                    options.least_noise, options.noise));
  }
  check_positive("lambda", options.lambda);
  check_positive("sigma", options.sigma);
  check_positive("the penalty's scale", options.penalty_scale);
  if (!(options.penalty >= 0))
    throw TypeError(fmt::format("the penalty of a GPN network is {}, but must not be negative", options.penalty));
}

void check_groups(const GpnOptions& options) {
  if (options.sharing != GpnOptions::Sharing::Group) return;
  for (std::size_t layer = 1; layer + 1 < options.sizes.size(); ++layer) {
    const std::int64_t units = options.sizes[layer];
    if (options.groups > 0 && units % options.groups == 0) continue;
    throw TypeError(fmt::format(
        "the {} units of layer {} do not fall into {} groups of the same size; choose a number that divides {}", units,
        layer, options.groups, units));
  }
}

void check_input_variance(const GpnOptions& options) {
  const std::vector<double>& variance = options.input_variance;
  if (variance.empty()) return;
  if (options.propagate == Propagate::Mean)
    throw TypeError("a GPN network that propagates means only has no use for the variance of its input");
  if (variance.size() != 1 && static_cast<std::int64_t>(variance.size()) != options.sizes[0]) {
    throw TypeError(fmt::format(
        "{} input variances were given, but the GPN network has {} inputs; give one for each, or one for all",
        variance.size(), options.sizes[0]));
  }
  for (const double value : variance) check_positive("an input variance", value);
}

void check(const GpnOptions& options) {
  check_sizes("GPN network", options.sizes, options.task == Task::Classification ? 3 : 2);
  check_positive("the number of inducing points", static_cast<double>(options.inducing_points));
  check_positive("the number of terms of the series", static_cast<double>(options.series_terms));
  check_noise(options);
  check_groups(options);
  check_input_variance(options);
  if (!(options.lowest_point <= options.highest_point)) {
    throw TypeError(fmt::format("the inducing points run from {} to {}; give the lower end first", options.lowest_point,
                                options.highest_point));
  }
  if (options.train_points && options.propagate == Propagate::Covariance &&
      options.covariance == GpnOptions::Covariance::Equispaced) {
    throw TypeError("inducing points that are trained do not stay equally spaced; compute covariances exactly");
  }
}

class GpnBuilder {
 public:
  GpnBuilder(const GpnOptions& options, bool training)
      : options_(options),
        training_(training),
        builder_(training ? "gpn_train" : "gpn_predict", options.sizes, training),
        layers_(options_, builder_) {}

  NetworkBuilder build() && {
    Moments x = layers_.input();
    for (std::size_t layer = 1; layer < last_layer(); ++layer) x = layers_.add(layer, x);
    if (classifies()) {
      classify(layers_.add(last_layer(), x));
    } else {
      GpnLayers::Names outputs = {{"mean", "mean"}};
      if (options_.propagate != Propagate::Mean) outputs["variance"] = "variance";
      regress(layers_.add(last_layer(), x, outputs));
    }
    if (training_) total_loss();
    return std::move(builder_);
  }

 private:
  bool classifies() const { return options_.task == Task::Classification; }
  /// The number of GPN layers.
  std::size_t last_layer() const { return options_.sizes.size() - (classifies() ? 2 : 1); }

  // ---- Read-out and losses ----

  void classify(const Moments& x) {
    const std::size_t last = options_.sizes.size() - 1;
    const std::vector<Affine> shape = {NetworkBuilder::dim("S"), NetworkBuilder::width(last)};
    const Moments logits = layers_.activate("readout.", last - 1, last, x);
    builder_.define("logit_mean", shape, element(logits.mean, 2), true);
    if (!logits.spread.empty()) {
      std::vector<Affine> diagonal = {Symbol::axis(0), Symbol::axis(1)};
      if (logits.full) diagonal.emplace_back(Symbol::axis(1));
      builder_.define("logit_var", shape, tensor_access(logits.spread, diagonal), true);
    }
    if (training_) {
      classification_loss(x, logits);
    } else {
      predict_classes(logits);
    }
  }

  /// Sigma points of the features where those of the logits need a factor of a singular covariance, or if asked for.
  bool uses_features(const Moments& logits) const {
    return logits.full ? options_.sizes.back() > *(options_.sizes.end() - 2)
                       : options_.sigma_points == GpnOptions::SigmaPoints::Features;
  }

  void classification_loss(const Moments& x, const Moments& logits) {
    const std::string kind = x.full || (logits.full && !uses_features(logits)) ? "full" : "diag";
    Inclusion how{"loss.", {{"target", "target"}}};
    if (logits.spread.empty()) {
      how.inputs["logits"] = logits.mean;
      builder_.apply("loss.softmax_cross_entropy", how);
    } else if (uses_features(logits)) {
      how.inputs.insert({{"mean_x", x.mean}, {"W", "readout.W"}, {x.full ? "cov_x" : "var_x", factorisable(x)}});
      builder_.apply("gpn.loss_unscented_features_" + kind, how);
    } else {
      how.inputs.insert({{"mu", logits.mean}, {logits.full ? "cov" : "var", factorisable(logits)}});
      builder_.apply("gpn.loss_unscented_" + kind, how);
    }
  }

  /// A covariance to which rounding leaves a Cholesky factor; a variance as it is.
  std::string factorisable(const Moments& x) {
    if (!x.full) return x.spread;
    builder_.define(kRelativeJitter, {}, kCovarianceJitter);
    builder_.apply("gpn.jitter", {"loss.", {{"cov", x.spread}, {"relative", kRelativeJitter}}});
    return "loss.jittered";
  }

  void predict_classes(const Moments& logits) {
    if (logits.spread.empty()) {
      builder_.apply("activation.softmax",
                     {"readout.", {{"logits", "logit_mean"}}, {}, {{"probability", "probability"}}});
    } else {
      builder_.apply("gpn.class_probability",
                     {"readout.", {{"mu", "logit_mean"}, {"var", "logit_var"}}, {}, {{"probability", "probability"}}});
    }
  }

  void regress(const Moments& x) {
    if (!training_) return predict_noise();
    if (options_.propagate == Propagate::Mean) {
      builder_.apply("loss.squared_error", {"loss.", {{"prediction", x.mean}, {"target", "target"}}});
      return;
    }
    if (options_.likelihood == GpnOptions::Likelihood::BetaPredictive) return weight_by_variance(x);
    Inclusion how{"loss.", {{"mean", x.mean}, {"target", "target"}}, {}, {{"nll", "loss.loss"}}};
    if (options_.likelihood == GpnOptions::Likelihood::Predictive) {
      how.inputs["variance"] = "variance";
      builder_.apply("gpn.loss_predictive", how);
    } else {
      how.inputs["sigma"] = GpnLayers::prefix(last_layer()) + "sigma";
      how.inputs["second_moment"] = second_moment(x, how.inputs["sigma"]);
      builder_.apply("gpn.loss_regression", how);
    }
  }

  /// loss.beta_nll, and for what its weight lacks to 1 half the squared error, which moves means as loss.beta_nll with
  /// beta = 1 does: training may begin with the means.
  void weight_by_variance(const Moments& x) {
    builder_.define("loss.beta", {}, kVarianceWeightPower);
    builder_.apply("loss.beta_nll",
                   {"loss.",
                    {{"mean", x.mean}, {"variance", "variance"}, {"target", "target"}, {"beta", "loss.beta"}},
                    {},
                    {{"loss", "loss.nll"}}});
    builder_.apply("loss.squared_error",
                   {"loss.", {{"prediction", x.mean}, {"target", "target"}}, {}, {{"loss", "loss.squared_error"}}});
    builder_.parameter("nll_weight", {}, {Kind::Constant, 1}, false);
    const Expr weight = element("nll_weight", 0);
    builder_.define("loss.loss", {},
                    weight * element("loss.nll", 0) + (Expr(1) - weight) * element("loss.squared_error", 0) / Expr(2));
  }

  /// The part of the predicted variance that is noise of the targets; the rest is what the network does not know.
  void predict_noise() {
    if (options_.propagate == Propagate::Mean) return;
    const Expr sigma = tensor_access(GpnLayers::prefix(last_layer()) + "sigma", {Symbol::axis(1)});
    builder_.define("aleatoric", {NetworkBuilder::dim("S"), NetworkBuilder::width(last_layer())}, sigma * sigma, true);
  }

  /// Of the outputs without their noise. Not the layer's own: rounding may take that below mean^2, and then training
  /// would follow the error.
  std::string second_moment(const Moments& x, const std::string& noise) {
    const Expr mean = element(x.mean, 2);
    const Expr sigma = tensor_access(noise, {Symbol::axis(1)});
    builder_.define("loss.second_moment", {NetworkBuilder::dim("S"), NetworkBuilder::width(last_layer())},
                    element("variance", 2) - sigma * sigma + mean * mean);
    return "loss.second_moment";
  }

  /// Weights the penalty on small noise, one term for each layer.
  void penalise(std::vector<Expr>& terms) {
    if (options_.penalty == 0 || layers_.noises().empty()) return;
    builder_.define("penalty.weight", {}, options_.penalty);
    builder_.define("penalty.scale", {}, options_.penalty_scale);
    for (const std::string& noise : layers_.noises()) {
      builder_.apply("gpn.penalty_noise",
                     {noise + ".", {{"noise", noise}, {"alpha_S", "penalty.weight"}, {"beta_S", "penalty.scale"}}});
      terms.push_back(element(noise + ".penalty", 0));
    }
  }

  /// The divergence of the posterior from the prior, of all layers.
  void diverge(std::vector<Expr>& terms) {
    Expr kl = 0;
    for (const Divergence& layer : layers_.divergences())
      kl = kl + element(layer.tensor, 0) / Expr(static_cast<double>(layer.sharers));
    if (layers_.divergences().empty()) return;
    builder_.define("kl", {}, kl, true);
    builder_.parameter("kl_weight", {}, {Kind::Constant, 1}, false);
    terms.push_back(element("kl_weight", 0) * element("kl", 0));
  }

  void total_loss() {
    std::vector<Expr> terms = {element("loss.loss", 0)};
    penalise(terms);
    diverge(terms);
    builder_.define("loss", {}, terms.size() == 1 ? terms[0] : call("+", std::move(terms)), true);
  }

  const GpnOptions& options_;
  bool training_;
  NetworkBuilder builder_;
  GpnLayers layers_;
};

/// The learned activation functions of all layers, at the activations x[S,1].
Program functions(GpnOptions options) {
  const std::size_t layers = options.sizes.size() - (options.task == Task::Classification ? 2 : 1);
  options.sizes[0] = 1;
  NetworkBuilder builder("gpn_functions", options.sizes, false);
  GpnLayers described(options, builder);
  for (std::size_t layer = 1; layer <= layers; ++layer) described.describe(layer, "x");
  return builder.program();
}

/// What predicts where draws are propagated in training.
GpnOptions predicting(GpnOptions options) {
  if (options.propagate == Propagate::Sample) options.propagate = Propagate::Variance;
  return options;
}

/// Weighted by variances, a loss says little about the likelihood that it is to improve: validation compares that.
Program validation(GpnOptions options) {
  const bool regresses = options.task == Task::Regression && options.propagate != Propagate::Mean;
  if (!regresses || options.likelihood != GpnOptions::Likelihood::BetaPredictive) return {};
  options.likelihood = GpnOptions::Likelihood::Predictive;
  return GpnBuilder(options, true).build().program();
}

std::vector<Jitter> jitter(const GpnOptions& options, const Program& train) {
  std::vector<Jitter> all;
  if (options.inference != GpnOptions::Inference::MaximumLikelihood)
    all.push_back({"the prior covariance of the targets", options.jitter});
  if (train.find_definition(kRelativeJitter))
    all.push_back({"the covariance behind the loss, relative to its mean variance", kCovarianceJitter});
  return all;
}

}  // namespace

Network gpn_network(const GpnOptions& options) {
  check(options);
  const NetworkBuilder train = GpnBuilder(options, true).build();
  const GpnOptions prediction = predicting(options);
  return {train.program(),
          GpnBuilder(prediction, false).build().program(),
          train.parameters(),
          functions(prediction),
          jitter(options, train.program()),
          validation(options)};
}

}  // namespace moxie
