#include "tests/ptx_emulator/device_memory.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "tests/ptx_emulator/fault.h"

namespace moxie::ptx {
namespace {

/// That of cuMemAlloc.
constexpr std::uint64_t kAlignment = 512;

}  // namespace

void DeviceMemory::Free::operator()(void* memory) const { std::free(memory); }

std::uint64_t DeviceMemory::allocate(std::uint64_t bytes) {
  if (bytes == 0) throw Fault(Reason::invalid_value, "an allocation of 0 bytes");
  if (bytes > capacity_ - used_)
    throw Fault(Reason::out_of_memory, fmt::format("{} bytes beside {} of {}", bytes, used_, capacity_));
  const std::uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Block block{std::unique_ptr<void, Free>(std::aligned_alloc(kAlignment, rounded)), bytes};
  if (block.memory == nullptr) throw Fault(Reason::out_of_memory, fmt::format("the host has no {} bytes", bytes));
  std::memset(block.memory.get(), 0xff, rounded);
  const auto address = reinterpret_cast<std::uint64_t>(block.memory.get());
  blocks_.emplace(address, std::move(block));
  used_ += bytes;
  return address;
}

void DeviceMemory::release(std::uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end())
    throw Fault(Reason::invalid_value, fmt::format("{:#x} is not what an allocation returned, or is freed", address));
  used_ -= block->second.bytes;
  blocks_.erase(block);
}

void DeviceMemory::clear() {
  blocks_.clear();
  used_ = 0;
}

DeviceMemory::Range DeviceMemory::find(std::uint64_t address) const {
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) return {};
  --block;
  const Range range{block->first, block->first + block->second.bytes};
  return address <= range.end ? range : Range{};
}

std::byte* DeviceMemory::range(std::uint64_t address, std::uint64_t bytes, const char* purpose) const {
  if (!find(address).holds(address, bytes)) {
    throw Fault(Reason::invalid_value,
                fmt::format("{}: {} bytes at {:#x} are not within one allocation", purpose, bytes, address));
  }
  return reinterpret_cast<std::byte*>(address);
}

}  // namespace moxie::ptx
