#pragma once
// Fault: why the driver fails a call, with the number that cuda.h gives to the reason.
#include <stdexcept>
#include <string>

namespace moxie::ptx {

enum class Reason {
  none = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_device = 101,
  invalid_context = 201,
  invalid_ptx = 218,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  illegal_instruction = 715,
  misaligned_address = 716,
  launch_failed = 719,
  capture_unsupported = 900,
  capture_invalidated = 901,
};

class Fault : public std::runtime_error {
 public:
  Fault(Reason reason, const std::string& what) : std::runtime_error(what), reason_(reason) {}
  Reason reason() const { return reason_; }

 private:
  Reason reason_;
};

}  // namespace moxie::ptx
