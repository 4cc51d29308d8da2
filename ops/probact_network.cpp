#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>

#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "ops/network_builder.h"

namespace moxie {
namespace {

using Kind = Initialiser::Kind;
using Architecture = ProbActOptions::Architecture;
using SigmaSharing = ProbActOptions::Sharing;
using Evaluation = ProbActOptions::Evaluation;

constexpr double kMomentum = 0.9, kEpsilon = 1e-5;  // of batch normalisation

/// A step on the way from the inputs to the read-out.
struct Stage {
  enum class Kind : std::uint8_t {
    Hidden,                 // a dense layer with its activation
    Embedding,              // words become vectors
    Convolution,            // with its activation
    NormalisedConvolution,  // with batch normalisation before it, of images
    Pool,                   // of images
    MaxOverTime             // of texts
  };
  Kind kind = Kind::Hidden;
  std::int64_t units = 0;  // or channels that it leaves
};
using Step = Stage::Kind;

constexpr Stage normalised(std::int64_t channels) { return {Step::NormalisedConvolution, channels}; }
constexpr Stage kPool = {Step::Pool};

constexpr std::array kVggSmall = {normalised(32), kPool, normalised(64), kPool, normalised(128)};
constexpr std::array kVgg16 = {
    normalised(64),  normalised(64),  kPool,           normalised(128), normalised(128), kPool,
    normalised(256), normalised(256), normalised(256), kPool,           normalised(512), normalised(512),
    normalised(512), kPool,           normalised(512), normalised(512), normalised(512), kPool};
constexpr std::array<Stage, 4> kTextCnn = {
    {{Step::Embedding, 32}, {Step::Convolution, 64}, {Step::Convolution, 64}, {Step::MaxOverTime}}};

std::vector<Stage> stages(const ProbActOptions& options) {
  switch (options.architecture) {
    case Architecture::VggSmall:
      return {kVggSmall.begin(), kVggSmall.end()};
    case Architecture::Vgg16:
      return {kVgg16.begin(), kVgg16.end()};
    case Architecture::TextCnn:
      return {kTextCnn.begin(), kTextCnn.end()};
    case Architecture::Dense:
      break;
  }
  std::vector<Stage> hidden;
  for (std::size_t layer = 1; layer + 1 < options.sizes.size(); ++layer)
    hidden.push_back({Step::Hidden, options.sizes[layer]});
  return hidden;
}

bool reads_images(Architecture architecture) {
  return architecture == Architecture::VggSmall || architecture == Architecture::Vgg16;
}

void check_image(const ProbActOptions& options) {
  const ProbActOptions::Image& image = options.image;
  const std::int64_t pixels = image.height * image.width * image.channels;
  if (pixels <= 0 || pixels != options.sizes.front()) {
    throw TypeError(
        fmt::format("a convolutional network needs images, but {}x{} pixels of {} channels are not the {} "
                    "inputs of this one; a dense network takes any inputs",
                    image.height, image.width, image.channels, options.sizes.front()));
  }
}

void check_inputs(const ProbActOptions& options) {
  if (options.architecture == Architecture::Dense) return;
  if (reads_images(options.architecture)) check_image(options);
  if (options.architecture == Architecture::TextCnn && options.vocabulary <= 0)
    throw TypeError("the network text-cnn needs the numbers of words, but the inputs of this one are no texts");
  if (options.sizes.size() != 2)
    throw TypeError("a convolutional network has layers of its own; hidden layers are for dense networks");
}

void check_sigma(const ProbActOptions& options) {
  if (!options.noise) {
    if (options.sigma_bound == 0) return;
    throw TypeError("plain activations have no sigma that could be bounded: leave the bound at 0, or train sigma");
  }
  if (!std::isfinite(options.sigma_start) || (options.sigma == SigmaSharing::Fixed && !(options.sigma_start > 0)))
    throw TypeError(
        fmt::format("the fixed sigma of a ProbAct network is {}, but must be positive; leave the noise out "
                    "for plain activations",
                    options.sigma_start));
  if (!(options.sigma_bound >= 0) || !std::isfinite(options.sigma_bound))
    throw TypeError(fmt::format("the bound of sigma of a ProbAct network is {}, but must be positive, or 0 for none",
                                options.sigma_bound));
  if (!(options.sigma_slope > 0) || !std::isfinite(options.sigma_slope))
    throw TypeError(fmt::format("the slope beta of a bounded sigma is {}, but must be positive", options.sigma_slope));
  if (options.sigma_bound > 0 && options.sigma == SigmaSharing::Fixed)
    throw TypeError("a fixed sigma has no use for a bound: leave the bound at 0, or train sigma");
}

void check(const ProbActOptions& options) {
  check_sizes("ProbAct network", options.sizes, 2);
  if (options.activation == "softmax" || !find_op("activation." + options.activation)) {
    throw TypeError(fmt::format("unknown activation '{}': `moxie ops` lists the known ones as activation.<activation>",
                                options.activation));
  }
  check_inputs(options);
  check_sigma(options);
  if (options.evaluation == Evaluation::Moments &&
      (options.architecture != Architecture::Dense || options.activation != "relu")) {
    throw TypeError("moments in closed form are known for dense rectifiers only; evaluate by sample, mean or ensemble");
  }
}

enum class Purpose : std::uint8_t { Train, Validate, Predict };

class ProbActBuilder {
 public:
  ProbActBuilder(const ProbActOptions& options, Purpose purpose)
      : options_(options),
        purpose_(purpose),
        builder_(name(), row_shape(options), {options.sizes.back()}, has_loss(), x_domain(options)) {
    for (const std::int64_t extent : row_shape(options)) shape_.emplace_back(extent);
  }

