#pragma once
// A dump as a folder: plain files, and manifest.json, which says what they are and holds their line tables and all
// figures.
#include <filesystem>
#include <string>

#include "runtime/dump/dump.h"

namespace moxie {

/// Makes the folder if it is not there. Texts that MOXIE_KERNEL_OVERRIDE takes have the names that it knows. Throws
/// DataError.
void write_dump(const Dump& dump, const std::filesystem::path& folder);
/// Throws DataError for a folder that is no dump, naming the part that is wrong.
Dump read_dump(const std::filesystem::path& folder);
bool is_dump_folder(const std::filesystem::path& folder);

/// What --json prints: figures, and the texts if they are wanted.
std::string dump_json(const Dump& dump, bool with_texts);

}  // namespace moxie
