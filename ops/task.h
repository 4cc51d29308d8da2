#pragma once
#include <cstdint>

namespace moxie {

/// What a model learns: a class, or values with their uncertainty.
enum class Task : std::uint8_t { Classification, Regression };

}  // namespace moxie
