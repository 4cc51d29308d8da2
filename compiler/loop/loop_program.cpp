#include "compiler/loop/loop_program.h"

namespace moxie {

bool stmt::For::operator==(const For&) const = default;

}  // namespace moxie
