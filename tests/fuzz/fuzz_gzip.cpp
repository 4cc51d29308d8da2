// Compressed files and archives: gzip, raw deflate, tar (plain or compressed) and zip.
#include "data/archive.h"
#include "data/compression.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moxie;
  constexpr std::size_t kMaxBytes = 1 << 20;
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::allow_errors([&] { fuzz::require(gunzip(bytes, "fuzz", kMaxBytes).size() <= kMaxBytes); });
  fuzz::allow_errors([&] { read_tar(gunzip(bytes, "fuzz", kMaxBytes), "fuzz"); });
  fuzz::allow_errors([&] { read_tar(bytes, "fuzz"); });
  fuzz::allow_errors([&] {
    const auto members = read_zip(bytes, "fuzz", kMaxBytes);
    fuzz::require(read_zip(write_zip(members, true), "fuzz", kMaxBytes) == members);
  });
  fuzz::require(inflate_raw(deflate_raw(bytes), "fuzz", size) == bytes);
  return 0;
}
