#include "compiler/program/roles.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::size_t kManyValues = 1'000'000;

constexpr std::array kForms = std::to_array<InitialiserForm>({
    {"zeros", 0, 0, "zeros"},
    {"ones", 0, 0, "ones"},
    {"constant", 1, 1, "constant(0.5)"},
    {"normal", 0, 2, "normal(0.1), whose standard deviation is 0.1, or normal(MEAN, DEVIATION)"},
    {"uniform", 2, 2, "uniform(-0.1, 0.1)"},
    {"glorot", 0, 0, "glorot"},
    {"he", 0, 0, "he"},
    {"linspace", 2, 2, "linspace(-2, 2)"},
    {"tanh", 2, 2, "tanh(-2, 2)"},
    {"relu", 2, 2, "relu(-2, 2)"},
    {"values", 1, kManyValues, "values(0.5, 1, 2)"},
});

std::string with_numbers(std::string_view name, const std::vector<double>& numbers) {
  return fmt::format("{}({})", name, fmt::join(numbers, ", "));
}

bool is_spaced(Initialiser::Kind kind) {
  return kind == Initialiser::Kind::Linspace || kind == Initialiser::Kind::Tanh || kind == Initialiser::Kind::Relu;
}

}  // namespace

std::span<const InitialiserForm> initialiser_forms() { return kForms; }

Initialiser make_initialiser(std::string_view form, std::vector<double> numbers) {
  const auto at = [&](std::size_t k) { return k < numbers.size() ? numbers[k] : 0; };
  if (form == "zeros") return Initialiser::zeros();
  if (form == "ones") return Initialiser::constant(1);
  if (form == "constant") return Initialiser::constant(at(0));
  if (form == "normal" && numbers.empty()) return Initialiser::normal(1);
  if (form == "normal" && numbers.size() == 1) return Initialiser::normal(at(0));
  if (form == "normal") return {Initialiser::Kind::Normal, at(0), at(1), {}};
  if (form == "uniform") return Initialiser::uniform(at(0), at(1));
  if (form == "glorot") return Initialiser::glorot();
  if (form == "he") return Initialiser::he();
  if (form == "linspace") return Initialiser::linspace(at(0), at(1));
  if (form == "tanh") return {Initialiser::Kind::Tanh, at(0), at(1), {}};
  if (form == "relu") return {Initialiser::Kind::Relu, at(0), at(1), {}};
  if (form == "values") return Initialiser::of(std::move(numbers));
  throw InternalError(fmt::format("there is no initialiser '{}'", form));
}

std::string to_string(const Initialiser& start) {
  switch (start.kind) {
    case Initialiser::Kind::Constant:
      if (start.low == 1) return "ones";
      return start.low == 0 && !std::signbit(start.low) ? "zeros" : with_numbers("constant", {start.low});
    case Initialiser::Kind::Normal:
      return start.low == 0 ? with_numbers("normal", {start.high}) : with_numbers("normal", {start.low, start.high});
    case Initialiser::Kind::Uniform:
      return with_numbers("uniform", {start.low, start.high});
    case Initialiser::Kind::Linspace:
      return with_numbers("linspace", {start.low, start.high});
    case Initialiser::Kind::Tanh:
      return with_numbers("tanh", {start.low, start.high});
    case Initialiser::Kind::Relu:
      return with_numbers("relu", {start.low, start.high});
    case Initialiser::Kind::Glorot:
      return "glorot";
    case Initialiser::Kind::He:
      return "he";
    case Initialiser::Kind::Values:
      return with_numbers("values", start.values);
  }
  throw InternalError("an initialiser is of no known kind");
}

std::string problem_of(const Initialiser& start, std::size_t axes) {
  const bool finite = std::isfinite(start.low) && std::isfinite(start.high) &&
                      std::ranges::all_of(start.values, [](double value) { return std::isfinite(value); });
  if (!finite) return "its numbers are not finite";
  if (start.kind == Initialiser::Kind::Normal && start.high < 0) return "a standard deviation is not negative";
  if (start.kind == Initialiser::Kind::Uniform && start.low > start.high) return "the lower end is above the upper end";
  if (start.kind == Initialiser::Kind::Values && start.values.empty()) return "it has no values";
  const bool needs_axis =
      is_spaced(start.kind) || start.kind == Initialiser::Kind::Glorot || start.kind == Initialiser::Kind::He;
  return needs_axis && axes == 0 ? "it depends on extents, and a scalar has none" : "";
}

}  // namespace moxie
