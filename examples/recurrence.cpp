// A recurrent layer, as a scan: h[t] depends on h[t-1]. Its gradient is a scan in the other direction, and the number
// of steps is an argument of the kernels, so that a longer sequence compiles nothing.
//
//   recurrence [cpu|interp]
#include <moxie/moxie.h>

#include <cmath>
#include <iostream>

using namespace moxie;

namespace {

Program recurrent_layer() {
  Program p("recurrent_layer");
  Dim T = p.dim("T", dynamic), S = p.dim("S", dynamic), N = p.dim("N");
  Index t(T, "t"), s(S, "s"), n(N, "n"), k(N, "k");
  Tensor x = p.input("x", {T, S, N}), h0 = p.input("h0", {S, N}), W = p.input("W", {N, N});
  const Tensor h("h", 3);  // defined below, and read at the step before
  p.scan(t, [&](ScanBody& step) {
    Tensor before = step.let("before", {t, s, n}, where(equal(t, 0), h0(s, n), h(t - 1, s, n)));
    step.output("h", {t, s, n}, tanh(x(t, s, n) + sum(k, W(n, k) * before(t, s, k))));
  });
  p.output("last", {s, n}, sum(t, where(equal(t, T - 1), h(t, s, n), 0)));
  return p;
}

HostTensor filled(std::vector<std::int64_t> shape, double value) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)), value);
  return make_host_tensor(DType::f32, std::move(shape), values);
}

/// All samples and units alike: the layer is then h = tanh(1 + 2 w h) for one number.
double by_hand(int steps, double weight) {
  double state = 0.5;
  for (int t = 0; t < steps; ++t) state = std::tanh(1 + 2 * weight * state);
  return state;
}

/// Whether value and gradient are those of the number.
bool check(Session& session, int steps) {
  constexpr double kWeight = 0.3, kStep = 1e-5;
  session.set("x", filled({steps, 4, 2}, 1));
  session.set("h0", filled({4, 2}, 0.5));
  session.set("W", filled({2, 2}, kWeight));
  session.set("cot.last", filled({4, 2}, 1));
  session.run();
  const double value = to_doubles(session.get("last"))[0];
  double slope = 0;
  for (const double part : to_doubles(session.get("grad.W"))) slope += part;
  const double wanted_slope = 8 * (by_hand(steps, kWeight + kStep) - by_hand(steps, kWeight - kStep)) / (2 * kStep);
  std::cout << steps << " steps: last " << value << ", slope " << slope << "\n";
  return std::abs(value - by_hand(steps, kWeight)) < 1e-5 && std::abs(slope - wanted_slope) < 1e-3;
}

}  // namespace

int main(int argc, char** argv) {
  const Program gradient = differentiate(recurrent_layer(), {"last"}, {"W"});
  Session session(gradient, {{"N", 2}}, open_device(argc > 1 ? argv[1] : "cpu"));
  bool correct = true;
  for (const int steps : {1, 3, 10}) correct &= check(session, steps);
  return correct ? 0 : 1;
}
