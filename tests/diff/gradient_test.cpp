// Gradients of random Programs against central differences, first and second order, in double.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/diff/differentiate.h"
#include "gradient_check.h"
#include "random_program.h"

using namespace moxie;
using namespace moxie::test;

TEST_CASE("gradients of random programs") {
  for (unsigned seed = 0; seed < 600; ++seed) {
    const Program program = RandomProgram(seed).make();
    verify(program);
    const std::string& output = program.definitions.back().name;
    const double error = worst_gradient_error(program, {output}, {}, {}, random_inputs(program, {}, seed));
    INFO("seed ", seed, "\n", print(program), "\n", print(differentiate(program, {output}, {})));
    CHECK(error < 2e-6);
  }
}

TEST_CASE("second derivatives of random programs") {
  for (unsigned seed = 1000; seed < 1150; ++seed) {
    const Program program = RandomProgram(seed).make();
    const Program gradient = differentiate(program, {program.definitions.back().name}, {});
    const std::string& output = gradient.definitions.back().name;
    const double error = worst_gradient_error(gradient, {output}, {}, {}, random_inputs(gradient, {}, seed));
    INFO("seed ", seed, "\n", print(gradient), "\n", print(differentiate(gradient, {output}, {})));
    CHECK(error < 2e-5);
  }
}

TEST_CASE("gradients print, parse and print again") {
  for (unsigned seed = 2000; seed < 2200; ++seed) {
    const Program program = RandomProgram(seed).make();
    const std::string text = print(differentiate(program, {program.definitions.back().name}, {}));
    INFO("seed ", seed);
    CHECK(print(parse(text)) == text);
  }
}

TEST_CASE("the argument of a costly function of neighbours has an adjoint of its own") {
  const auto check = [](const std::string& text, bool lifts) {
    const Program program = parse("dim T, N\nindex t:T, n:N\ninput x[N], w[N]\n" + text);
    INFO(text);
    CHECK((differentiate(program, {"y"}, {}).find_definition("y.argument") != nullptr ||
           differentiate(program, {"y"}, {}).find_definition("h.argument") != nullptr) == lifts);
    const DimValues dims = {{"T", 3}, {"N", 5}};
    const TensorValues inputs = random_inputs(program, dims, 11);
    CHECK(worst_gradient_error(program, {"y"}, {}, dims, inputs) < 1e-7);
  };
  check("output y[n] = tanh(x[(n+1)%N]*w[n] + x[(n+2)%N] + x[(n+3)%N]*x[n] + x[(n+4)%N])\n", true);
  check("output y[n] = where(n > 1 and n < N-2, tanh(x[n-2]*w[n] - x[n-1] + x[n+1] - x[n+2]*x[n]), x[n])\n", true);
  check(
      "scan t {\n  let h[t,n] = tanh(w[n]*where(t == 0, x[n], h[t-1,n] + h[t-1,(n+1)%N]*h[t-1,(n+2)%N] - "
      "h[t-1,(n+3)%N]))\n}\noutput y[n] = h[T-1,n]\n",
      true);
  check("output y[n] = tanh(x[n]*w[n])\n", false);
  check("output y[n] = sqrt(1 + (x[(n+1)%N] - x[n])^2)\n", false);
}