  struct Built {
    NetworkBuilder network;
    Renewals renewals;
  };
  Built build() && {
    if (by_moments()) builder_.define(variance_, {Symbol::dim("S"), shape_.front()}, 0);
    for (const Stage& stage : stages(options_)) add(stage);
    prefix_ = "readout.";
    linear(options_.sizes.back());
    finish();
    return {std::move(builder_), std::move(renewals_)};
  }

 private:
  static std::vector<std::int64_t> row_shape(const ProbActOptions& o) {
    if (reads_images(o.architecture)) return {o.image.height, o.image.width, o.image.channels};
    return {o.sizes.front()};
  }
  static ValueDomain x_domain(const ProbActOptions& o) {
    return o.architecture == Architecture::TextCnn ? ValueDomain::NonNegative : ValueDomain::Any;
  }

  const char* name() const {
    return purpose_ == Purpose::Train      ? "probact_train"
           : purpose_ == Purpose::Validate ? "probact_validate"
                                           : "probact_predict";
  }
  bool has_loss() const { return purpose_ != Purpose::Predict; }
  bool classifies() const { return options_.task == Task::Classification; }
  bool by_moments() const { return purpose_ != Purpose::Train && options_.evaluation == Evaluation::Moments; }
  bool draws() const {
    return options_.noise && (purpose_ == Purpose::Train || options_.evaluation == Evaluation::Sample);
  }

  // ---- Layers: each takes the tensor `x_` (and `variance_`) of a sample's `shape_` and leaves its own there. ----

  std::vector<Affine> samples(std::vector<Affine> shape) const {
    shape.insert(shape.begin(), Symbol::dim("S"));
    return shape;
  }

  void add(const Stage& stage) {
    switch (stage.kind) {
      case Step::Hidden:
        start_layer();
        linear(stage.units);
        return activate();
      case Step::Embedding:
        return embed(stage.units);
      case Step::Convolution:
      case Step::NormalisedConvolution:
        start_layer();
        convolve(stage.units);
        if (stage.kind == Step::NormalisedConvolution) normalise();
        return activate();
      case Step::Pool:
        return pool();
      case Step::MaxOverTime:
        return take_largest();
    }
  }

  void start_layer() { prefix_ = fmt::format("layer{}.", ++layer_); }

  void embed(std::int64_t channels) {
    builder_.parameter("embedding.E", {options_.vocabulary, channels}, Initialiser::normal(1));
    builder_.define_integers("embedding.word", samples(shape_), element(x_, 2));
    builder_.apply("text.embedding", {"embedding.", {{"x", "embedding.word"}, {"E", "embedding.E"}}});
    x_ = "embedding.y";
    shape_.emplace_back(channels);
  }

  /// Filters have the same side along every axis of the maps or sequences.
  void convolve(std::int64_t channels) {
    constexpr std::int64_t kSide = 3;
    std::vector<Affine> filter(shape_.size() - 1, kSide);
    filter.insert(filter.end(), {shape_.back(), channels});
    builder_.parameter(prefix_ + "F", filter, {Kind::He});
    builder_.parameter(prefix_ + "b", {channels}, {Kind::Constant, 0});
    shape_.back() = channels;
    apply(reads_images(options_.architecture) ? "image.convolution" : "text.convolution",
          {{"x", x_}, {"F", prefix_ + "F"}, {"b", prefix_ + "b"}}, "y");
  }

