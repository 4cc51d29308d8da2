#include "tests/ptx_emulator/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/ptx_emulator/fault.h"

namespace moxie::ptx {
namespace {

std::vector<std::uint64_t> block_numbers(std::uint64_t count, BlockOrder order) {
  std::vector<std::uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  if (order == BlockOrder::descending) std::ranges::reverse(numbers);
  if (order == BlockOrder::shuffled) std::ranges::shuffle(numbers, std::mt19937_64(count));
  return numbers;
}

/// All warps stand at one barrier, or have ended.
bool has_ended(const std::vector<Warp>& warps, const Kernel& kernel, Extent block) {
  const auto ended = std::ranges::count(warps, Warp::State::ended, &Warp::state);
  if (ended == std::ssize(warps)) return true;
  const auto differs = [&](const Warp& warp) { return warp.waits_at() != warps.front().waits_at(); };
  if (ended == 0 && std::ranges::none_of(warps, differs)) return false;
  std::string where;
  for (const Warp& warp : warps) {
    const Origin& origin = kernel.origins.at(warp.waits_at());
    where += warp.state() == Warp::State::ended ? " end" : fmt::format(" {}:{}", origin.opcode, origin.line);
  }
  throw Fault(Reason::launch_failed,
              fmt::format("kernel {}, block ({}, {}, {}): not all warps reach one barrier; they stand at (PTX lines){}",
                          kernel.name, block.x, block.y, block.z, where));
}

}  // namespace

void run_grid(const Launch& launch, BlockOrder order) {
  SharedMemory shared(launch.kernel.shared_bytes);
  std::vector<Warp> warps;
  const auto count = static_cast<unsigned>((launch.block.count() + kLanes - 1) / kLanes);
  for (unsigned number = 0; number < count; ++number) warps.emplace_back(launch, shared, number);
  for (const std::uint64_t number : block_numbers(launch.grid.count(), order)) {
    const Extent position{static_cast<unsigned>(number % launch.grid.x),
                          static_cast<unsigned>(number / launch.grid.x % launch.grid.y),
                          static_cast<unsigned>(number / launch.grid.x / launch.grid.y)};
    shared.begin_block();
    for (Warp& warp : warps) warp.begin_block(position);
    do {
      for (Warp& warp : warps) warp.run();
      shared.barrier();
    } while (!has_ended(warps, launch.kernel, position));
  }
}

}  // namespace moxie::ptx
