// One formula on two devices at the same time, each in a thread of its own. A Session belongs to one thread at a time;
// a device may be shared by any number of them.
//
//   two_devices [cpu|interp]
#include <moxie/moxie.h>

#include <cmath>
#include <future>
#include <iostream>

using namespace moxie;

std::vector<double> softplus_of(const std::vector<double>& x, const std::shared_ptr<Device>& device) {
  const Program program = parse("dim N dynamic\nindex n:N\ninput x[N]: f64\noutput y[n]: f64 = log1p(exp(x[n]))\n");
  Session session(program, {}, device);
  session.set("x", make_host_tensor(DType::f64, {static_cast<std::int64_t>(x.size())}, x));
  session.run();
  return to_doubles(session.get("y"));
}

int main(int argc, char** argv) {
  const std::vector<double> x = {-2, -0.5, 0, 3};
  auto compiled =
      std::async(std::launch::async, [&] { return softplus_of(x, open_device(argc > 1 ? argv[1] : "cpu")); });
  const std::vector<double> interpreted = softplus_of(x, open_device("interp"));
  const std::vector<double> y = compiled.get();
  for (std::size_t k = 0; k < x.size(); ++k) {
    std::cout << x[k] << ": " << y[k] << '\n';
    if (std::abs(y[k] - interpreted[k]) > 1e-12) return 1;
  }
}