  void normalise() {
    Inclusion how{prefix_ + "norm.", {{"x", x_}, {"epsilon", constant("epsilon", kEpsilon)}}};
    const auto bind = [&](const char* name, double start, bool trainable) {
      builder_.parameter(prefix_ + name, {shape_.back()}, {Kind::Constant, start}, trainable);
      how.inputs[name] = prefix_ + name;
    };
    bind("gain", 1, true);
    bind("offset", 0, true);
    bind("running_mean", 0, false);
    bind("running_variance", 1, false);
    x_ = how.prefix + "y";
    if (purpose_ != Purpose::Train) return builder_.apply("image.batch_norm_predict", how);
    how.inputs["momentum"] = constant("momentum", kMomentum);
    for (const std::string name : {"running_mean", "running_variance"}) {
      how.outputs["new_" + name] = "new." + prefix_ + name;
      renewals_.emplace_back("new." + prefix_ + name, prefix_ + name);
    }
    builder_.apply("image.batch_norm", how);
  }

  /// Leaves maps alone whose sides are odd.
  void pool() {
    const std::int64_t height = shape_[0].constant(), width = shape_[1].constant();
    if (height % 2 != 0 || width % 2 != 0) return;
    shape_[0] = height / 2;
    shape_[1] = width / 2;
    const Inclusion how{prefix_ + "pool.", {{"x", x_}}, {{"H", shape_[0]}, {"W", shape_[1]}}};
    builder_.apply("image.max_pool", how);
    x_ = how.prefix + "y";
  }

  void take_largest() {
    builder_.apply("text.max_over_time", {prefix_ + "pool.", {{"x", x_}}});
    x_ = prefix_ + "pool.y";
    shape_ = {shape_.back()};
  }

  void linear(std::int64_t units) {
    const bool maps = shape_.size() > 1;
    std::vector<Affine> weights = shape_;
    weights.emplace_back(units);
    const std::string matrix = prefix_ + (maps ? "F" : "W");
    builder_.parameter(matrix, weights, {maps ? Kind::He : Kind::Glorot});
    builder_.parameter(prefix_ + "b", {units}, {Kind::Constant, 0});
    shape_ = {units};
    if (by_moments()) return linear_moments(matrix);
    apply(maps ? "image.dense" : "dense.identity", {{"x", x_}, {maps ? "F" : "W", matrix}, {"b", prefix_ + "b"}},
          maps ? "y" : "a");
  }

  void linear_moments(const std::string& matrix) {
    builder_.apply("gpn.activation_variance", {prefix_, {{"mean_x", x_}, {"var_x", variance_}, {"W", matrix}}});
    x_ = prefix_ + "z";
    variance_ = prefix_ + "var";
    builder_.define(x_, samples(shape_), element(prefix_ + "mu", 2) + shared_element(prefix_ + "b", 1));
  }

  // ---- Activations ----

  void activate() {
    const std::string slope = per_element("slope", options_.mean, {Kind::Constant, 1});
    const std::string offset = per_element("shift", options_.mean, {Kind::Constant, 0});
    if (by_moments()) return activate_moments(slope, offset);
    Inputs inputs = {{"z", x_}};
    if (options_.activation == "prelu")
      inputs["leak"] = per_element("leak", SigmaSharing::Channel, {Kind::Constant, 0.25});
    apply_pointwise("activation." + options_.activation, "activation.", std::move(inputs), "a");
    if (options_.mean != SigmaSharing::Fixed)
      apply_pointwise("probact.affine_mean", "mean.", {{"a", x_}, {"slope", slope}, {"offset", offset}}, "mean");
    if (draws()) apply_pointwise("probact.noise", "noisy.", {{"mean", x_}, {"sigma", deviation()}}, "y");
  }

  void activate_moments(const std::string& slope, const std::string& offset) {
    const std::string none = prefix_ + "none";
    builder_.define(none, shape_, 0);
    builder_.apply("probact.moments", {prefix_ + "rectifier.", {{"mu", x_}, {"var", variance_}, {"sigma", none}}});
    builder_.apply("probact.affine_moments", {prefix_ + "out.",
                                              {{"mu", prefix_ + "rectifier.mean"},
                                               {"var", prefix_ + "rectifier.variance"},
                                               {"slope", slope},
                                               {"offset", offset},
                                               {"sigma", options_.noise ? deviation() : none}}});
    x_ = prefix_ + "out.mean";
    variance_ = prefix_ + "out.variance";
  }

