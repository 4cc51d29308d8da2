#pragma once
// What the tests of linear algebra compute and compare.
#include <string>

#include "compiler/reference/evaluate.h"

namespace moxie::test {

/// A well-conditioned symmetric positive definite matrix of `x`.
inline const std::string kPositiveMatrix =
    "dim N dynamic, M = 5, B = 3\nindex i:N, j:N, k:N, m:M, b:B\ninput x[N,M]: f64, y[N]: f64, Y[N,B]: f64\n"
    "let A[i,j]: f64 = sum[m](x[i,m]*x[j,m]) + where(i == j, 2, 0)\n";
/// All that is computed of one.
inline const std::string kPositiveAlgebra = kPositiveMatrix +
                                            "let L[i,j]: f64 = cholesky[i,j](A[i,j])\n"
                                            "output root[i,j]: f64 = L[i,j]\n"
                                            "output inverted[i,j]: f64 = inverse[i,j](A[i,j])\n"
                                            "output size: f64 = logdet[i,j](A[i,j])\n"
                                            "output one[j]: f64 = solve[i,j](A[i,j], y[i])\n"
                                            "output several[j,b]: f64 = solve[i,j](A[i,j], Y[i,b])\n"
                                            "output rows[b,j]: f64 = tri_solve[i,j](L[i,j], Y[i,b])\n"
                                            "output back[j,b]: f64 = tri_solve_transposed[i,j](L[i,j], Y[i,b])\n"
                                            "output again[j,i]: f64 = cholesky_inverse[i,j](L[i,j])\n";

/// Every tensor of `found`, to `tolerance` times its largest element or 1.
void check_values(const TensorValues& found, const TensorValues& expected, double tolerance);
/// With the dims whose values the program has.
DimValues all_dims(const Program& program, DimValues dims);
/// The values of the evaluator, on every device.
void check_devices(const Program& program, const DimValues& given, double tolerance);

}  // namespace moxie::test
