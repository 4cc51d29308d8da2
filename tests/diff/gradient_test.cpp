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
