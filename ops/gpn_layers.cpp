#include "ops/gpn_layers.h"

#include <fmt/format.h>

#include <cmath>

#include "compiler/builder/builder.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"

namespace moxie {
namespace {

using Kind = Initialiser::Kind;
using Covariance = GpnOptions::Covariance;
using Propagate = GpnOptions::Propagate;
using Sharing = GpnOptions::Sharing;

/// The name that tensor `name` of an included operation has afterwards.
std::string included(const Inclusion& how, const std::string& name) {
  const auto output = how.outputs.find(name);
  return output == how.outputs.end() ? how.prefix + name : output->second;
}

/// stored[.., unit / size, ..]: the set of which `unit` is a member.
Expr member_of_set(const std::string& stored, std::vector<Affine> subscripts, std::size_t unit, std::int64_t sets,
                   std::int64_t size) {
  const Symbol set = Symbol::fresh();
  const Expr member = index_value(subscripts[unit]);
  subscripts[unit] = set;
  const Condition inside =
      index_value(Affine(set) * size) <= member && member < index_value(Affine(set) * size + Affine(size));
  return reduce(ReduceKind::Sum, set, Range::extent(sets), where(inside, tensor_access(stored, subscripts), 0));
}

}  // namespace

/// An operation that turns activations into responses: the inputs that the activations' moments are bound to, and the
/// tensor that holds the responses' spread. Names may be empty.
struct GpnLayers::Response {
  std::string op, mean, spread, result;
};

GpnLayers::GpnLayers(const GpnOptions& options, NetworkBuilder& builder) : options_(options), builder_(builder) {
  builder_.declare_dim("R", options.inducing_points);
  for (const char* index : {"r", "t"}) builder_.declare_index(index, NetworkBuilder::dim("R"));
}

std::string GpnLayers::prefix(std::size_t layer) { return fmt::format("layer{}.", layer); }

// ---- Moments ----

Moments GpnLayers::input() {
  Moments x{"x", ""};
  if (options_.input_variance.empty()) return x;
  const Affine width = NetworkBuilder::width(0);
  std::vector<double> values = options_.input_variance;
  if (values.size() == 1) values.resize(static_cast<std::size_t>(units(0)), values[0]);
  builder_.parameter("x.feature_variance", {width}, {Kind::Values, 0, 0, std::move(values)}, false);
  x.spread = "x.variance";
  builder_.define(x.spread, {NetworkBuilder::dim("S"), width}, tensor_access("x.feature_variance", {Symbol::axis(1)}));
  draw(x);
  return x;
}

/// Where samples are propagated: a draw instead of moments.
void GpnLayers::draw(Moments& x) {
  if (options_.propagate != Propagate::Sample || x.spread.empty()) return;
  const std::string prefix = x.mean + ".draw.";
  builder_.apply("gpn.sample", {prefix, {{"mean", x.mean}, {"variance", x.spread}}});
  x = {prefix + "x", ""};
}

Moments GpnLayers::activate(const std::string& p, std::size_t from, std::size_t to, Moments x) {
  builder_.parameter(p + "W", {NetworkBuilder::width(from), NetworkBuilder::width(to)}, {Kind::Glorot});
  draw(x);
  Inclusion how{p, {{"mean_x", x.mean}, {"W", p + "W"}}};
  if (x.spread.empty()) {
    builder_.apply("gpn.activation_mean", how);
    return {p + "mu", ""};
  }
  how.inputs[x.full ? "cov_x" : "var_x"] = x.spread;
  if (options_.propagate != Propagate::Covariance) {
    builder_.apply("gpn.activation_variance", how);
    return {p + "mu", p + "var"};
  }
  builder_.apply(x.full ? "gpn.activation_covariance" : "gpn.activation_covariance_diag", how);
  return {p + "mu", p + "cov", true};
}

/// Activations `a` of a layer that also sees the network's input, which is taken as independent of them.
Moments GpnLayers::with_input(const std::string& p, std::size_t layer, const Moments& a) {
  const Moments direct = activate(p + "input.", 0, layer, input_);
  const std::vector<Affine> shape = {NetworkBuilder::dim("S"), NetworkBuilder::width(layer)};
  Moments sum{p + "input.sum", a.spread, a.full};
  builder_.define(sum.mean, shape, element(a.mean, 2) + element(direct.mean, 2));
  if (direct.spread.empty()) return sum;
  sum.spread = p + "input.spread";
  builder_.define(sum.spread, builder_.program().shape_of(a.spread),
                  element(a.spread, a.full ? 3 : 2) + element(direct.spread, a.full ? 3 : 2));
  return sum;
}

Moments GpnLayers::add(std::size_t layer, const Moments& x, Names outputs) {
  if (layer == 1) input_ = x;
  Moments a = activate(prefix(layer), layer - 1, layer, x);
  if (options_.input_connected && layer > 1) a = with_input(prefix(layer), layer, a);
  return respond(layer, a, response(a), std::move(outputs));
}

void GpnLayers::describe(std::size_t layer, const std::string& a) {
  const std::string p = prefix(layer);
  const std::vector<Affine> shape = {NetworkBuilder::dim("S"), NetworkBuilder::width(layer)};
  builder_.define(p + "a", shape, tensor_access(a, {Symbol::axis(0), 0}));
  respond(layer, {p + "a", ""}, {"gpn.first_layer", "a", "", "spread"},
          {{"mean", p + "mean"}, {"spread", p + "spread"}});
  builder_.define(p + "points", per_point(layer), element(observations_.points, 2), true);
  builder_.define(p + "targets", per_point(layer), element(observations_.targets, 2), true);
  builder_.define(p + "target_variance", per_point(layer), element(observations_.variance, 2), true);
}

// ---- Responses ----

/// The operation for activations with the moments `a`.
GpnLayers::Response GpnLayers::response(const Moments& a) const {
  if (options_.propagate == Propagate::Mean) return {"gpn.layer_mean", "a", "", ""};
  if (a.spread.empty()) return {"gpn.first_layer", "a", "", "variance"};
  if (a.full) return {"gpn.response_covariance", "mu", "cov", "covariance"};
  return {"gpn.response_variance", "mu", "var", "variance"};
}

Moments GpnLayers::respond(std::size_t layer, const Moments& a, const Response& response, Names outputs) {
  const bool equispaced = !options_.train_points && !(a.full && options_.covariance != Covariance::Equispaced);
  const bool series = a.full && options_.covariance == Covariance::Series;
  const Program op = load_op(response.op + (equispaced ? "_equispaced" : series ? "_series" : ""));
  Inclusion how{prefix(layer), {{response.mean, a.mean}}, {}, std::move(outputs)};
  if (!response.spread.empty()) how.inputs[response.spread] = a.spread;
  if (series) {
    how.dims["J"] = options_.series_terms;
    how.outputs["error_bound"] = how.prefix + "error_bound";
  }
  how.inputs["lambda"] = per_unit(how.prefix, "lambda", layer, options_.lambda, options_.train_lambda);
  if (op.find_input("sigma")) how.inputs["sigma"] = noise_of_units(how.prefix, layer);
  bind_points(how, layer, equispaced);
  if (variational()) {
    bind_posterior(how, layer, op);
  } else {
    bind_parameters(how, layer);
  }
  builder_.apply(op, how);
  return {included(how, "mean"), response.result.empty() ? "" : included(how, response.result), a.full};
}

// ---- Virtual observations ----

std::int64_t GpnLayers::sets(std::size_t layer) const {
  // The outputs of regression are not alike, as the units of a hidden layer are.
  const bool output = layer + 1 == options_.sizes.size();
  if (options_.sharing == Sharing::Layer) return 1;
  return options_.sharing == Sharing::Group && !output ? options_.groups : units(layer);
}

/// Declares parameter `stored` for every set of virtual observations, of the given shape but for its axis `unit`, which
/// has one element for each set. Gives the name of a tensor of `transform` of it for every unit.
std::string GpnLayers::per_set(const std::string& name, const std::string& stored, std::vector<Affine> shape,
                               std::size_t unit, std::size_t layer, const Initialiser& start, bool trainable,
                               const std::function<Expr(const Expr&)>& transform) {
  const std::int64_t sets = this->sets(layer);
  const std::vector<Affine> full = shape;
  std::vector<Affine> subscripts;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    subscripts.emplace_back(Symbol::axis(static_cast<std::uint32_t>(axis)));
  Expr value;
  if (sets == units(layer)) {
    value = tensor_access(stored, subscripts);
  } else if (sets == 1) {
    const auto at = static_cast<std::ptrdiff_t>(unit);
    shape.erase(shape.begin() + at);
    subscripts.erase(subscripts.begin() + at);
    value = tensor_access(stored, subscripts);
  } else {
    shape[unit] = sets;
    value = member_of_set(stored, subscripts, unit, sets, units(layer) / sets);
  }
  const bool as_it_is = shape == full && !transform;
  builder_.parameter(stored, std::move(shape), start, trainable);
  if (as_it_is) return stored;
  builder_.define(name, full, transform ? transform(value) : value);
  return name;
}

/// A positive parameter of every unit.
std::string GpnLayers::per_unit(const std::string& p, const std::string& name, std::size_t layer, double start,
                                bool trainable) {
  const std::vector<Affine> shape = {NetworkBuilder::width(layer)};
  builder_.parameter(p + "log_" + name, shape, {Kind::Constant, std::log(start)}, trainable);
  builder_.define(p + name, shape, call("exp", {element(p + "log_" + name, 1)}));
  return p + name;
}

/// The standard deviation of the noise of each unit's output, of which a network of means has none.
std::string GpnLayers::noise_of_units(const std::string& p, std::size_t layer) {
  if (options_.propagate != Propagate::Mean) return per_unit(p, "sigma", layer, options_.sigma, options_.train_sigma);
  builder_.define(p + "sigma", {NetworkBuilder::width(layer)}, 0);
  return p + "sigma";
}

void GpnLayers::bind_points(Inclusion& how, std::size_t layer, bool equispaced) {
  const std::string& p = how.prefix;
  const double low = options_.lowest_point;
  const double high = options_.highest_point;
  const std::int64_t intervals = options_.inducing_points - 1;
  if (options_.train_points) {
    observations_.points =
        per_set(p + "unit_V", p + "V", per_point(layer), 1, layer, {Kind::Linspace, low, high}, true);
  } else {
    const double step = intervals > 0 ? (high - low) / static_cast<double>(intervals) : 0;
    builder_.parameter(p + "V0", {NetworkBuilder::width(layer)}, {Kind::Constant, low}, false);
    builder_.parameter(p + "h", {NetworkBuilder::width(layer)}, {Kind::Constant, step}, false);
    builder_.apply("gpn.points", {p, {{"V0", p + "V0"}, {"h", p + "h"}}, {{"R", NetworkBuilder::dim("R")}}});
    observations_.points = p + "V";
  }
  if (equispaced) {
    how.inputs.insert({{"V0", p + "V0"}, {"h", p + "h"}});
  } else {
    how.inputs["V"] = observations_.points;
  }
}

/// Maximum likelihood: the targets are parameters, and so is the variance of their noise.
void GpnLayers::bind_parameters(Inclusion& how, std::size_t layer) {
  const std::string& p = how.prefix;
  const double least = options_.least_noise;
  observations_.targets = per_set(p + "unit_U", p + "U", per_point(layer), 1, layer, targets(), true);
  observations_.variance = per_set(p + "noise", p + "log_noise", per_point(layer), 1, layer,
                                   {Kind::Constant, std::log(options_.noise - least)}, options_.train_noise,
                                   [least](const Expr& log) { return Expr(least) + call("exp", {log}); });
  how.inputs.insert({{"U", observations_.targets}, {"noise", observations_.variance}});
  noises_.push_back(observations_.variance);
}

/// Variational inference: the targets have a posterior, which gives the matrix and weights of the response.
void GpnLayers::bind_posterior(Inclusion& how, std::size_t layer, const Program& op) {
  const std::string& p = how.prefix;
  const std::vector<Affine> matrix = {NetworkBuilder::width(layer), NetworkBuilder::dim("R"), NetworkBuilder::dim("R")};
  const bool random = options_.targets == GpnOptions::Targets::Normal;
  const Initialiser white = random ? Initialiser::normal(1) : Initialiser{Kind::Constant};
  Inclusion posterior{p + "posterior.", {{"V", observations_.points}, {"lambda", how.inputs["lambda"]}}};
  if (!builder_.program().find_definition("jitter")) builder_.define("jitter", {}, options_.jitter);
  posterior.inputs["jitter"] = "jitter";
  builder_.define(p + "centre", per_point(layer), centre());
  posterior.inputs["centre"] = p + "centre";
  posterior.inputs["m"] = per_set(p + "unit_m", p + "m", per_point(layer), 1, layer, white, true);
  posterior.inputs["log_scale"] = per_set(p + "unit_scale", p + "log_scale", per_point(layer), 1, layer,
                                          {Kind::Constant, std::log(options_.posterior_scale)}, true);
  posterior.inputs["lower"] = p + "lower";
  if (options_.inference == GpnOptions::Inference::VariationalFull) {
    posterior.inputs["lower"] = per_set(p + "unit_lower", p + "lower", matrix, 0, layer, {Kind::Constant}, true);
  } else {
    builder_.define(p + "lower", matrix, 0);
  }
  builder_.apply("gpn.vb_whitened", posterior);
  observations_.targets = included(posterior, "mu_u");
  observations_.variance = included(posterior, "var_u");
  for (const auto& [name, replacement] : {std::pair{"kappa", "khat"}, {"beta", "beta"}}) {
    if (op.find_definition(name)) how.inputs[name] = included(posterior, replacement);
  }
  divergences_.push_back({included(posterior, "kl"), units(layer) / sets(layer)});
}

std::vector<Affine> GpnLayers::per_point(std::size_t layer) {
  return {NetworkBuilder::dim("R"), NetworkBuilder::width(layer)};
}

/// How targets that are parameters start.
Initialiser GpnLayers::targets() const {
  if (options_.targets == GpnOptions::Targets::Normal) return Initialiser::normal(1);
  constexpr Kind kKinds[] = {Kind::Normal, Kind::Linspace, Kind::Tanh, Kind::Relu};
  return {kKinds[static_cast<std::size_t>(options_.targets)], options_.lowest_point, options_.highest_point};
}

/// The element of the function around which the posterior of the targets starts.
Expr GpnLayers::centre() const {
  const Expr point = element(observations_.points, 2);
  switch (options_.targets) {
    case GpnOptions::Targets::Normal:
      return 0;
    case GpnOptions::Targets::Identity:
      return point;
    case GpnOptions::Targets::Tanh:
      return call("tanh", {point});
    case GpnOptions::Targets::Relu:
      return call("relu", {point});
  }
  throw InternalError("the targets start in an unknown way");
}

}  // namespace moxie
