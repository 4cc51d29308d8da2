#pragma once
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "compiler/support/error.h"

/// The entry that libFuzzer calls.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace moxie::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Runs an action that may refuse its input, but not by a broken invariant of its own.
template <class Action>
void allow_errors(Action action) {
  try {
    action();
  } catch (const Error& error) {
    if (dynamic_cast<const InternalError*>(&error)) throw;
  }
}

/// A property that must hold for every input.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace moxie::fuzz
