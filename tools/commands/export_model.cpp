#include "tools/commands/export_model.h"

#include "compiler/builder/builder.h"
#include "compiler/program/compose.h"
#include "compiler/support/error.h"

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

/// weights.bin holds numbers of one kind.
HostTensor single_precision(const HostTensor& tensor) {
  return tensor.dtype == DType::f32 ? tensor : make_host_tensor(DType::f32, tensor.shape, to_doubles(tensor));
}

Tensor declare(Program& program, const std::string& name, const HostTensor& tensor,
               ValueDomain domain = ValueDomain::Any) {
  std::vector<Expr> shape;
  for (const std::int64_t extent : tensor.shape) shape.push_back(constant(static_cast<double>(extent)));
  return program.input(name, shape, domain, tensor.dtype);
}

/// Extents of a tensor's axes behind the samples'.
std::vector<std::int64_t> row_of(const Program& network, std::string_view tensor) {
  DimValues dims = {{"S", 1}};
  for (const DimDecl& dim : network.dims) {
    if (dim.value) dims.emplace(dim.name, *dim.value);
  }
  const std::vector<std::int64_t> extents = extents_of(network, tensor, dims);
  return {extents.begin() + 1, extents.end()};
}

/// A sample's axes: frames and pixels, say. The data has them one behind the other.
class FeatureRow {
 public:
  FeatureRow(const Program& network, std::string_view tensor, const Index& s)
      : axes_{s}, extents_(row_of(network, tensor)) {
    for (const std::int64_t extent : extents_) axes_.emplace_back(constant(static_cast<double>(extent)));
  }
  const std::vector<Index>& axes() const { return axes_; }
  const std::vector<std::int64_t>& extents() const { return extents_; }
  Expr of(const Tensor& tensor) const { return tensor.at({axes_.begin(), axes_.end()}); }
  /// Where the element lies in the data.
  Expr column() const {
    Expr result = constant(0);
    for (std::size_t k = 0; k < extents_.size(); ++k)
      result = result * constant(static_cast<double>(extents_[k])) + Expr(axes_[k + 1]);
    return result;
  }

 private:
  std::vector<Index> axes_;            // the samples' first
  std::vector<std::int64_t> extents_;  // of the others
};

class Exporter {
 public:
  explicit Exporter(const SavedModel& model)
      : model_(model),
        network_(make_network(model.config, model.encoding)),
        program_("model"),
        S_(program_.dim("S", dynamic)),
        s_(S_) {}

  ExportedModel run() {
    add_scaling(weights_, model_.encoding);
    include_network();
    const bool classes = model_.encoding.task == Task::Classification;
    const bool has_scores = network_.predict.find_definition(classes ? "probability" : "mean") != nullptr;
    if (has_scores && classes) add_classes();
    if (has_scores && !classes) add_values();
    if (is_own_model(model_.config)) add_others();
    std::vector<std::string> outputs = model_.encoding.classes;
    for (const TargetEncoding& target : model_.encoding.targets) outputs.push_back(target.column);
    return {std::move(program_), std::move(weights_), model_.encoding.feature_names(),
            std::move(outputs),  has_scores,          std::move(others_)};
  }

 private:
  void include_network() {
    const Expr columns = constant(static_cast<double>(model_.encoding.feature_count()));
    const Tensor features = program_.input("features", {S_, columns});
    const Tensor offset = declare(program_, "feature_offset", weights_.at("feature_offset"));
    const Tensor scale = declare(program_, "feature_scale", weights_.at("feature_scale"));
    const FeatureRow row(network_.predict, "x", s_);
    program_.let("x", row.axes(), (features(s_, row.column()) - offset(row.column())) * scale(row.column()),
                 network_.predict.dtype_of("x"));
    Inclusion how{kPrefix, {{"x", "x"}}};
    for (const InputDecl& input : network_.predict.inputs) {
      if (input.name == "x") continue;
      const auto parameter = model_.parameters.find(input.name);
      if (parameter == model_.parameters.end())
        throw DataError("the model has no parameter " + input.name + ": its file is damaged, or of another moxie");
      weights_[input.name] = single_precision(parameter->second);
      declare(program_, input.name, weights_.at(input.name), input.domain);
      how.inputs.emplace(input.name, input.name);
    }
    include(program_, network_.predict, how);
  }

  static Tensor of_network(const char* output, const FeatureRow& row) {
    return {kPrefix + std::string(output), row.axes().size()};
  }

  void add_classes() {
    const FeatureRow row(network_.predict, "probability", s_);
    program_.output("probability", row.axes(), row.of(of_network("probability", row)));
  }

  void add_values() {
    add_targets(weights_, model_);
    const Tensor mean = declare(program_, "target_mean", weights_.at("target_mean"));
    const Tensor sd = declare(program_, "target_sd", weights_.at("target_sd"));
    const Tensor scale = declare(program_, "variance_scale", weights_.at("variance_scale"));
    const FeatureRow row(network_.predict, "mean", s_);
    const Expr o = row.column();
    program_.output("mean", row.axes(), row.of(of_network("mean", row)) * sd(o) + mean(o));
    const bool knows_variance = network_.predict.find_definition("variance") != nullptr;
    const Expr variance = knows_variance ? row.of(of_network("variance", row)) : constant(1);
    program_.output("variance", row.axes(), variance * scale * sq(sd(o)));
  }

  /// What moxie's own networks put out besides are intermediate values.
  void add_others() {
    for (const Definition& definition : network_.predict.definitions) {
      const std::string& name = definition.name;
      if (!definition.output || program_.find_definition(name)) continue;
      const FeatureRow row(network_.predict, name, s_);
      program_.output(name, row.axes(), row.of(of_network(name.c_str(), row)));
      others_.emplace_back(name, element_count(row.extents()));
    }
  }

  const SavedModel& model_;
  const Network network_;
  std::vector<std::pair<std::string, std::int64_t>> others_;
  Program program_;
  const Dim S_;
  const Index s_;
  NamedTensors weights_;
};

}  // namespace

ExportedModel exported(const SavedModel& model) { return Exporter(model).run(); }

}  // namespace moxie
