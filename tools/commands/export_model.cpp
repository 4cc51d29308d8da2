#include "tools/commands/export_model.h"

#include "compiler/ir/builder.h"
#include "ops/compose.h"

namespace moxie {
namespace {

/// The definitions of the network in the exported formula.
constexpr const char* kPrefix = "network.";

HostTensor column(const std::vector<double>& values) {
  return make_host_tensor(DType::f32, {static_cast<std::int64_t>(values.size())}, values);
}

/// Categories are features of their own, which are 0 or 1 as they are.
void add_scaling(NamedTensors& weights, const Encoding& encoding) {
  std::vector<double> offset, scale;
  for (const FeatureEncoding& feature : encoding.features) {
    const bool numeric = feature.kind == ColumnKind::Numeric;
    for (std::size_t k = 0; k < feature.width(); ++k) {
      offset.push_back(numeric && k == 0 ? feature.numeric.offset : 0);
      scale.push_back(numeric && k == 0 ? feature.numeric.scale : 1);
    }
  }
  weights["feature_offset"] = column(offset);
  weights["feature_scale"] = column(scale);
}

void add_targets(NamedTensors& weights, const SavedModel& model) {
  std::vector<double> mean, sd;
  for (const TargetEncoding& target : model.encoding.targets) {
    mean.push_back(target.mean);
    sd.push_back(target.sd);
  }
  weights["target_mean"] = column(mean);
  weights["target_sd"] = column(sd);
  weights["variance_scale"] = make_host_tensor(DType::f32, {}, std::vector<double>{model.variance_scale});
}

Tensor declare(Program& program, const std::string& name, const HostTensor& tensor, SignDomain sign = SignDomain::Any) {
  std::vector<Expr> shape;
  for (const std::int64_t extent : tensor.shape) shape.push_back(constant(static_cast<double>(extent)));
  return program.input(name, shape, sign, tensor.dtype);
}

class Exporter {
 public:
  explicit Exporter(const SavedModel& model)
      : model_(model),
        network_(make_network(model.config, model.encoding)),
        program_("model"),
        S_(program_.dim("S", dynamic)),
        s_(S_),
        o_(constant(static_cast<double>(model.encoding.target_count()))) {}

  ExportedModel run() {
    add_scaling(weights_, model_.encoding);
    include_network();
    const bool classes = model_.encoding.task == Task::Classification;
    if (classes)
      program_.output("probability", {s_, o_}, of_network("probability"));
    else
      add_values();
    std::vector<std::string> outputs = model_.encoding.classes;
    for (const TargetEncoding& target : model_.encoding.targets) outputs.push_back(target.column);
    return {std::move(program_), std::move(weights_), model_.encoding.feature_names(), std::move(outputs)};
  }

 private:
  void include_network() {
    const Expr columns = constant(static_cast<double>(model_.encoding.feature_count()));
    const Index d(columns);
    const Tensor features = program_.input("features", {S_, columns});
    const Tensor offset = declare(program_, "feature_offset", weights_.at("feature_offset"));
    const Tensor scale = declare(program_, "feature_scale", weights_.at("feature_scale"));
    program_.let("x", {s_, d}, (features(s_, d) - offset(d)) * scale(d));
    Inclusion how{kPrefix, {{"x", "x"}}};
    for (const InputDecl& input : network_.predict.inputs) {
      if (input.name == "x") continue;
      weights_[input.name] = model_.parameters.at(input.name);
      declare(program_, input.name, weights_.at(input.name), input.sign);
      how.inputs.emplace(input.name, input.name);
    }
    include(program_, network_.predict, how);
  }

  Expr of_network(const std::string& output) const { return Tensor(kPrefix + output, 2)(s_, o_); }

  void add_values() {
    add_targets(weights_, model_);
    const Tensor mean = declare(program_, "target_mean", weights_.at("target_mean"));
    const Tensor sd = declare(program_, "target_sd", weights_.at("target_sd"));
    const Tensor variance_scale = declare(program_, "variance_scale", weights_.at("variance_scale"));
    program_.output("mean", {s_, o_}, of_network("mean") * sd(o_) + mean(o_));
    const bool knows_variance = network_.predict.find_definition("variance") != nullptr;
    const Expr variance = knows_variance ? of_network("variance") * variance_scale : Expr(variance_scale);
    program_.output("variance", {s_, o_}, variance * sq(sd(o_)));
  }

  const SavedModel& model_;
  const Network network_;
  Program program_;
  const Dim S_;
  const Index s_, o_;
  NamedTensors weights_;
};

}  // namespace

ExportedModel exported(const SavedModel& model) { return Exporter(model).run(); }

}  // namespace moxie
