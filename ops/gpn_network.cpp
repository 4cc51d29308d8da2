#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "compiler/support/error.h"
#include "ops/network_builder.h"

namespace moxie {
namespace {

using Kind = Initialiser::Kind;
using Propagate = GpnOptions::Propagate;

void check_positive(std::string_view name, double value) {
  if (!(value > 0) || !std::isfinite(value))
    throw TypeError(fmt::format("{} of a GPN network is {}, but must be positive", name, value));
}

void check(const GpnOptions& options) {
  check_sizes("GPN network", options.sizes, options.task == Task::Classification ? 3 : 2);
  check_positive("the number of inducing points", static_cast<double>(options.inducing_points));
  check_positive("the noise", options.noise);
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
  if (!(options.lowest_point <= options.highest_point)) {
    throw TypeError(fmt::format("the inducing points run from {} to {}; give the lower end first", options.lowest_point,
                                options.highest_point));
  }
}

/// The tensors that hold a layer's output; `spread` is a variance or a covariance, and empty if only means are
/// propagated.
struct Moments {
  std::string mean, spread;
  bool full = false;
};

class GpnBuilder {
 public:
  GpnBuilder(const GpnOptions& options, bool training)
      : options_(options),
        training_(training),
        builder_(training ? "gpn_train" : "gpn_predict", options.sizes, training) {
    builder_.declare_dim("R", options.inducing_points);
    for (const char* index : {"r", "t"}) builder_.declare_index(index, NetworkBuilder::dim("R"));
  }

  NetworkBuilder build() && {
    Moments x{"x", ""};
    for (std::size_t layer = 1; layer <= gpn_layers(); ++layer) x = gpn_layer(layer, x);
    if (classifies()) {
      classify(x);
    } else {
      regress(x);
    }
    if (training_) total_loss();
    return std::move(builder_);
  }

 private:
  bool classifies() const { return options_.task == Task::Classification; }
  std::size_t gpn_layers() const { return options_.sizes.size() - (classifies() ? 2 : 1); }
  static std::string prefix(std::size_t layer) { return fmt::format("layer{}.", layer); }

  // ---- Parameters ----

  void weights(const std::string& p, std::size_t layer) {
    builder_.parameter(p + "W", {NetworkBuilder::width(layer - 1), NetworkBuilder::width(layer)}, {Kind::Glorot});
  }

  using Transform = std::function<Expr(const Expr&)>;

  /// A parameter of every inducing point: [R,N], or [R] in a layer that shares its points, and then repeated for every
  /// unit. Gives the name of a tensor [R,N] of `transform` of it.
  std::string per_point(const std::string& name, const std::string& stored, std::size_t layer, Initialiser initialiser,
                        const Transform& transform = {}) {
    const bool shared = options_.sharing == GpnOptions::Sharing::Layer;
    const std::vector<Affine> shape = {NetworkBuilder::dim("R"), NetworkBuilder::width(layer)};
    builder_.parameter(stored, shared ? std::vector<Affine>{shape[0]} : shape, initialiser);
    const Expr value = element(stored, shared ? 1 : 2);
    if (!shared && !transform) return stored;
    builder_.define(name, shape, transform ? transform(value) : value);
    return name;
  }

  std::string exp_per_unit(const std::string& p, const std::string& name, std::size_t layer, double start,
                           bool trainable) {
    const std::vector<Affine> shape = {NetworkBuilder::width(layer)};
    builder_.parameter(p + "log_" + name, shape, {Kind::Constant, std::log(start)}, trainable);
    builder_.define(p + name, shape, call("exp", {element(p + "log_" + name, 1)}));
    return p + name;
  }

  void bind_points(Inclusion& how, std::size_t layer) {
    const std::string& p = how.prefix;
    const double low = options_.lowest_point;
    const double high = options_.highest_point;
    if (options_.train_points) {
      how.inputs["V"] = per_point(p + "points", p + "V", layer, {Kind::Linspace, low, high});
      return;
    }
    const double step =
        options_.inducing_points > 1 ? (high - low) / static_cast<double>(options_.inducing_points - 1) : 0;
    builder_.parameter(p + "V0", {NetworkBuilder::width(layer)}, {Kind::Constant, low}, false);
    builder_.parameter(p + "h", {NetworkBuilder::width(layer)}, {Kind::Constant, step}, false);
    how.inputs["V0"] = p + "V0";
    how.inputs["h"] = p + "h";
  }

