#include "tests/runtime/session_program.h"

#include <utility>

namespace moxie::test {

HostTensor tensor(std::vector<std::int64_t> shape, const std::vector<double>& values) {
  return make_host_tensor(DType::f32, std::move(shape), values);
}

Program step_program() {
  return parse(R"(
dim S dynamic, N = 2
index s:S, n:N
input p[N], x[S,N], moved
output next[n] = p[n] + sum[s](x[s,n])
output distance = moved + sum[n](p[n]^2)
)",
               "step");
}

}  // namespace moxie::test
