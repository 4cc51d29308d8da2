#pragma once
// Other programs, such as compilers and disassemblers.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace moxie {

/// The exit status of a program and its arguments, or nothing where there is no such program. Both of its outputs go to `log`. Throws DeviceError
/// where it cannot be run.
std::optional<int> run_program(const std::vector<std::string>& words, const std::filesystem::path& log);

}  // namespace moxie