  /// Declares what a layer's virtual observations need, and binds it to the inputs of the operation that uses them.
  void bind_observations(Inclusion& how, std::size_t layer) {
    const std::string& p = how.prefix;
    bind_points(how, layer);
    const bool identity = options_.targets == GpnOptions::Targets::Identity;
    const Initialiser start = identity ? Initialiser{Kind::Linspace, options_.lowest_point, options_.highest_point}
                                       : Initialiser{Kind::Normal};
    how.inputs["U"] = per_point(p + "targets", p + "U", layer, start);
    how.inputs["noise"] = per_point(p + "noise", p + "log_noise", layer,
                                    {Kind::Constant, std::log(options_.noise - options_.least_noise)},
                                    [&](const Expr& log) { return Expr(options_.least_noise) + call("exp", {log}); });
    how.inputs["lambda"] = exp_per_unit(p, "lambda", layer, options_.lambda, options_.train_lambda);
    if (options_.propagate != Propagate::Mean)
      how.inputs["sigma"] = exp_per_unit(p, "sigma", layer, options_.sigma, options_.train_sigma);
  }

  // ---- Layers ----

  std::string variant(const std::string& op) const { return options_.train_points ? op : op + "_equispaced"; }

  Moments gpn_layer(std::size_t layer, const Moments& x) {
    const std::string p = prefix(layer);
    weights(p, layer);
    Inclusion how{p, {}};
    if (!classifies() && layer == gpn_layers()) {
      how.outputs["mean"] = "mean";
      if (options_.propagate != Propagate::Mean) how.outputs["variance"] = "variance";
    }
    bind_observations(how, layer);
    if (options_.propagate == Propagate::Mean || layer == 1) {
      how.inputs.insert({{"x", x.mean}, {"W", p + "W"}});
      builder_.apply(variant(options_.propagate == Propagate::Mean ? "gpn.layer_mean" : "gpn.first_layer"), how);
    } else {
      respond(how, x);
    }
    penalise(how);
    return moments(how, layer);
  }

  Moments moments(const Inclusion& layer, std::size_t number) const {
    const bool full = options_.propagate == Propagate::Covariance && number > 1;
    const auto name = [&](const std::string& tensor) {
      const auto output = layer.outputs.find(tensor);
      return output == layer.outputs.end() ? layer.prefix + tensor : output->second;
    };
    if (options_.propagate == Propagate::Mean) return {name("mean"), ""};
    return {name("mean"), name(full ? "covariance" : "variance"), full};
  }

  /// Activations with moments, and the response to them.
  void respond(Inclusion how, const Moments& x) {
    const std::string& p = how.prefix;
    activate(p, x, {});
    how.inputs["mu"] = p + "mu";
    if (options_.propagate == Propagate::Covariance) {
      how.inputs["cov"] = p + "cov";
      builder_.apply(variant("gpn.response_covariance"), how);
    } else {
      how.inputs["var"] = p + "var";
      builder_.apply(variant("gpn.response_variance"), how);
    }
  }

  /// The moments of the activations that the weights `p`W make of `x`.
  void activate(const std::string& p, const Moments& x, std::map<std::string, std::string, std::less<>> outputs) {
    Inclusion how{p, {{"mean_x", x.mean}, {"W", p + "W"}}, {}, std::move(outputs)};
    if (x.spread.empty()) {
      builder_.apply("gpn.activation_mean", how);
    } else if (options_.propagate == Propagate::Covariance) {
      how.inputs[x.full ? "cov_x" : "var_x"] = x.spread;
      builder_.apply(x.full ? "gpn.activation_covariance" : "gpn.activation_covariance_diag", how);
    } else {
      how.inputs["var_x"] = x.spread;
      builder_.apply("gpn.activation_variance", how);
    }
  }

  // ---- Read-out and losses ----

