// A formula, its text form, its gradient, and both as one compiled kernel.
//
//   first_formula [cpu|interp]
#include <moxie/moxie.h>

#include <cmath>
#include <iostream>

using namespace moxie;

namespace {

/// How near each sample lies to the points: density[s] = sum over r of exp(-(x[s] - point[r])^2 / 2).
Program density() {
  Program p("density");
  Dim S = p.dim("S", dynamic), R = p.dim("R");
  Index s(S, "s"), r(R, "r");
  Tensor x = p.input("x", {S}), point = p.input("point", {R});
  p.output("density", {s}, sum(r, exp(-sq(x(s) - point(r)) / 2)));
  return p;
}

HostTensor vector(const std::vector<double>& values) {
  return make_host_tensor(DType::f32, {static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace

int main(int argc, char** argv) {
  const Program gradient = differentiate(density(), {"density"}, {"point"});
  std::cout << print(gradient) << "\n";

  Session session(gradient, {{"R", 3}}, open_device(argc > 1 ? argv[1] : "cpu"));
  session.set("x", vector({0, 1}));
  session.set("point", vector({-1, 0, 1}));
  session.set("cot.density", vector({1, 1}));
  session.run();

  const std::vector<double> values = to_doubles(session.get("density")), slopes = to_doubles(session.get("grad.point"));
  std::cout << "density at 0 and 1: " << values[0] << " " << values[1] << "\n"
            << "gradient of their sum: " << slopes[0] << " " << slopes[1] << " " << slopes[2] << "\n";

  // By hand: x = 0 sees distances 1, 0, 1; the point at 0 is pulled by the sample at 1 alone.
  const double expected_value = 1 + 2 * std::exp(-0.5), expected_slope = std::exp(-0.5);
  return std::abs(values[0] - expected_value) < 1e-5 && std::abs(slopes[1] - expected_slope) < 1e-5 ? 0 : 1;
}
