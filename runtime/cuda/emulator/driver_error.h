#pragma once
// What the emulated driver reports: a code of cuda.h and a text that GetErrorString returns for it.
#include <stdexcept>
#include <string>

#include "runtime/cuda/driver.h"

namespace moxie::cuda::emulator {

inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kInvalidDevice = 101;
inline constexpr Result kInvalidImage = 200;
inline constexpr Result kOperatingSystem = 304;
inline constexpr Result kInvalidHandle = 400;
inline constexpr Result kNotFound = 500;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kLaunchOutOfResources = 701;
inline constexpr Result kMisalignedAddress = 716;
inline constexpr Result kLaunchFailed = 719;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kCaptureUnmatched = 903;
inline constexpr Result kCaptureIsolation = 905;

class DriverError : public std::runtime_error {
 public:
  DriverError(Result error, const std::string& text) : std::runtime_error(text), code(error) {}
  Result code;
};

}  // namespace moxie::cuda::emulator