  void classify(const Moments& x) {
    const std::size_t last = options_.sizes.size() - 1;
    weights("readout.", last);
    const bool covariance = options_.propagate == Propagate::Covariance;
    std::map<std::string, std::string, std::less<>> outputs = {{"mu", "logit_mean"}};
    if (options_.propagate == Propagate::Variance) outputs["var"] = "logit_var";
    activate("readout.", x, outputs);
    if (covariance) {
      const Affine d = Symbol::axis(1);
      builder_.define("logit_var", {NetworkBuilder::dim("S"), NetworkBuilder::width(last)},
                      tensor_access("readout.cov", {Symbol::axis(0), d, d}), true);
    }
    if (training_) {
      classification_loss(x);
    } else {
      predict_classes();
    }
  }

  void classification_loss(const Moments& x) {
    const bool features = options_.propagate == Propagate::Covariance
                              ? options_.sizes.back() > *(options_.sizes.end() - 2)
                              : options_.sigma_points == GpnOptions::SigmaPoints::Features;
    if (options_.propagate == Propagate::Mean) {
      builder_.apply("loss.softmax_cross_entropy", {"loss.", {{"logits", "logit_mean"}, {"target", "target"}}});
    } else if (features) {
      builder_.apply(
          x.full ? "gpn.loss_unscented_features_full" : "gpn.loss_unscented_features_diag",
          {"loss.",
           {{"mean_x", x.mean}, {x.full ? "cov_x" : "var_x", x.spread}, {"W", "readout.W"}, {"target", "target"}}});
    } else if (options_.propagate == Propagate::Covariance) {
      builder_.apply("gpn.loss_unscented_full",
                     {"loss.", {{"mu", "logit_mean"}, {"cov", "readout.cov"}, {"target", "target"}}});
    } else {
      builder_.apply("gpn.loss_unscented_diag",
                     {"loss.", {{"mu", "logit_mean"}, {"var", "logit_var"}, {"target", "target"}}});
    }
  }

  void predict_classes() {
    if (options_.propagate == Propagate::Mean) {
      builder_.apply("activation.softmax",
                     {"readout.", {{"logits", "logit_mean"}}, {}, {{"probability", "probability"}}});
    } else {
      builder_.apply("gpn.class_probability",
                     {"readout.", {{"mu", "logit_mean"}, {"var", "logit_var"}}, {}, {{"probability", "probability"}}});
    }
  }

  void regress(const Moments& x) {
    if (!training_) return;
    if (options_.propagate == Propagate::Mean) {
      builder_.apply("loss.squared_error", {"loss.", {{"prediction", x.mean}, {"target", "target"}}});
      return;
    }
    const std::string p = prefix(gpn_layers());
    // Not the layer's own second moment: rounding may take that below mean^2, and then training would follow the error.
    const Expr mean = element(x.mean, 2);
    const Expr sigma = tensor_access(p + "sigma", {Symbol::axis(1)});
    builder_.define("loss.second_moment", {NetworkBuilder::dim("S"), NetworkBuilder::width(gpn_layers())},
                    element("variance", 2) - sigma * sigma + mean * mean);
    builder_.apply(
        "gpn.loss_regression",
        {"loss.",
         {{"mean", x.mean}, {"second_moment", "loss.second_moment"}, {"target", "target"}, {"sigma", p + "sigma"}},
         {},
         {{"nll", "loss.loss"}}});
  }

  void penalise(const Inclusion& layer) {
    if (!training_ || options_.penalty == 0) return;
    if (penalties_.empty()) {
      builder_.define("penalty.weight", {}, options_.penalty);
      builder_.define("penalty.scale", {}, options_.penalty_scale);
    }
    builder_.apply(
        "gpn.penalty_noise",
        {layer.prefix,
         {{"noise", layer.inputs.find("noise")->second}, {"alpha_S", "penalty.weight"}, {"beta_S", "penalty.scale"}}});
    penalties_.push_back(layer.prefix + "penalty");
  }

  void total_loss() {
    std::vector<Expr> terms = {element("loss.loss", 0)};
    for (const std::string& penalty : penalties_) terms.push_back(element(penalty, 0));
    builder_.define("loss", {}, terms.size() == 1 ? terms[0] : call("+", std::move(terms)), true);
  }

  const GpnOptions& options_;
  bool training_;
  NetworkBuilder builder_;
  std::vector<std::string> penalties_;
};

}  // namespace

Network gpn_network(const GpnOptions& options) {
  check(options);
  const NetworkBuilder train = GpnBuilder(options, true).build();
  return {train.program(), GpnBuilder(options, false).build().program(), train.parameters()};
}

}  // namespace moxie
