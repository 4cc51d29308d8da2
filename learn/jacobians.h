#pragma once
// How sensitive a model's output is to its input: the singular values of the Jacobian at each sample.
#include <memory>
#include <vector>

#include "runtime/device.h"
#include "runtime/forward_pass.h"

namespace moxie {

/// The Jacobian of `output`[S,D], or [S], of `program` with respect to x[S,M] at each row of `data`: D*M values a row.
/// `settings` are the program's other inputs.
std::vector<double> jacobians(const Program& program, const std::string& output,
                              const std::map<std::string, HostTensor>& settings, const SampleRows& data,
                              const std::shared_ptr<Device>& device);

/// The singular values of a row-major matrix, the largest first; as many as its shorter side. All are NaN if an element
/// is infinite or NaN.
std::vector<double> singular_values(std::vector<double> matrix, std::size_t rows, std::size_t columns);

/// A singular value over the samples, relative to the largest of the same sample; the largest as it is. Samples without
/// singular values are left out; NaN if none has them.
struct SpectrumLine {
  double median = 0, low = 0, high = 0;  // low and high: 10 and 90 % of the samples lie below
};
/// `values` holds `count` singular values for each sample.
std::vector<SpectrumLine> spectrum(const std::vector<double>& values, std::size_t count);

}  // namespace moxie
