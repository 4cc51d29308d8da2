#pragma once
#include "runtime/device.h"

namespace moxie {

/// The reference device: every kernel runs in the interpreter, in double, with every access checked.
std::shared_ptr<Device> make_interp_device();

}  // namespace moxie
