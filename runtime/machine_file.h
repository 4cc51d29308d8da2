#pragma once
// Tables of machines as JSON, and the calibrated table of this processor beside the kernel cache.
#include <filesystem>
#include <string>
#include <string_view>

#include "compiler/schedule/machine.h"

namespace moxie {

std::string to_json(const Machine& machine);
/// The inverse. Throws DataError for text that is no such table, with the figure that is missing or not positive.
Machine machine_from_json(std::string_view text);

/// The name of the widest level that this processor runs ("x86-64-v4"). Throws CompileError where there is none.
std::string_view host_level();

/// Where a calibrated table of a level is kept.
std::filesystem::path machine_file(const std::filesystem::path& cache_directory, std::string_view level);
/// Writes the table, with the model of this processor. Throws DataError.
void save_machine(const Machine& machine, const std::filesystem::path& cache_directory);
/// The table that was saved for this level and on this model of processor, else the default one. A damaged file is
/// ignored, with a line of the log.
Machine load_machine(std::string_view level, const std::filesystem::path& cache_directory);
/// load_machine() of host_level() and the default cache, read once.
const Machine& host_table();

}  // namespace moxie
