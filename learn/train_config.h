#pragma once
// Everything that defines a training run: the options of `moxie train`, and a run folder's config.json.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/presets.h"
#include "ops/network.h"
#include "ops/training.h"
#include "runtime/micro_batches.h"
#include "runtime/plateau.h"

namespace moxie {

struct TrainConfig {
  std::string model = "gpn";      // or the name of a .mox file
  std::string formula;            // its text, as print() writes it; empty for the other models
  std::vector<std::string> dims;  // values of its dims, as in H=32

  std::string data = "synthetic";
  std::string data_dir = "data";
  std::size_t split = 0;
  std::size_t folds = 0;  // of cross-validation; 0: none
  std::size_t fold = 0;   // the one that is trained, from 1; 0: all of them, each in a run with its own number
  double validation_share = 0.1;
  double train_share = 1;
  std::vector<std::string> targets, ignored, categorical, unscaled, missing;
  std::vector<std::string> target_units;  // one for each target, or for all of them; only reports show them
  std::string header = "auto";
  std::string missing_target = "error";
  std::vector<std::string> class_weight;
  std::string task;
  std::string test_file;

  std::size_t sequences = 1000;
  std::size_t digits = 1;
  std::size_t frames = 20;
  std::size_t side = 64;
  std::size_t pooling = 4;
  double angle = 0;
  double angle_spread = 180;
  double speed = 3;
  double speed_spread = 1;
  double frame_noise = 0;
  double frame_noise_spread = 0;

  std::size_t vocabulary = TextOptions{}.vocabulary;
  std::size_t text_length = TextOptions{}.length;

  std::vector<std::int64_t> layers;  // hidden ones
  std::string inference = "ml";
  std::string posterior = "full";
  double jitter = 0.01;
  double kl_warmup = 0;  // epochs
  std::string propagate = "variance";
  std::string covariance = "exact";
  std::string sharing = "none";
  std::int64_t groups = 2;
  std::string init = "random";
  std::string sigma_points = "logits";
  std::int64_t inducing_points = 14;
  double noise = 0.31622776601683794;
  double least_noise = 0.01;
  std::string sigma;       // empty: what suits the model
  std::string likelihood;  // empty: what suits the inference
  double mean_warmup = 0;  // epochs
  double penalty = 0.1;
  bool recalibrate = true;
  std::vector<double> input_variance;
  bool input_connected = false;
  bool train_points = false;
  bool train_noise = true;
  bool train_lambda = false;
  bool train_sigma = true;
  std::string activation;  // empty: what suits the model
  std::string dropout = "none";
  double dropout_rate = 0.1;
  std::string network = "dense";
  std::string mean = "fixed";
  double sigma_bound = 0;
  double sigma_slope = 5;
  std::string evaluation = "mean";
  std::uint64_t samples = 50;
  std::int64_t hidden = 128;
  std::string cell = "gru";
  double weight_variance = 1e-4;
  double mc_dropout = 0.2;

