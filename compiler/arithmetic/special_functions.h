#pragma once
// Scalar functions in double that the C++ library lacks, accurate over their whole domain: the references of the
// function table.

namespace moxie {

/// The larger and the smaller number; NaN if one of them is NaN (maximum and minimum of IEEE 754-2019). Zeros are
/// equal, whatever their signs: either may be the result.
double maximum(double a, double b);
double minimum(double a, double b);
/// 1, -1, or x itself if it is zero or NaN.
double sign(double x);
double sigmoid(double x);
double softplus(double x);
double normal_pdf(double x);
double normal_cdf(double x);
/// log(normal_cdf(x)), also where normal_cdf(x) underflows or rounds to one.
double log_normal_cdf(double x);
/// The first and second derivative of log(gamma(x)). At negative integers NaN and infinity, at zeros -1/x and infinity.
double digamma(double x);
double trigamma(double x);
/// The inverse of erf: infinite at -1 and 1, NaN beyond.
double erfinv(double x);
/// The modified Bessel functions of the first kind, of order 0 and 1, times e^-|x|.
double i0e(double x);
double i1e(double x);

}  // namespace moxie
