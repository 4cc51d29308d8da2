#pragma once
// Made-up inputs for `check` and `bench`: extents and random values that a formula can take.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"

namespace moxie {

/// A value for every dim of the program: `given`, else the declared one, else a small one (7 for S, 3 to 5 for others).
DimValues choose_dims(const Program& program, const DimValues& given);

/// Random values that obey the declared signs, each exact in single precision.
std::vector<double> sample_values(const ValueDomain& domain, std::size_t count, std::uint64_t seed);
/// The same for every input of the program.
TensorValues sample_inputs(const Program& program, const DimValues& dims, std::uint64_t seed);

/// Makes covariance matrices of the inputs whose last two axes have the same extent, and gives the names of these
/// inputs: A becomes A A^T / size + 1/2. Formulas that factorise their inputs are defined there.
std::set<std::string> make_covariances(const Program& program, const DimValues& dims, TensorValues& inputs);
/// The element across the diagonal of the last two axes, of extent `size`.
std::size_t mirrored(std::size_t element, std::size_t size);

}  // namespace moxie
