// Batches: where the new axis goes.
#include "compiler/program/batched.h"

#include <doctest/doctest.h>

#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"

using namespace moxie;

TEST_CASE("what depends on a batched input has one more axis, the first") {
  const Program program = parse(R"(dim S, N
index s:S, n:N
input x[S,N], w[N]
let norm = sum[n](w[n]^2)
let z[s] = sum[n](x[s,n]*w[n])/norm
output y[s] = z[s]^2
output n2 = 2*norm
)");
  const Program inputs = batched(program, {"x"});
  CHECK(print(inputs.shape_of("x").front()) == "batch");
  CHECK(inputs.shape_of("z").size() == 2);
  CHECK(inputs.shape_of("y").size() == 2);
  CHECK(inputs.shape_of("n2").empty());
  CHECK(batched(program, {"w"}).shape_of("n2").size() == 1);
  CHECK(batched(inputs, {"x", "w"}).shape_of("x").size() == 4);
  verify(batched(inputs, {"x", "w"}));
  CHECK_THROWS_WITH_AS(batched(program, {"v"}), doctest::Contains("no input 'v'"), TypeError);
}

TEST_CASE("samples come before the steps of a scan") {
  const Program program = batched(parse(R"(dim T, N
index t:T, n:N
input x[T,N], a
scan t {
  output h[t,n] = where(t == 0, 0, a*h[t-1,n]) + x[t,n]
}
output last[n] = h[T-1,n]
)"),
                                  {"a"});
  verify(program);
  const TensorValues values = evaluate(program, {{"T", 2}, {"N", 1}, {"batch", 3}}, {{"x", {1, 10}}, {"a", {0, 1, 2}}});
  CHECK(values.at("h") == std::vector<double>{1, 10, 1, 11, 1, 12});
  CHECK(values.at("last") == std::vector<double>{10, 11, 12});
}

TEST_CASE("outputs stay in their order, whether they depend on a batched input or not") {
  const std::string text = R"(dim T
index t:T
input x[T], a
output first = a
scan t {
  let h[t] = where(t == 0, 0, a*h[t-1]) + x[t]
  output y[t] = h[t]^2
  output z[t] = where(t == 0, 0, z[t-1]) + x[t]
}
output last = h[T-1]
)";
  const auto outputs = [](const Program& program) {
    std::vector<std::string> names;
    for (const Definition& definition : program.definitions) {
      if (definition.output) names.push_back(definition.name);
    }
    return names;
  };
  const Program program = parse(text);
  for (const std::vector<std::string>& inputs : {std::vector<std::string>{"a"}, {"x"}, {"x", "a"}}) {
    const Program together = batched(program, inputs);
    verify(together);
    CHECK(outputs(together) == outputs(program));
    CHECK(together.shape_of("z").size() == (inputs.front() == "a" ? 1 : 2));
  }
}
