// A layer that no framework has, trained: y[s] = sum over k of weight[k] * exp(-(x[s] - centre[k])^2), fitted to a
// sine. The loss, its gradient and the update are one Program, and each training step is one run of it.
//
//   custom_layer [cpu|interp]
#include <moxie/moxie.h>

#include <cmath>
#include <iostream>

using namespace moxie;

namespace {

constexpr std::int64_t kSamples = 64, kBumps = 8;
constexpr int kSteps = 400;

Program training_step() {
  Program p("bumps");
  Dim S = p.dim("S", dynamic), K = p.dim("K", kBumps);
  Index s(S, "s"), k(K, "k");
  Tensor x = p.input("x", {S}), target = p.input("target", {S});
  Tensor weight = p.input("weight", {K}), centre = p.input("centre", {K}), rate = p.input("rate");
  Tensor y = p.let("y", {s}, sum(k, weight(k) * exp(-sq(x(s) - centre(k)))));
  p.output("loss", {}, sum(s, sq(y(s) - target(s))) / S);

  Program step = differentiate(p, {"loss"}, {"weight", "centre"});
  for (const Tensor& parameter : {weight, centre}) {
    const Tensor slope("grad." + parameter.name(), 1);
    step.output("next." + parameter.name(), {k}, parameter(k) - rate * slope(k));
  }
  return step;
}

HostTensor vector(std::int64_t size, double low, double high, double (*value)(double)) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    values.push_back(value(low + (high - low) * static_cast<double>(i) / static_cast<double>(size - 1)));
  }
  return make_host_tensor(DType::f32, {size}, values);
}

HostTensor scalar(double value) { return make_host_tensor(DType::f32, {}, std::vector<double>{value}); }

}  // namespace

int main(int argc, char** argv) {
  const auto itself = [](double value) { return value; };
  Session session(training_step(), {}, open_device(argc > 1 ? argv[1] : "cpu"));
  session.set("x", vector(kSamples, -3, 3, itself));
  session.set("target", vector(kSamples, -3, 3, [](double value) { return std::sin(value); }));
  session.set("weight", vector(kBumps, 0, 0, itself));
  session.set("centre", vector(kBumps, -3, 3, itself));
  session.set("rate", scalar(0.2));
  session.set("cot.loss", scalar(1));
  session.feed_back("next.weight", "weight");
  session.feed_back("next.centre", "centre");

  double loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    session.run();
    loss = to_doubles(session.get("loss"))[0];
    if (step % 100 == 0 || step == kSteps - 1) std::cout << "step " << step << ": loss " << loss << "\n";
  }
  return loss < 0.01 ? 0 : 1;
}
