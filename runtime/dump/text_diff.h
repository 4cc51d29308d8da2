#pragma once
// The difference of two texts, line by line.
#include <string>
#include <string_view>

namespace moxie {

/// Lines that went (-) and came (+), with `context` lines around them and a head `@@ line A -> line B` for each place;
/// empty for equal texts.
std::string text_diff(std::string_view before, std::string_view after, int context = 2);

}  // namespace moxie
