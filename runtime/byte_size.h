#pragma once
// Amounts of memory as people write them.
#include <cstdint>
#include <optional>
#include <string_view>

namespace moxie {

/// "500M", "2GiB", "1000000": K, M, G and T are powers of 1024. Nothing for another text.
std::optional<std::int64_t> byte_size(std::string_view text);

}  // namespace moxie
