#pragma once
// Whole networks, composed of the catalogue's Programs.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/program.h"
#include "ops/task.h"

namespace moxie {

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

/// What is always added to the diagonal of a matrix so that it keeps a Cholesky factor in spite of rounding.
struct Jitter {
  std::string matrix;  // in words
  double amount = 0;
  bool operator==(const Jitter&) const = default;
};

/// `train` and `predict` read x[S,..] with a dynamic S, and the parameters by name.
/// `train` also reads target[S,..] (models of users need not) and puts out the scalar `loss`; with variational
/// inference also `kl`, the divergence of the posterior from the prior, of which the loss holds `kl_weight` (a setting
/// that starts at 1) times as much; with a loss.beta_nll also the setting `nll_weight` (1 at the start): the rest of it
/// is the weight of the squared error. `predict` puts out `probability` for classification, `mean` and, where the model
/// knows it, `variance` for regression (and `aleatoric`, the part of it that is noise of the targets). Classifiers put
/// out `logit_mean` and, where variances are propagated, `logit_var`. `functions` reads activations x[S,1] and puts
/// out, for each GPN layer, what the layer's units make of them: layerK.mean[S,N] and layerK.spread[S,N] (a variance),
/// and its virtual observations layerK.points[R,N], layerK.targets[R,N] and layerK.target_variance[R,N]. It is empty
/// for other networks.
struct Network {
  Program train;
  Program predict;
  std::vector<Parameter> parameters;
  Program functions = {};
  std::vector<Jitter> jitter = {};
  /// The loss as prediction has it, where that differs from `train`: without noise, or by running averages.
  Program validate = {};
  Renewals renewals = {};  // parameters that are not trained but averaged
};

/// Gaussian process neurons. The defaults are those of FORMULAS section 5.
struct GpnOptions {
  /// What goes from layer to layer. Sample: draws in training, variances in prediction.
  enum class Propagate : std::uint8_t { Mean, Variance, Covariance, Sample };
  /// How the covariances between responses are computed: for any inducing points, for equally spaced ones, or by a
  /// series.
  enum class Covariance : std::uint8_t { Exact, Equispaced, Series };
  /// Virtual observations are parameters, or random variables with a posterior of full or of diagonal covariance (in
  /// the coordinates in which the prior is standard normal).
  enum class Inference : std::uint8_t { MaximumLikelihood, VariationalFull, VariationalDiagonal };
  /// What regression maximises: E[log N(target | F, sigma^2)] (eq. 43), or log N(target | mean, variance), the latter
  /// with equal weights or, while training, with each sample's weighted by a power of its variance (loss.beta_nll).
  enum class Likelihood : std::uint8_t { Expected, Predictive, BetaPredictive };
  enum class Sharing : std::uint8_t { None, Group, Layer };            // who shares a set of virtual observations
  enum class Targets : std::uint8_t { Normal, Identity, Tanh, Relu };  // U starts as a draw from the prior, or as f(V)
  enum class SigmaPoints : std::uint8_t {
    Features,
    Logits
  };  // with Variance: of the last layer, or the closed form for logits

