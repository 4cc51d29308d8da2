#include "runtime/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/schedule/pieces.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"

namespace moxie {

std::vector<std::int64_t> launch_arguments(const LoweredKernel& kernel, const DimValues& dims, const Launch& launch,
                                           int lanes, std::uint64_t seed, std::uint64_t step) {
  const Piece tile = kernel.tiles ? piece_of(*kernel.tiles, dims, launch.tile, launch.tiles, lanes) : Piece{0, 0};
  const Piece chunk = kernel.chunks ? piece_of(*kernel.chunks, dims, launch.chunk, launch.chunks, lanes) : Piece{0, 0};
  const DimValues special = {{argument::kChunk, launch.chunk},
                             {argument::kChunks, launch.chunks},
                             {argument::kTileLow, tile.low},
                             {argument::kTileHigh, tile.high},
                             {argument::kChunkLow, chunk.low},
                             {argument::kChunkHigh, chunk.high},
                             {argument::kSeed, static_cast<std::int64_t>(seed)},
                             {argument::kStep, static_cast<std::int64_t>(step)}};
  std::vector<std::int64_t> values;
  for (const std::string& name : kernel.program.arguments) {
    const auto it = special.find(name);
    const auto of_scan = scan_argument(name, launch.at);
    values.push_back(it != special.end() ? it->second : of_scan ? *of_scan : evaluate(Affine(Symbol::dim(name)), dims));
  }
  return values;
}

bool flushes_to_zero(const LoweredKernel& kernel) {
  return std::ranges::none_of(kernel.program.buffers,
                              [](const BufferDecl& buffer) { return buffer.dtype == DType::f64; });
}

void throw_if_failed(const LoweredKernel& kernel, const KernelStatus& status) {
  if (status.failed == 0) return;
  const CheckDecl& check = kernel.program.checks.at(static_cast<std::size_t>(status.check));
  std::string where;
  for (std::size_t k = 0; k < check.coordinate_names.size(); ++k) {
    where += fmt::format("{} {} = {}", k ? "," : " at", check.coordinate_names[k], status.coordinates[k]);
  }
  throw DomainError(fmt::format("{}{} (value {}){}{}", check.message, where, without_nan_sign(status.value),
                                check.advice.empty() ? "" : "; ", check.advice));
}

}  // namespace moxie
