#pragma once
// Scalar functions in double that the C++ library lacks, accurate over their whole domain: the references of the
// function table.

namespace moxie {

double sigmoid(double x);
double softplus(double x);
double normal_pdf(double x);
double normal_cdf(double x);
/// log(normal_cdf(x)), also where normal_cdf(x) underflows or rounds to one.
double log_normal_cdf(double x);
/// The first and second derivative of log(gamma(x)).
double digamma(double x);
double trigamma(double x);

}  // namespace moxie
