#pragma once
// Roles: what the inputs and outputs of a Program are to a model that is trained. Without training they change nothing:
// a parameter is an input, and a prediction or a loss is an output.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

enum class InputRole : std::uint8_t {
  Data,       // given with every batch
  Parameter,  // trained: an optimiser changes it from step to step
  State       // becomes the value of its `next` definition after every step
};

enum class OutputRole : std::uint8_t {
  Value,
  Prediction,  // what the trained model is asked for
  Loss,        // the scalar that training minimises: a mean over the samples of a batch
  Next         // the next value of the state of the same name, which is `next.` shorter
};

/// Before the name of a state: the definition that gives its next value.
inline constexpr std::string_view kNextPrefix = "next.";

/// How a parameter or a state starts. The extents are those of its shape.
struct Initialiser {
  enum class Kind : std::uint8_t {
    Constant,  // `low`
    Linspace,  // equally spaced from `low` to `high` along the first axis
    Tanh,      // tanh of these
    Relu,      // max(0, these)
    Normal,    // mean `low`, standard deviation `high`
    Uniform,   // from `low` to `high`
    Glorot,    // uniform in [-r, r], r = sqrt(6 / (first extent + last extent))
    He,        // uniform in [-r, r], r = sqrt(6 / product of all extents but the last)
    Values     // `values`, row-major
  };
  Kind kind = Kind::Constant;
  double low = 0;
  double high = 0;
  std::vector<double> values = {};
  bool operator==(const Initialiser&) const = default;

  static Initialiser zeros() { return {}; }
  static Initialiser constant(double value) { return {Kind::Constant, value, 0, {}}; }
  static Initialiser normal(double standard_deviation) { return {Kind::Normal, 0, standard_deviation, {}}; }
  static Initialiser uniform(double low, double high) { return {Kind::Uniform, low, high, {}}; }
  static Initialiser linspace(double low, double high) { return {Kind::Linspace, low, high, {}}; }
  static Initialiser glorot() { return {Kind::Glorot, 0, 0, {}}; }
  static Initialiser he() { return {Kind::He, 0, 0, {}}; }
  static Initialiser of(std::vector<double> values) { return {Kind::Values, 0, 0, std::move(values)}; }
};

/// A name of the text form and how many numbers stand behind it in parentheses.
struct InitialiserForm {
  std::string_view name;
  std::size_t least, most;
  std::string_view use;  // an example for messages
};
std::span<const InitialiserForm> initialiser_forms();
/// The initialiser of that form; `numbers` are as many as the form takes.
Initialiser make_initialiser(std::string_view form, std::vector<double> numbers);
/// As in the text form: `glorot`, `normal(0.1)`.
std::string to_string(const Initialiser& initialiser);
/// What is wrong with it for a tensor with this number of axes, or an empty text.
std::string problem_of(const Initialiser& initialiser, std::size_t axes);

}  // namespace moxie
