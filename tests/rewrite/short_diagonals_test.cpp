// Scans over the diagonals of two indices, kept by the index of fewer elements.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/device_values.h"

using namespace moxie;

namespace {

/// Sections of a filter over time, each of which takes the output of the one before and has states of its own.
Program filter(const std::string& scan, std::int64_t steps, std::int64_t sections) {
  const bool forwards = scan.find("t backwards") == std::string::npos;
  const bool down = scan.find("s backwards") == std::string::npos;
  const std::string first = forwards ? "t == 0" : "t == T-1", before = forwards ? "t-1" : "t+1";
  const std::string top = down ? "s == 0" : "s == S-1", above = down ? "s-1" : "s+1";
  return parse(fmt::format(R"(dim T = {}, S = {}, C = 2
index t:T, s:S, c:C
input x[T,C], a[S], b[S]
scan {} {{
  let u[t,s,c] = where({}, x[t,c], y[t,{},c])
  let y[t,s,c] = a[s]*u[t,s,c] + where({}, 0, tanh(p[{},s,c]))
  let p[t,s,c] = b[s]*u[t,s,c]*y[t,s,c]
}}
output out[t,c] = y[t,{},c]
output power = sum[t,s,c](y[t,s,c]^2)
)",
                           steps, sections, scan, top, above, first, before, down ? "S-1" : "0"));
}

double largest_scan(const Program& program) {
  double largest = 0;
  for (const Definition& definition : program.definitions) {
    if (definition.scan) largest = std::max(largest, assumed_size(definition.axes));
  }
  return largest;
}

}  // namespace

TEST_CASE("a scan over many steps of few sections takes the elements of the sections only") {
  for (const char* scan : {"t, s", "t backwards, s", "t, s backwards", "t backwards, s backwards"}) {
    CAPTURE(scan);
    const Program program = specialise(differentiate(filter(scan, 12, 3), {"out", "power"}, {}), {});
    const Program shorter = shorten_diagonals(program);
    CHECK(largest_scan(program) == 14 * 12 * 2);
    CHECK(largest_scan(shorter) == 14 * 3 * 2);
    verify(shorter);
    const TensorValues inputs = test::wave_inputs(program, {});
    const TensorValues expected = evaluate(program, {}, inputs), values = evaluate(shorter, {}, inputs);
    for (const auto& [name, elements] : expected) {
      if (!program.find_definition(name)->output) continue;
      for (std::size_t k = 0; k < elements.size(); ++k) {
        CAPTURE(name);
        CHECK(values.at(name)[k] == doctest::Approx(elements[k]));
      }
    }
    test::check_values_on_devices(program, {});
  }
}

TEST_CASE("a scan of few steps, or of as many on either side, stays as it is") {
  for (const auto& [steps, sections] : {std::pair(3, 12), std::pair(5, 5), std::pair(6, 4)}) {
    const Program program = specialise(differentiate(filter("t, s", steps, sections), {"out"}, {}), {});
    CHECK(shorten_diagonals(program) == program);
  }
}

TEST_CASE("a scan with elements beside its diagonals stays as it is") {
  const Program program = specialise(parse(R"(dim T = 12, D = 14
index t:T, d:D
input x[T]
scan d {
  let y[d,t] = x[t] + where(d == 0, 0, y[d-1,t])
}
output z[t] = y[D-1,t]
)"),
                                     {});
  CHECK(shorten_diagonals(program) == program);
}
