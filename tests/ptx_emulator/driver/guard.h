#pragma once
// The functions of the driver return numbers; inside they throw. A call can be made to fail on demand:
// PTX_EMULATOR_FAIL=cuMemAlloc_v2:2 lets the next call of that name fail with error 2, "cuMemAlloc_v2:2:5" the fifth.
#include <string>

#include "tests/ptx_emulator/driver/device.h"

namespace moxie::ptx {

/// Throws the Fault that PTX_EMULATOR_FAIL asks for.
void fail_on_demand(const char* call);
/// Keeps the text for cuGetErrorString.
int report(const Fault& fault);

/// Runs `body` for a call of the driver, one call at a time.
template <class F>
int guarded(const char* call, const F& body) {
  const std::scoped_lock lock(device().mutex);
  try {
    fail_on_demand(call);
    body();
    return 0;
  } catch (const Fault& fault) {
    return report(fault);
  } catch (const std::bad_alloc&) {
    return report(Fault(Reason::out_of_memory, "the host has no memory left"));
  }
}

/// The same for a call that needs a current context.
template <class F>
int guarded_in_context(const char* call, const F& body) {
  return guarded(call, [&] {
    device().need_context(call);
    body();
  });
}

/// The name that cuda.h gives to an error; null for a number without one.
const char* error_name(int error);

}  // namespace moxie::ptx
