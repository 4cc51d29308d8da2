// Parses a Program, differentiates it and runs the gradient on the device named by the first argument.
#include <moxie/moxie.h>
#include <moxie/version.h>

#include <iostream>

int main(int, char** argv) {
  using namespace moxie;
  const Program squares = parse("dim N\nindex n:N\ninput x[N]\noutput y = sum[n](x[n]^2)\n", "squares.mox");
  Session session(differentiate(squares, {"y"}, {"x"}), {{"N", 3}}, open_device(argv[1]));
  session.set("x", make_host_tensor(DType::f32, {3}, std::vector<double>{1, 2, 3}));
  session.set("cot.y", make_host_tensor(DType::f32, {}, std::vector<double>{1}));
  session.run();
  const std::vector<double> gradient = to_doubles(session.get("grad.x"));
  std::cout << "y = " << to_doubles(session.get("y"))[0] << ", grad.x[2] = " << gradient[2] << ", "
            << catalogue().size() << " operations of moxie " << MOXIE_VERSION << "\n";
  return gradient == std::vector<double>{2, 4, 6} ? 0 : 1;
}
