#pragma once
// Evaluates a Program directly in double, definition by definition, with every access checked. It lowers nothing, so
// that it can serve as the oracle of whatever does.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/support/error.h"

namespace moxie {

/// Tensors by name, row-major over their boxes.
using TensorValues = std::map<std::string, std::vector<double>>;

/// What becomes of a value that is computed in a dtype.
using Rounding = std::function<double(double, DType)>;
/// The nearest number of the dtype.
double rounded(double value, DType dtype);

/// How many operations evaluations may still take. Each evaluation takes its operations away.
struct EvaluationBudget {
  std::uint64_t operations;
};

/// An evaluation would take more operations than its budget has.
class BudgetError : public Error {
 public:
  using Error::Error;
};

/// The values of every definition, rounded after every operation if `rounding` says how. Elements outside an axis range
/// stay zero.
/// Throws ShapeError for missing or misfitting inputs and dims and for accesses outside a tensor; DeviceError, with the
/// definition, batch coordinates and pivot, for a matrix that is not positive definite; BudgetError, with the
/// definition, where `budget` is given and spent.
TensorValues evaluate(const Program& program, const DimValues& dims, const TensorValues& inputs, std::uint64_t seed = 0,
                      std::uint64_t step = 0, const Rounding& rounding = {}, EvaluationBudget* budget = nullptr);

}  // namespace moxie