  std::uint64_t seed = 1;
  std::size_t batch = 256;
  std::size_t micro_batches = 0;  // parts of a batch; 0: with several ranks, what suits the batch; else none
  std::string reduce = "tree";
  std::string optimiser = "adam";
  double rate = 1e-2;
  double momentum = 0.9;
  double weight_decay = 0;
  std::string schedule = "plateau";
  double schedule_decay = 0;
  double schedule_factor = 0.1;
  double schedule_period = 1000;
  int patience = 100;
  double lowest_rate = 1e-5;
  std::uint64_t epochs = 2000;
  double max_time = 0;     // seconds; 0: no limit
  double save_every = 15;  // seconds
  std::string on_nan = "stop";
  std::string precision = "strict";
};

namespace option_group {
inline constexpr const char* kData = "Data";
inline constexpr const char* kModel = "Model";
inline constexpr const char* kOwn = "Model: a .mox file";
inline constexpr const char* kGpn = "Model: gpn";
inline constexpr const char* kMlp = "Model: mlp";
inline constexpr const char* kProbAct = "Model: probact";
inline constexpr const char* kSpGru = "Model: sp-gru";
inline constexpr const char* kFrames = "Data: moving-mnist";
inline constexpr const char* kText = "Data: texts";
inline constexpr const char* kTraining = "Training";
}  // namespace option_group

/// Calls visit(group, name, member, help) for every option, in the order of the help text.
template <class Config, class Visit>
void visit_fields(Config& c, Visit&& visit) {
  visit(option_group::kData, "data", c.data,
        "data set: a name (synthetic, letter, mnist, ...), csv:FILE, npz:FILE, safetensors:FILE or text:FILE");
  visit(option_group::kData, "data-dir", c.data_dir, "where the data sets lie");
  visit(option_group::kData, "split", c.split, "which division into training and test rows");
  visit(
      option_group::kData, "folds", c.folds,
      "csv, npz, safetensors: cross-validation by as many runs, each row being a test row of one of them; 0: one run");
  visit(option_group::kData, "fold", c.fold, "with --folds: train only this one, from 1; 0: all");
  visit(option_group::kData, "validation-share", c.validation_share,
        "part of the training rows that decides about rates and the best model");
  visit(option_group::kData, "train-share", c.train_share, "part of the other training rows that is used");
  visit(option_group::kData, "target", c.targets, "csv, npz, safetensors: target columns, by name or number");
  visit(option_group::kData, "target-unit", c.target_units,
        "regression: the unit of each target, or of all, as report.html shows it: EUR");
  visit(option_group::kData, "ignore", c.ignored, "csv, npz, safetensors: columns that are left out");
  visit(option_group::kData, "categorical", c.categorical,
        "csv, npz, safetensors: columns of categories that look like numbers");
  visit(option_group::kData, "unscaled", c.unscaled,
        "csv, npz, safetensors: columns of numbers, features or targets, that are taken as they are: counts, "
        "identifiers");
  visit(option_group::kData, "missing", c.missing,
        "csv: how missing values are written, besides empty fields: NA,null,- for example; ? if not given");
  visit(option_group::kData, "header", c.header,
        "csv: whether the first line holds the names of columns: yes, no, or auto (words above some number)");
  visit(option_group::kData, "missing-target", c.missing_target,
        "csv, npz, safetensors: rows without a target are an error, or left out: error or skip");
  visit(option_group::kData, "class-weight", c.class_weight,
        "how much the loss of each class counts: balanced (inversely to its rows), or CLASS=WEIGHT; 1 if not given");
  visit(option_group::kData, "task", c.task,
        "classify or regress, what the data set is made for if not given; sp-gru: predict or reconstruct");
  visit(option_group::kData, "test-file", c.test_file, "files: test rows, in another file of the same kind");
  visit(option_group::kModel, "layers", c.layers, "units of the hidden layers, as in 30,15");
  visit(option_group::kModel, "activation", c.activation,
        "mlp: dense.* of `moxie ops`, tanh if not given; probact: activation.* of `moxie ops`, relu if not given");
  visit(
      option_group::kModel, "sigma", c.sigma,
      "gpn: standard deviation of the output noise at the start (0.1); probact: that of the activations: a number, or "
      "trained and the same for all units (single), for a channel (channel), for none (element, the default), or none");
  visit(option_group::kOwn, "dim", c.dims, "values of dims that neither the text nor the data shows, such as H=32,K=4");
  visit(option_group::kGpn, "inference", c.inference,
        "of the virtual observations' targets: ml (maximum likelihood) or vb (variational Bayes)");
  visit(option_group::kGpn, "posterior", c.posterior, "vb: covariance of their posterior, full or diagonal");
  visit(option_group::kGpn, "jitter", c.jitter, "vb: variance of their noise, which keeps matrices invertible");
  visit(option_group::kGpn, "kl-warmup", c.kl_warmup, "vb: epochs over which the weight of the prior grows to 1");
  visit(option_group::kGpn, "propagate", c.propagate,
        "what goes from layer to layer: mean, variance, covariance, or sample (draws in training)");
  visit(option_group::kGpn, "covariance", c.covariance,
        "how covariances of responses are computed: exact, equispaced (as exact, for points that are not trained), or "
        "series:TERMS (with a bound of its error)");
  visit(option_group::kGpn, "sharing", c.sharing,
        "who shares virtual observations: none, the units of a group, or those of a layer");
  visit(option_group::kGpn, "groups", c.groups, "sharing in groups: groups of a layer");
  visit(option_group::kGpn, "init", c.init, "how their targets start: random, identity, tanh or relu");
  visit(option_group::kGpn, "sigma-points", c.sigma_points,
        "where the loss draws its sigma points: features or logits");
  visit(option_group::kGpn, "inducing-points", c.inducing_points, "number of virtual observations");
  visit(option_group::kGpn, "noise", c.noise, "variance of the virtual observations at the start");
  visit(option_group::kGpn, "least-noise", c.least_noise, "lower bound of that variance");
  visit(option_group::kGpn, "penalty", c.penalty, "weight of the penalty on small noise");
  visit(
      option_group::kGpn, "likelihood", c.likelihood,
      "regression: maximise the expected log likelihood (expected), or that of the predictive distribution "
      "(predictive), with each sample weighted by the square root of its predicted variance (beta-nll); if not given, "
      "beta-nll with ml, and expected, which bounds the evidence, with vb");
  visit(option_group::kGpn, "mean-warmup", c.mean_warmup,
        "beta-nll: epochs over which the loss turns from the squared error of the mean to the likelihood");
  visit(option_group::kGpn, "input-variance", c.input_variance,
        "variance of each (scaled) feature, or one value for all; none if not given");
  visit(option_group::kGpn, "input-connected", c.input_connected, "every layer sees the input as well");
  visit(option_group::kGpn, "train-points", c.train_points, "train the inducing points");
  visit(option_group::kGpn, "train-noise", c.train_noise, "ml: train the noise of the virtual observations");
  visit(option_group::kGpn, "train-lambda", c.train_lambda, "train the lengthscales");
  visit(option_group::kGpn, "train-sigma", c.train_sigma, "train the output noise");
  visit(option_group::kMlp, "dropout", c.dropout, "dropout of the hidden layers' inputs: none or fast");
  visit(option_group::kMlp, "dropout-rate", c.dropout_rate, "share of the inputs that is dropped");
  visit(option_group::kProbAct, "network", c.network,
        "dense (of --layers), vgg-small or vgg16 (for images), or text-cnn (for texts)");
  visit(option_group::kProbAct, "mean", c.mean,
        "slope and offset of the activations: fixed (none), or trained: single, channel or element");
  visit(option_group::kProbAct, "sigma-bound", c.sigma_bound, "upper bound alpha of a trained sigma; 0: none");
  visit(option_group::kProbAct, "sigma-slope", c.sigma_slope, "slope beta of the bounded sigma");
  visit(option_group::kProbAct, "evaluation", c.evaluation,
        "how predictions are made: mean (without noise), sample (once), ensemble (of --samples) or moments");
  visit(option_group::kModel, "samples", c.samples, "stochastic passes that make one prediction of an ensemble");
  visit(option_group::kSpGru, "hidden", c.hidden, "hidden units");
  visit(option_group::kSpGru, "cell", c.cell,
        "gru, gru-gamma or gru-poisson (with such units, for frames without negative values), lstm, or mc-lstm (an "
        "LSTM with dropout, predicted by --samples)");
  visit(option_group::kSpGru, "weight-variance", c.weight_variance, "variance of the weights at the start");
  visit(option_group::kSpGru, "mc-dropout", c.mc_dropout, "mc-lstm: share of inputs and states that is dropped");
  visit(option_group::kFrames, "sequences", c.sequences, "for training and validation; a tenth as many for tests");
  visit(option_group::kFrames, "digits", c.digits, "in each sequence");
  visit(option_group::kFrames, "frames", c.frames, "of a sequence; the first half is read");
  visit(option_group::kFrames, "side", c.side, "of a frame, in pixels");
  visit(option_group::kFrames, "pooling", c.pooling, "squares of so many pixels by as many are averaged into one");
  visit(option_group::kFrames, "angle", c.angle, "of the motion, in degrees");
  visit(option_group::kFrames, "angle-spread", c.angle_spread, "how far the angle of a digit may lie from it");
  visit(option_group::kFrames, "speed", c.speed, "pixels from frame to frame");
  visit(option_group::kFrames, "speed-spread", c.speed_spread, "how far the speed of a digit may lie from it");
  visit(option_group::kFrames, "frame-noise", c.frame_noise,
        "standard deviation of noise in every pixel, white being 1");
  visit(option_group::kFrames, "frame-noise-spread", c.frame_noise_spread,
        "how far the noise of a sequence may lie from it");
  visit(option_group::kText, "vocabulary", c.vocabulary, "most words that are told apart; all others are one");
  visit(option_group::kText, "text-length", c.text_length, "most words of a text; what is behind them is left out");
  visit(option_group::kModel, "recalibrate", c.recalibrate,
        "regression: scale the predicted variances so that they fit the errors on the validation rows");
  visit(option_group::kTraining, "seed", c.seed, "of initial values, validation rows, order of samples, and noise");
  visit(option_group::kTraining, "batch", c.batch, "samples per step");
  visit(option_group::kTraining, "micro-batches", c.micro_batches,
        "parts of each batch, a power of two: their gradients are added up in one order, with the same bits on any "
        "number "
        "of ranks; 0: under mpirun up to 8, by the batch size alone, else the batch is taken as a whole");
  visit(option_group::kTraining, "reduce", c.reduce,
        "how ranks add up gradients: tree (the same bits on any number of ranks) or fast (as MPI finds fastest)");
  visit(option_group::kTraining, "optimiser", c.optimiser,
        "rule that updates the parameters: sgd, momentum, rmsprop or adam");
  visit(option_group::kTraining, "rate", c.rate, "learning rate at the start");
  visit(option_group::kTraining, "momentum", c.momentum, "momentum: its share of the last step");
  visit(option_group::kTraining, "weight-decay", c.weight_decay, "part of each parameter added to its gradient");
  visit(option_group::kTraining, "schedule", c.schedule,
        "how the rate falls: plateau, constant, step, inverse_time or exponential");
  visit(option_group::kTraining, "schedule-decay", c.schedule_decay, "inverse_time, exponential: decay per step");
  visit(option_group::kTraining, "schedule-factor", c.schedule_factor, "step, plateau: factor by which the rate falls");
  visit(option_group::kTraining, "schedule-period", c.schedule_period, "step: steps between two falls");
  visit(option_group::kTraining, "patience", c.patience,
        "epochs without a better validation loss before the rate falls (plateau) or training ends (others)");
  visit(option_group::kTraining, "lowest-rate", c.lowest_rate, "plateau: training ends when the rate would fall below");
  visit(option_group::kTraining, "epochs", c.epochs, "most epochs");
  visit(option_group::kTraining, "max-time", c.max_time, "most seconds; 0: no limit");
  visit(option_group::kTraining, "save-every", c.save_every, "seconds between two checkpoints");
  visit(option_group::kTraining, "on-nan", c.on_nan, "what a NaN or an infinity does: stop training, or skip the step");
  visit(option_group::kTraining, "precision", c.precision,
        "which rewrites are allowed: strict keeps infinities, NaN and cancellation as formulas are written, fast uses "
        "all laws of the real numbers, accurate is strict and adds up in double");
}

/// Throws UsageError for options that do not go together or are out of range.
void check(const TrainConfig& config);
/// The same for one from a file, which a DataError names.
void check_file(const TrainConfig& config, const std::string& file);

/// Throws DataError for units that are not those of the targets.
void check_units(const TrainConfig& config, const Encoding& encoding);

/// What regression by Gaussian process neurons maximises: the choice, or what suits the inference.
std::string likelihood_of(const TrainConfig& config);

/// JSON text; config_from_json(to_json(c)) == c. Options that are missing have their defaults: those that made the run
/// did not know them. Throws DataError, naming `file`, where the model is missing, a value is of another type, or a
/// name is unknown.
std::string to_json(const TrainConfig& config);
TrainConfig config_from_json(std::string_view text, const std::string& file);

LoadOptions load_options(const TrainConfig& config);
/// The layers, or what suits the data set where none are given.
std::vector<std::int64_t> hidden_layers(const TrainConfig& config);

/// Whether the model is a .mox file of the user's own.
bool is_own_model(const TrainConfig& config);
/// The network for data of the given widths.
Network make_network(const TrainConfig& config, const Encoding& encoding);
/// The network of one of moxie's own families for layers of these sizes, from the inputs to the outputs; convolutions
/// have layers of their own between these two. Of the encoding, the task, the image and the number of words matter.
Network make_family_network(const TrainConfig& config, std::vector<std::int64_t> sizes, const Encoding& encoding);
bool is_convolutional(const TrainConfig& config);
/// Whether it stands for the runs of all folds of a cross-validation.
inline bool is_cross_validation(const TrainConfig& config) { return config.folds > 0 && config.fold == 0; }
/// How many stochastic passes make one prediction, of the config's network where that is a file's.
std::size_t ensemble_size(const TrainConfig& config, const Network& network = {});
/// How the run's batches are divided.
BatchDivision batch_division(const TrainConfig& config);
/// The number of micro-batches that suits a batch, where several ranks may share it: a power of two.
std::size_t suitable_micro_batches(std::size_t batch);
OptimiserOptions optimiser_options(const TrainConfig& config);
ScheduleOptions schedule_options(const TrainConfig& config);
PlateauOptions plateau_options(const TrainConfig& config);

}  // namespace moxie