  std::vector<std::int64_t>
      sizes;  // inputs, hidden layers, outputs; for regression the outputs are a GPN layer themselves
  Task task = Task::Classification;
  Propagate propagate = Propagate::Variance;
  Covariance covariance = Covariance::Exact;
  std::int64_t series_terms = 10;
  Inference inference = Inference::MaximumLikelihood;
  Likelihood likelihood = Likelihood::Expected;
  Sharing sharing = Sharing::None;
  std::int64_t groups = 2;  // of units in a layer, for Sharing::Group
  Targets targets = Targets::Normal;
  SigmaPoints sigma_points = SigmaPoints::Features;
  std::vector<double> input_variance;  // of each feature; empty: none; one value stands for all
  bool input_connected = false;        // every layer sees the network's input as well
  std::int64_t inducing_points = 14;
  double lowest_point = -2;
  double highest_point = 2;
  double noise = 0.31622776601683794;  // a variance, sqrt(0.1), at the start
  double least_noise = 1e-2;           // noise stays above, so that single precision suffices
  double jitter = 1e-2;                // variational inference: the variance of the noise of the targets
  double posterior_scale = 0.3;  // variational inference: sd of the posterior at the start, that of the prior being 1
  double lambda = 1;
  double sigma = 0.1;
  double penalty = 0.1;         // alpha_S of eq. (72); 0 leaves the penalty out
  double penalty_scale = 1e-3;  // beta_S
  bool train_points = false;    // fixed inducing points are equally spaced, which the compiled kernels use
  bool train_noise = true;
  bool train_lambda = false;
  bool train_sigma = false;
};

/// The power of the variance in loss.beta_nll: the value that its paper (arXiv:2203.09168) recommends.
inline constexpr double kVarianceWeightPower = 0.5;

/// What is added to the diagonal of every logit or feature covariance before its Cholesky factor is taken, relative to
/// the mean of that diagonal.
inline constexpr double kCovarianceJitter = 1e-6;

/// Dense layers with the catalogue's activations (`dense.<activation>`) and biases, read out linearly.
struct MlpOptions {
  std::vector<std::int64_t> sizes;  // inputs, hidden layers, outputs
  Task task = Task::Classification;
  std::string activation = "tanh";
  double dropout = 0;  // rate of fast dropout (averaged in closed form) of the hidden layers' inputs; needs tanh
};

/// Layers with noise in their activations (ProbAct), or with the plain activations of its comparisons.
struct ProbActOptions {
  enum class Architecture : std::uint8_t { Dense, VggSmall, Vgg16, TextCnn };
  /// Which elements of a sample have a parameter in common: all have a fixed value, or all one that is trained, or
  /// those of a channel, or none.
  enum class Sharing : std::uint8_t { Fixed, Single, Channel, Element };
  /// How predictions are made: with noise, without, or by moments in closed form (dense rectifiers only).
  enum class Evaluation : std::uint8_t { Sample, Mean, Moments };
  /// Height, width and channels of an image; its pixels lie row by row, the channels of a pixel together.
  struct Image {
    std::int64_t height = 0, width = 0, channels = 0;
    bool operator==(const Image&) const = default;
  };

  std::vector<std::int64_t> sizes;  // inputs, hidden layers (of dense networks), outputs
  Image image;                      // what the inputs are, for convolutions of images
  std::int64_t vocabulary = 0;      // of texts, whose inputs are the numbers of their words; 0: the inputs are no texts
  Architecture architecture = Architecture::Dense;
  Task task = Task::Classification;
  std::string activation = "relu";  // activation.<activation> of the catalogue
  Sharing mean = Sharing::Fixed;    // of a slope and an offset of the activation
  bool noise = true;                // false: plain activations
  Sharing sigma = Sharing::Channel;
  double sigma_start = 0;  // fixed, or where training starts; not for Element, which starts at random
  double sigma_bound = 0;  // alpha of (6); 0: no bound
  double sigma_slope = 5;  // beta of (6)
  Evaluation evaluation = Evaluation::Mean;
};

/// Recurrent networks that read frames and write frames, with means and variances of everything (SP-GRU, and an LSTM in
/// the same way), or with one value and dropout (Monte Carlo dropout, their comparison). Units of a Gamma or Poisson
/// cell (SP-GRU A.1, A.2) and their weights are positive, and the pixels that they read must not be negative.
struct SpGruOptions {
  enum class Cell : std::uint8_t { Gru, GammaGru, PoissonGru, Lstm, DropoutLstm };

  std::int64_t frames_in = 10, frames_out = 10;
  std::int64_t pixels = 0;  // of a frame
  std::int64_t hidden = 128;
  Cell cell = Cell::Gru;
  double weight_variance = 1e-4;  // at the start
  double input_variance = 0;      // of the pixels that are read
  double dropout = 0.2;           // DropoutLstm
};

/// Throws TypeError for options out of range.
Network gpn_network(const GpnOptions& options);
Network mlp_network(const MlpOptions& options);
Network probact_network(const ProbActOptions& options);
Network sp_gru_network(const SpGruOptions& options);

}  // namespace moxie
