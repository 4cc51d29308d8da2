#pragma once
// Other programs, such as compilers.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace moxie {

/// Runs a program of the search path with its arguments; no shell takes part. Gives the exit status, or nothing where
/// there is no such program. Both outputs go to `log`. Throws DeviceError.
std::optional<int> run_process(const std::vector<std::string>& words, const std::filesystem::path& log);

}  // namespace moxie