  /// The tensor of standard deviations.
  std::string deviation() {
    if (options_.sigma_bound == 0) return per_element("sigma", options_.sigma, sigma_start());
    const std::string alpha = constant("alpha", options_.sigma_bound), beta = constant("beta", options_.sigma_slope);
    const std::string k = per_element("k", options_.sigma, sigma_start());
    builder_.apply_pointwise("probact.bounded_sigma", shape_,
                             {prefix_ + "bounded.", {{"k", k}, {"alpha", alpha}, {"beta", beta}}});
    return prefix_ + "bounded.sigma";
  }

  Initialiser sigma_start() const {
    if (options_.sigma == SigmaSharing::Element) return {Kind::Glorot};
    return {Kind::Constant, options_.sigma_start};
  }

  /// A tensor of a value for every element of a layer: of a new parameter, or of its fixed start.
  std::string per_element(const std::string& name, SigmaSharing sharing, const Initialiser& start) {
    const std::string tensor = prefix_ + name;
    const std::string spread = tensor + ".each";
    switch (sharing) {
      case SigmaSharing::Element:
        builder_.parameter(tensor, shape_, start);
        return tensor;
      case SigmaSharing::Fixed:
        builder_.define(spread, shape_, start.low);
        return spread;
      case SigmaSharing::Single:
        builder_.parameter(tensor, {}, start);
        builder_.define(spread, shape_, element(tensor, 0));
        return spread;
      case SigmaSharing::Channel:
        builder_.parameter(tensor, {shape_.back()}, start);
        builder_.define(spread, shape_, shared_element(tensor, shape_.size() - 1));
        return spread;
    }
    throw InternalError("parameters are shared in an unknown way");
  }

  /// An element of a vector, by the axis `axis` of the definition around it.
  static Expr shared_element(const std::string& vector, std::size_t axis) {
    return tensor_access(vector, {Symbol::axis(static_cast<std::uint32_t>(axis))});
  }

  // ---- Ends ----

  void finish() {
    if (by_moments()) return finish_moments();
    const char* result = classifies() ? "logit_mean" : "mean";
    builder_.define(result, samples(shape_), element(x_, 2), true);
    if (has_loss()) {
      builder_.apply(
          classifies() ? "loss.softmax_cross_entropy" : "loss.squared_error",
          {"loss.", {{classifies() ? "logits" : "prediction", result}, {"target", "target"}}, {}, {{"loss", "loss"}}});
    } else if (classifies()) {
      builder_.apply("activation.softmax", {"readout.", {{"logits", result}}, {}, {{"probability", "probability"}}});
    }
  }

  void finish_moments() {
    builder_.define(classifies() ? "logit_mean" : "mean", samples(shape_), element(x_, 2), true);
    builder_.define(classifies() ? "logit_var" : "variance", samples(shape_), element(variance_, 2), true);
    if (has_loss()) {
      if (classifies())
        builder_.apply("gpn.loss_unscented_diag",
                       {"loss.", {{"mu", x_}, {"var", variance_}, {"target", "target"}}, {}, {{"loss", "loss"}}});
      else
        builder_.apply("loss.squared_error",
                       {"loss.", {{"prediction", x_}, {"target", "target"}}, {}, {{"loss", "loss"}}});
    } else if (classifies()) {
      builder_.apply("gpn.class_probability",
                     {"readout.", {{"mu", x_}, {"var", variance_}}, {}, {{"probability", "probability"}}});
    }
  }

  // ---- Helpers ----

  using Inputs = std::map<std::string, std::string, std::less<>>;

  void apply(std::string_view op, Inputs inputs, const char* result) {
    builder_.apply(op, {prefix_ + "linear.", std::move(inputs)});
    x_ = prefix_ + "linear." + result;
  }

  void apply_pointwise(std::string_view op, const char* part, Inputs inputs, const char* result) {
    const std::string prefix = prefix_ + part;
    builder_.apply_pointwise(op, shape_, {prefix, std::move(inputs)});
    x_ = prefix + result;
  }

  std::string constant(const std::string& name, double value) {
    builder_.define(prefix_ + name, {}, value);
    return prefix_ + name;
  }

  const ProbActOptions& options_;
  Purpose purpose_;
  NetworkBuilder builder_;
  std::vector<Affine> shape_;  // of a sample
  std::string prefix_, x_ = "x", variance_ = "x_variance";
  int layer_ = 0;
  Renewals renewals_;
};

}  // namespace

Network probact_network(const ProbActOptions& options) {
  check(options);
  const auto build = [&](Purpose purpose) { return ProbActBuilder(options, purpose).build(); };
  const ProbActBuilder::Built train = build(Purpose::Train);
  Network network{train.network.program(), build(Purpose::Predict).network.program(), train.network.parameters()};
  network.validate = build(Purpose::Validate).network.program();
  network.renewals = train.renewals;
  return network;
}

}  // namespace moxie
