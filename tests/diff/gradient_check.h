#pragma once
// Compares the gradients of a Program with central differences, in double.
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"

namespace moxie::test {

/// The number of elements of an input.
std::size_t element_count(const InputDecl& input, const DimValues& dims);
/// Uniform in (-1, 1), the same for the same seed.
TensorValues random_inputs(const Program& program, const DimValues& dims, unsigned seed);

/// The largest error of any element of any gradient of `outputs` with respect to `wrt` (empty: all inputs), relative to
/// 1 + the largest entry of that gradient; the cotangents are random. Two step sizes are tried, since a kink may lie
/// within one of them.
double worst_gradient_error(const Program& program, const std::vector<std::string>& outputs,
                            const std::vector<std::string>& wrt, const DimValues& dims, const TensorValues& inputs);

/// Compares the tangents J v of `outputs`, along random tangents v of `wrt` (empty: all inputs), with central
/// differences and, as <u, J v>, with <J^T u, v> of differentiate(): the larger error, relative to 1 + what the terms
/// of the sums add up to.
double worst_tangent_error(const Program& program, const std::vector<std::string>& outputs,
                           const std::vector<std::string>& wrt, const DimValues& dims, const TensorValues& inputs);

/// The largest difference of two lists of equal length; equal infinities have none.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

/// For rewrites that only apply where extents are large or unknown: the largest difference between the gradients of
/// output `y` of the program specialised to these small dims, which they leave alone, and of the program as it is.
double difference_from_written_gradient(const Program& program, const DimValues& dims, TensorValues inputs,
                                        const std::vector<double>& cotangent);

}  // namespace moxie::test
