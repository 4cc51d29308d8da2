#include "tests/rewrite/optimised.h"

#include <doctest/doctest.h>

#include <cmath>

#include "compiler/expression/functions.h"
#include "compiler/rewrite/passes.h"

namespace moxie::test {

TensorValues inputs_for(const Program& program, const DimValues& dims) {
  TensorValues inputs;
  for (const InputDecl& input : program.inputs) {
    std::int64_t count = 1;
    for (const Affine& extent : input.shape) count *= extent.evaluate([&](Symbol dim) { return dims.at(dim.name()); });
    std::vector<double> tensor(static_cast<std::size_t>(count));
    for (std::size_t k = 0; k < tensor.size(); ++k) tensor[k] = 0.1 + static_cast<double>(k * 37 % 101) / 101;
    inputs[input.name] = tensor;
  }
  return inputs;
}

int count_calls(const Program& program, std::string_view function) {
  int count = 0;
  for (const Definition& definition : program.definitions)
    visit(definition.body, [&](const Expr& e) { count += is_call(e, function); });
  return count;
}

Program optimised(const char* text, const DimValues& dims) {
  const Program program = parse(text);
  const Program result = optimise(specialise(program, dims));
  const TensorValues inputs = inputs_for(program, dims);
  const TensorValues want = evaluate(program, dims, inputs);
  const TensorValues got = evaluate(result, dims, inputs);
  for (const Definition& definition : program.definitions) {
    if (!definition.output) continue;
    for (std::size_t k = 0; k < want.at(definition.name).size(); ++k) {
      const double value = got.at(definition.name)[k], wanted = want.at(definition.name)[k];
      if (std::isinf(wanted))
        CHECK(value == wanted);
      else
        CHECK(value == doctest::Approx(wanted).epsilon(1e-12));
    }
  }
  return result;
}

}  // namespace moxie::test
