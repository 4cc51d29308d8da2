#pragma once
// Ranks that are threads of one process, for tests of what ranks do together.
#include <functional>

#include "runtime/communicator.h"

namespace moxie::test {

/// Does the work of each rank on a thread, and rethrows the exception of the lowest rank that threw one.
void on_ranks(int size, const std::function<void(const std::shared_ptr<Communicator>&)>& work);

}  // namespace moxie::test
