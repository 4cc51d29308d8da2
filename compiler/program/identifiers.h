#pragma once
// Identifiers: what a name may look like, and which names the language itself has taken.
#include <string_view>

namespace moxie {

/// Characters of names and numbers in ASCII, whatever the locale.
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_word(char c) { return is_digit(c) || is_letter(c); }

/// Letters, digits and underscores, not starting with a digit, with dots between such parts (`cot.mean`).
bool is_identifier(std::string_view name);
/// Words of the language and names of functions, which nothing else may be called.
bool is_reserved(std::string_view name);

}  // namespace moxie
