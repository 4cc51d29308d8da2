#include "learn/jacobians.h"

#include <algorithm>
#include <cmath>

#include "compiler/diff/differentiate.h"

namespace moxie {
namespace {

/// Rows of the input that are differentiated at a time.
constexpr std::size_t kJacobianBatch = 256;

/// That of a tensor whose first axis counts samples.
std::vector<std::int64_t> shape_of(const Program& program, const std::string& tensor, std::size_t rows) {
  std::vector<std::int64_t> shape;
  for (const Affine& extent : program.shape_of(tensor)) {
    const auto value = [&](Symbol dim) { return program.find_dim(dim.name())->value.value(); };
    shape.push_back(shape.empty() ? static_cast<std::int64_t>(rows) : extent.evaluate(value));
  }
  return shape;
}

/// One-sided Jacobi rotations: makes the columns of a tall matrix (stored column by column) orthogonal.
void orthogonalise(std::vector<double>& m, std::size_t length, std::size_t columns) {
  constexpr int kSweeps = 60;
  constexpr double kTolerance = 1e-14;
  const auto dot = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < length; ++i) sum += m[a * length + i] * m[b * length + i];
    return sum;
  };
  bool done = false;
  for (int sweep = 0; sweep < kSweeps && !done; ++sweep) {
    done = true;
    for (std::size_t a = 0; a < columns; ++a) {
      for (std::size_t b = a + 1; b < columns; ++b) {
        const double aa = dot(a, a), bb = dot(b, b), ab = dot(a, b);
        if (std::abs(ab) <= kTolerance * std::sqrt(aa * bb)) continue;
        done = false;
        const double zeta = (bb - aa) / (2 * ab);
        const double t = std::copysign(1 / (std::abs(zeta) + std::sqrt(1 + zeta * zeta)), zeta);
        const double c = 1 / std::sqrt(1 + t * t), s = c * t;
        for (std::size_t i = 0; i < length; ++i) {
          const double x = m[a * length + i], y = m[b * length + i];
          m[a * length + i] = c * x - s * y;
          m[b * length + i] = s * x + c * y;
        }
      }
    }
  }
}

double quantile(std::vector<double>& values, double share) {
  if (values.empty()) return std::nan("");
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

}  // namespace

std::vector<double> jacobians(const Program& program, const std::string& output,
                              const std::map<std::string, HostTensor>& settings, const SampleRows& data,
                              const std::shared_ptr<Device>& device) {
  Session session(differentiate(program, {output}, {"x"}), {}, device);
  for (const auto& [name, value] : settings) {
    if (session.program().find_input(name)) session.set(name, value);
  }
  const std::size_t features = data.x.size() / data.rows;
  const auto outputs = static_cast<std::size_t>(element_count(shape_of(program, output, 1)));
  std::vector<double> result;
  for (std::size_t begin = 0; begin < data.rows; begin += kJacobianBatch) {
    const std::size_t rows = std::min(kJacobianBatch, data.rows - begin);
    const auto* first = data.x.data() + begin * features;
    const std::vector<double> x(first, first + rows * features);
    session.set("x", make_host_tensor(DType::f32, shape_of(program, "x", rows), x));
    const std::size_t at = result.size();
    result.resize(at + rows * outputs * features);
    for (std::size_t d = 0; d < outputs; ++d) {
      std::vector<double> cotangent(rows * outputs);
      for (std::size_t row = 0; row < rows; ++row) cotangent[row * outputs + d] = 1;
      session.set("cot." + output, make_host_tensor(DType::f32, shape_of(program, output, rows), cotangent));
      session.run();
      const std::vector<double> slope = to_doubles(session.get("grad.x"));
      for (std::size_t row = 0; row < rows; ++row)
        std::copy_n(slope.begin() + static_cast<std::ptrdiff_t>(row * features), features,
                    result.begin() + static_cast<std::ptrdiff_t>(at + (row * outputs + d) * features));
    }
  }
  return result;
}

std::vector<double> singular_values(std::vector<double> matrix, std::size_t rows, std::size_t columns) {
  if (!std::ranges::all_of(matrix, [](double element) { return std::isfinite(element); }))
    return std::vector<double>(std::min(rows, columns), std::nan(""));
  // The rows of a wide matrix are the columns of its transpose, stored column by column.
  if (rows > columns) {
    std::vector<double> transposed(matrix.size());
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) transposed[j * rows + i] = matrix[i * columns + j];
    }
    matrix = std::move(transposed);
    std::swap(rows, columns);
  }
  orthogonalise(matrix, columns, rows);
  std::vector<double> values;
  for (std::size_t i = 0; i < rows; ++i) {
    double square = 0;
    for (std::size_t j = 0; j < columns; ++j) square += matrix[i * columns + j] * matrix[i * columns + j];
    values.push_back(std::sqrt(square));
  }
  std::ranges::sort(values, std::greater<>());
  return values;
}

std::vector<SpectrumLine> spectrum(const std::vector<double>& values, std::size_t count) {
  std::vector<SpectrumLine> lines;
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<double> column;
    for (std::size_t i = 0; i < values.size(); i += count)
      column.push_back(k == 0 || values[i] == 0 ? values[i + k] : values[i + k] / values[i]);
    std::erase_if(column, [](double value) { return std::isnan(value); });
    lines.push_back({quantile(column, 0.5), quantile(column, 0.1), quantile(column, 0.9)});
  }
  return lines;
}

}  // namespace moxie
