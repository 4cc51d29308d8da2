// Reductions from another fixed number on are shared out and walk through rows as those from 0 do.
#include <algorithm>
#include <string>

#include "compiler/fuse/fuse.h"
#include "compiler/loop/row_order.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/device_values.h"

using namespace moxie;

namespace {

/// Whether the columns are added up row by row, as they lie in memory.
bool walks_rows(const std::string& sum, const std::vector<std::string>& without = {}) {
  const Program program =
      parse("dim S = 512, T = 200\nindex s:S, t:T, r:T\ninput x[T,S], y[T,S]\noutput g[s] = " + sum);
  const FusedProgram fused = fuse(optimise(specialise(program, {}), {}, without));
  return std::ranges::all_of(fused.steps, [](const Step& step) {
    const auto* kernel = std::get_if<Kernel>(&step);
    return kernel != nullptr && in_rows(*kernel).has_value();
  });
}

}  // namespace

TEST_CASE("sums of columns that start at another row than the first walk through rows") {
  for (const char* sum : {"sum[t in 1..T](x[t,s]*y[t-1,s])", "sum[t in 3..T-2](x[t,s] - y[t-1,s]*y[t+2,s])",
                          "sum[t](where(t >= 1, x[t,s]*y[t-1,s], 0))"}) {
    CAPTURE(sum);
    CHECK(walks_rows(sum));
    CHECK_FALSE(walks_rows(sum, {"count-from-zero"}));
  }
}

TEST_CASE("reductions that count from 0 have the values of those that do not") {
  const Program program = parse(R"(dim S, T dynamic
index s:S, t:T, r:T
input x[T,S], y[T,S]
output lagged[s] = sum[t in 1..T](x[t,s]*y[t-1,s])
output pairs[s] = sum[t in 2..T](sum[r in 1..T-1](x[t,s]*y[r,s]))
output below[s] = sum[t in 1..T](sum[r in 1..t](x[t,s]*y[r,s]))
output largest[s] = max[t in 1..T](x[t,s] - y[t-1,s])
output place[s] = argmax[t in 1..T](x[t,s] - y[t-1,s])
output product[s] = prod[t in 3..T](x[t,s]))");
  for (const std::int64_t steps : {0, 1, 2, 3, 70}) {
    CAPTURE(steps);
    test::check_values_on_devices(program, {{"S", 5}, {"T", steps}});
  }
}
