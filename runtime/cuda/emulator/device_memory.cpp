#include "runtime/cuda/emulator/device_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "runtime/cuda/emulator/driver_error.h"

namespace moxie::cuda::emulator {
namespace {

constexpr std::size_t kAlignment = 256;  // that of cuMemAlloc
constexpr int kUnwritten = 0xff;         // makes NaNs of floats and doubles alike

}  // namespace

std::size_t device_memory_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

DevicePointer DeviceMemory::allocate(std::size_t bytes) {
  if (bytes == 0) throw DriverError(kInvalidValue, "an allocation of 0 bytes");
  const std::size_t all = device_memory_bytes();
  const auto too_large = [&] {
    return DriverError(kOutOfMemory, fmt::format("{} bytes do not fit: {} of {} are in use", bytes, used_, all));
  };
  if (bytes > all - used_) throw too_large();
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (data == nullptr) throw too_large();
  std::memset(data, kUnwritten, bytes);
  const auto pointer = reinterpret_cast<DevicePointer>(data);
  allocations_[pointer] = {std::unique_ptr<std::byte, Free>(data), bytes};
  used_ += bytes;
  return pointer;
}

void DeviceMemory::release(DevicePointer pointer) {
  if (pointer == 0) return;
  const auto found = allocations_.find(pointer);
  if (found == allocations_.end())
    throw DriverError(kInvalidValue, fmt::format("{:#x} is not the beginning of an allocation", pointer));
  used_ -= found->second.bytes;
  allocations_.erase(found);
}

template <class Map>
auto DeviceMemory::find(Map& allocations, DevicePointer pointer) -> decltype(&allocations.begin()->second) {
  const auto next = allocations.upper_bound(pointer);
  if (next == allocations.begin()) return nullptr;
  auto& [base, allocation] = *std::prev(next);
  return pointer - base < allocation.bytes ? &allocation : nullptr;
}

std::byte* DeviceMemory::range(DevicePointer pointer, std::size_t bytes, const char* what) const {
  auto* begin = reinterpret_cast<std::byte*>(pointer);
  if (bytes == 0) return begin;
  const Allocation* allocation = find(allocations_, pointer);
  if (allocation == nullptr)
    throw DriverError(kInvalidValue, fmt::format("{}: {:#x} is no device memory", what, pointer));
  const auto left = allocation->bytes - static_cast<std::size_t>(begin - allocation->data.get());
  if (bytes > left)
    throw DriverError(kInvalidValue, fmt::format("{}: {} bytes at {:#x}, where {} remain of the allocation", what,
                                                 bytes, pointer, left));
  return begin;
}

moxie_emulation::Region DeviceMemory::region(DevicePointer pointer) {
  Allocation* allocation = find(allocations_, pointer);
  if (allocation == nullptr) return {};
  if (!allocation->shadow) {
    const std::size_t granules = (allocation->bytes + moxie_emulation::kGranule - 1) / moxie_emulation::kGranule;
    // Of zeros that the system provides when they are touched.
    allocation->shadow.reset(
        static_cast<moxie_emulation::Shadow*>(std::calloc(granules, sizeof(moxie_emulation::Shadow))));
    if (!allocation->shadow)
      throw DriverError(kOutOfMemory, fmt::format("no memory to watch {} bytes with", allocation->bytes));
  }
  const auto offset = static_cast<std::size_t>(reinterpret_cast<std::byte*>(pointer) - allocation->data.get());
  return {allocation->data.get() + offset, allocation->shadow.get() + offset / moxie_emulation::kGranule,
          static_cast<moxie_emulation::i64>(allocation->bytes - offset)};
}

}  // namespace moxie::cuda::emulator
