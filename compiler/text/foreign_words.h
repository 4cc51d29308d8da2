#pragma once
// What people write out of habit of other languages and libraries, and how a text says it.
#include <string_view>

namespace moxie {

/// How a text says what the word or the character means elsewhere, "write log(x)" for `ln`; an empty string for those
/// that nobody is known to bring.
std::string_view said_here(std::string_view word);

}  // namespace moxie
