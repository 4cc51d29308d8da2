#pragma once
// Reference values of every scalar function over its whole domain; function_values.py computed them.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/codegen/ulp.h"

namespace moxie::testing {

struct ValueRow {
  std::vector<double> arguments;
  long double value;
  double slack;  // the change of the value over half a unit in the last place of the arguments, in double
};

struct FunctionValues {
  int arity = 0;
  std::vector<ValueRow> rows;
};

/// By function.
const std::map<std::string, FunctionValues>& function_values();

/// Whether T holds all arguments.
template <typename T>
bool holds_arguments(const ValueRow& row) {
  for (const double x : row.arguments)
    if (std::isfinite(x) && static_cast<double>(static_cast<T>(x)) != x) return false;
  return true;
}

/// The distance from the reference in units in the last place of the value, or in those of the arguments if that is
/// less: near a root, or far out, the rounding of an argument moves the value by much more than one unit of its own.
template <typename T>
double error_in_ulps(T value, const ValueRow& row) {
  const double of_value = ulps(value, row.value);
  const double slack = std::ldexp(row.slack, std::numeric_limits<double>::digits - std::numeric_limits<T>::digits);
  if (slack == 0 || !std::isfinite(value) || !std::isfinite(row.value)) return of_value;
  return std::fmin(of_value, static_cast<double>(std::fabs(value - row.value) / slack));
}

}  // namespace moxie::testing
