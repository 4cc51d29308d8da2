#include "compiler/ir/reductions.h"

#include <limits>

namespace moxie {

double neutral_value(ReduceKind kind) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::Sum:
      return 0;
    case ReduceKind::Product:
      return 1;
    case ReduceKind::Min:
      return infinity;
    case ReduceKind::Max:
    case ReduceKind::LogSumExp:
      break;
  }
  return -infinity;
}

}  // namespace moxie
