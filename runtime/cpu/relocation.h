#pragma once
// ELF relocations of x86-64 and aarch64 object code.
#include <cstdint>
#include <span>

namespace moxie {

/// Writes the address `target` (symbol plus addend) into the bytes at `where` as a relocation of `type` asks. `where`
/// begins at the relocated place, whose address in the running program is `place`, and ends with its section. Throws
/// CacheError for a type that kernels do not use, a place too near the end, or a target out of reach.
void apply_relocation(std::uint16_t machine, std::uint32_t type, std::span<std::byte> where, std::uint64_t target,
                      std::uint64_t place);

}  // namespace moxie
