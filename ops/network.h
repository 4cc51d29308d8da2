#pragma once
// Whole networks, composed of the catalogue's Programs.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/program.h"
#include "ops/task.h"

namespace moxie {

/// How a parameter starts.
struct Initialiser {
  enum class Kind : std::uint8_t {
    Constant,  // `low`
    Linspace,  // equally spaced from `low` to `high` along the first axis
    Normal,    // standard normal
    Glorot,    // uniform in [-r, r], r = sqrt(6 / (rows + columns))
    He         // uniform in [-r, r], r = sqrt(6 / rows), all axes but the last being rows
  };
  Kind kind = Kind::Constant;
  double low = 0;
  double high = 0;
  bool operator==(const Initialiser&) const = default;
};

/// An input that keeps its value from step to step. Those that are not trainable are settings of the model and are
/// saved with it.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  Initialiser initialiser;
  bool trainable = true;
  bool operator==(const Parameter&) const = default;
};

/// Outputs of a Program, and the input whose next value each of them is.
using Renewals = std::vector<std::pair<std::string, std::string>>;

/// Both Programs read x[S,..] with a dynamic S, and the parameters by name.
/// `train` also reads target[S,..] and puts out the scalar `loss`. `predict` puts out `probability` for classification,
/// `mean` and, where the model knows it, `variance` for regression. Classifiers put out `logit_mean` and, where
/// variances are propagated, `logit_var`.
struct Network {
  Program train;
  Program predict;
  std::vector<Parameter> parameters;
  /// The loss as prediction has it, where that differs from `train`: without noise, or by running averages.
  Program validate = {};
  Renewals renewals = {};  // parameters that are not trained but averaged
};

/// Gaussian process neurons. The defaults are those of FORMULAS section 5.
struct GpnOptions {
  enum class Propagate : std::uint8_t { Mean, Variance, Covariance };
  enum class Sharing : std::uint8_t { None, Layer };       // virtual observations per unit, or one set for a layer
  enum class Targets : std::uint8_t { Normal, Identity };  // U starts standard normal, or as U = V
  enum class SigmaPoints : std::uint8_t {
    Features,
    Logits
  };  // with Variance: of the last layer, or the closed form for logits

  std::vector<std::int64_t>
      sizes;  // inputs, hidden layers, outputs; for regression the outputs are a GPN layer themselves
  Task task = Task::Classification;
  Propagate propagate = Propagate::Variance;
  Sharing sharing = Sharing::None;
  Targets targets = Targets::Normal;
  SigmaPoints sigma_points = SigmaPoints::Features;
  std::int64_t inducing_points = 14;
  double lowest_point = -2;
  double highest_point = 2;
  double noise = 0.31622776601683794;  // a variance, sqrt(0.1), at the start
  double least_noise = 1e-2;           // noise stays above, so that single precision suffices
  double lambda = 1;
  double sigma = 0.1;
  double penalty = 0.1;         // alpha_S of eq. (72); 0 leaves the penalty out
  double penalty_scale = 1e-3;  // beta_S
  bool train_points = false;    // fixed inducing points are equally spaced, which the compiled kernels use
  bool train_lambda = false;
  bool train_sigma = false;
};

/// Dense layers with the catalogue's activations (`dense.<activation>`) and biases, read out linearly.
struct MlpOptions {
  std::vector<std::int64_t> sizes;  // inputs, hidden layers, outputs
  Task task = Task::Classification;
  std::string activation = "tanh";
  double dropout = 0;  // rate of fast dropout (averaged in closed form) of the hidden layers' inputs; needs tanh
};

/// Layers with noise in their activations (ProbAct), or with the plain activations of its comparisons.
struct ProbActOptions {
  enum class Architecture : std::uint8_t { Dense, VggSmall, Vgg16 };
  /// Which elements of a sample have a parameter in common: all have a fixed value, or all one that is trained, or those
  /// of a channel, or none.
  enum class Sharing : std::uint8_t { Fixed, Single, Channel, Element };
  /// How predictions are made: with noise, without, or by moments in closed form (dense rectifiers only).
  enum class Evaluation : std::uint8_t { Sample, Mean, Moments };
  /// Height, width and channels of an image; its pixels lie row by row, the channels of a pixel together.
  struct Image {
    std::int64_t height = 0, width = 0, channels = 0;
    bool operator==(const Image&) const = default;
  };

  std::vector<std::int64_t> sizes;  // inputs, hidden layers (of dense networks), outputs
  Image image;                      // what the inputs are, for convolutions
  Architecture architecture = Architecture::Dense;
  Task task = Task::Classification;
  std::string activation = "relu";  // activation.<activation> of the catalogue
  Sharing mean = Sharing::Fixed;    // of a slope and an offset of the activation
  bool noise = true;                // false: plain activations
  Sharing sigma = Sharing::Channel;
  double sigma_start = 0;   // fixed, or where training starts; not for Element, which starts at random
  double sigma_bound = 0;   // alpha of (6); 0: no bound
  double sigma_slope = 5;   // beta of (6)
  Evaluation evaluation = Evaluation::Mean;
};

/// Throws TypeError for options out of range.
Network gpn_network(const GpnOptions& options);
Network mlp_network(const MlpOptions& options);
Network probact_network(const ProbActOptions& options);

}  // namespace moxie
