#pragma once
// Tests that cannot run on a machine say so: ctest then shows them as skipped, not as passed.
#include <string>

namespace moxie::test {

/// Prints why the running test case, or the rest of it, cannot run here. A program without failures then ends with the
/// exit code 77. Such a test case belongs in a suite named after what it needs, and so in a ctest entry of its own:
/// see NEEDS in tests/CMakeLists.txt.
void skip(const std::string& reason);

}  // namespace moxie::test
