#include "compiler/ir/prelude.h"

namespace moxie {

std::string_view prelude_text() {
  return R"(
def log_sigmoid(x) = -softplus(-x)
def clamp(x, low, high) = min(max(x, low), high)
def silu(x) = x*sigmoid(x)
def gelu(x) = x*normal_cdf(x)
)";
}

}  // namespace moxie
