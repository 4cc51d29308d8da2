#include "runtime/cuda/gpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/cuda/nvidia_driver.h"

namespace moxie::cuda {
namespace {

// From cuda.h.
constexpr int kSharedBytesPerBlock = 8;
constexpr int kClockKilohertz = 13;
constexpr int kMultiprocessors = 16;
constexpr int kMemoryKilohertz = 36;
constexpr int kMemoryBusBits = 37;
constexpr int kThreadsPerMultiprocessor = 39;
constexpr int kCapabilityMajor = 75;
constexpr int kCapabilityMinor = 76;
constexpr unsigned kNonBlockingStream = 1;  // does not wait for the legacy default stream
constexpr Result kOutOfMemory = 2;
constexpr std::uintptr_t kLegacyStream = 1, kThreadsStream = 2;  // CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
constexpr int kPointerMemoryType = 2, kPointerDevice = 9;        // CU_POINTER_ATTRIBUTE_MEMORY_TYPE, .._DEVICE_ORDINAL
constexpr unsigned kDeviceMemoryType = 2;                        // CU_MEMORYTYPE_DEVICE

constexpr std::size_t kBlockBytes = 512;
/// A freed block serves requests down to this part of its size.
constexpr std::size_t kLargestWaste = 2;

struct Remedy {
  Result error;
  const char* text;
};
constexpr const char* kLost =
    "the device is lost to this process; what the host holds is intact: start again from what was saved last, or use "
    "another device, such as --device cpu";
constexpr const char* kVersions =
    "the driver does not know code of this compiler: install a newer driver, or an older CUDA toolkit and set "
    "CUDA_PATH";
constexpr std::array kRemedies = {
    Remedy{kOutOfMemory, "use smaller batches, or free memory that other programs hold (see nvidia-smi)"},
    Remedy{46, "another program holds the GPU for itself; see nvidia-smi"},
    Remedy{200, kVersions},
    Remedy{209, kVersions},
    Remedy{214, kLost},
    Remedy{218, kVersions},
    Remedy{222, kVersions},
    Remedy{700, kLost},
    Remedy{701, "the kernel takes more registers or shared memory than a block may: override its schedule"},
    Remedy{702, kLost},
    Remedy{714, kLost},
    Remedy{715, kLost},
    Remedy{716, kLost},
    Remedy{717, kLost},
    Remedy{718, kLost},
    Remedy{719, kLost},
};

}  // namespace

Gpu::Gpu(const Driver& driver, std::string name, int number, Stream given) : driver_(driver), name_(std::move(name)) {
  int count = 0;
  std::array<char, 256> model{};
  check(driver_.DriverGetVersion(&version_), "asking for the driver's version");
  check(driver_.DeviceGetCount(&count), "counting the GPUs");
  if (number >= count) {
    throw DeviceError(
        fmt::format("there is no device {}: the driver finds {} GPU{}, numbered from 0; see nvidia-smi, "
                    "and CUDA_VISIBLE_DEVICES",
                    name_, count, count == 1 ? "" : "s"));
  }
  check(driver_.DeviceGet(&device_, number), "opening the GPU");
  check(driver_.DeviceGetName(model.data(), static_cast<int>(model.size()), device_), "asking for the GPU's name");
  model_ = model.data();
  architecture_ = 10 * attribute(kCapabilityMajor) + attribute(kCapabilityMinor);
  multiprocessors_ = attribute(kMultiprocessors);
  threads_ = attribute(kThreadsPerMultiprocessor);
  block_shared_bytes_ = attribute(kSharedBytesPerBlock);
  check(driver_.DevicePrimaryCtxRetain(&context_, device_), "opening a context");
  try {
    enter();
    take_stream(given);
  } catch (...) {
    driver_.DevicePrimaryCtxRelease(device_);
    throw;
  }
}

Gpu::~Gpu() {
  settle();
  for (const auto& [block, bytes] : sizes_) driver_.MemFree(block);
  if (owns_stream_) driver_.StreamDestroy(stream_);
  driver_.DevicePrimaryCtxRelease(device_);
}

void Gpu::take_stream(Stream given) {
  owns_stream_ = given == nullptr;
  if (owns_stream_) return check(driver_.StreamCreate(&stream_, kNonBlockingStream), "making a stream");
  // Each thread would enqueue on a stream of its own, and memory is used again in the order of one.
  if (reinterpret_cast<std::uintptr_t>(given) == kThreadsStream)
    throw UsageError("device " + name_ +
                     " was given the default stream of each thread; give it a stream made by "
                     "cudaStreamCreate or cuStreamCreate");
  Context context = nullptr;
  check(driver_.StreamGetCtx(given, &context), "asking for the context of the given stream");
  if (context != context_)
    throw DeviceError(
        fmt::format("the stream given to device {} belongs to another context than the primary one of GPU "
                    "{}; make the stream on this GPU",
                    name_, device_));
  stream_ = given;
}

bool Gpu::can_record() const { return reinterpret_cast<std::uintptr_t>(stream_) != kLegacyStream; }

void Gpu::check_memory(DevicePointer address) const {
  const Turn turn = this->turn();
  unsigned type = 0;
  int device = -1;
  const bool known = driver_.PointerGetAttribute(&type, kPointerMemoryType, address) == 0 &&
                     driver_.PointerGetAttribute(&device, kPointerDevice, address) == 0;
  if (known && type == kDeviceMemoryType && device == device_) return;
  throw DeviceError(
      fmt::format("a tensor at address {:#x} was given as memory of device {}, but {}; give memory of this "
                  "GPU, or name the device that it belongs to",
                  address, name_,
                  !known                      ? "the driver knows no such memory"
                  : type != kDeviceMemoryType ? "it is memory of the host"
                                              : fmt::format("it belongs to GPU {}", device)));
}

int Gpu::attribute(int number) const {
  int value = 0;
  check(driver_.DeviceGetAttribute(&value, number, device_), "asking for the GPU's limits");
  return value;
}

std::string Gpu::describe() const {
  return fmt::format("{} (sm_{}, driver for CUDA {})", model_, architecture_, version_text(version_));
}

/// Memory moves data twice in a cycle of its clock.
GpuModel Gpu::model() const {
  const double bytes_a_cycle = 2 * attribute(kMemoryBusBits) / 8.0;
  return {model_, architecture_, multiprocessors_, attribute(kClockKilohertz) / 1e6,
          attribute(kMemoryKilohertz) / 1e6 * bytes_a_cycle};
}

void Gpu::enter() const { check(driver_.CtxSetCurrent(context_), "entering the context"); }

Gpu::Turn Gpu::turn() const {
  Turn turn(turns_);
  enter();
  return turn;
}

Gpu::Turn Gpu::last_turn() const noexcept {
  Turn turn(turns_);
  make_current();
  return turn;
}

void Gpu::fail(Result error, std::string_view what, std::string_view details) const {
  throw DeviceError(message(error, what, details));
}

std::string Gpu::message(Result error, std::string_view what, std::string_view details) const {
  const auto* known = std::ranges::find(kRemedies, error, &Remedy::error);
  std::string message = fmt::format("{} on {}, {}: {}", what, name_, describe(), error_text(driver_, error));
  if (known != kRemedies.end()) message += fmt::format(": {}", known->text);
  if (!details.empty()) message += fmt::format("\n{}", details);
  return message;
}

DevicePointer Gpu::allocate(std::size_t bytes) {
  const Turn turn = this->turn();
  const std::size_t wanted = (std::max<std::size_t>(bytes, 1) + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  const auto kept = unused_.lower_bound(wanted);
  if (kept != unused_.end() && kept->first <= kLargestWaste * wanted) {
    const DevicePointer block = kept->second;
    unused_.erase(kept);
    return block;
  }
  DevicePointer block = 0;
  Result error = driver_.MemAlloc(&block, wanted);
  if (error == kOutOfMemory && free_unused()) error = driver_.MemAlloc(&block, wanted);
  if (error != 0) fail(error, fmt::format("allocating {} bytes beside the {} held so far", wanted, held_bytes_));
  sizes_[block] = wanted;
  held_bytes_ += wanted;
  return block;
}

void Gpu::release(DevicePointer block) noexcept {
  const Turn turn = last_turn();
  if (const auto known = sizes_.find(block); known != sizes_.end()) unused_.emplace(known->second, block);
}

/// Whether there were any.
bool Gpu::free_unused() noexcept {
  const bool any = !unused_.empty();
  for (const auto& [bytes, block] : unused_) {
    driver_.MemFree(block);
    sizes_.erase(block);
    held_bytes_ -= bytes;
  }
  unused_.clear();
  return any;
}

void Gpu::watch(const std::shared_ptr<Watched>& watched) {
  const Turn turn = this->turn();
  const auto same = [&](const std::weak_ptr<Watched>& other) {
    return !other.owner_before(watched) && !watched.owner_before(other);
  };
  if (std::ranges::none_of(watched_, same)) watched_.push_back(watched);
}

void Gpu::settle() noexcept {
  const Turn turn = last_turn();
  driver_.StreamSynchronize(stream_);
}

void Gpu::synchronize() {
  const Turn turn = this->turn();
  std::vector<std::shared_ptr<Watched>> pending;
  for (const std::weak_ptr<Watched>& watched : std::exchange(watched_, {})) {
    if (auto alive = watched.lock()) pending.push_back(std::move(alive));
  }
  if (const Result error = driver_.StreamSynchronize(stream_); error != 0) {
    std::vector<std::string> what;
    for (const auto& watched : pending) what.push_back(watched->describe());
    fail(error,
         fmt::format("running {}", what.empty() ? "what was enqueued" : fmt::format("{}", fmt::join(what, "; "))));
  }
  finished_ticket_ = issued_ticket_;
  for (const auto& watched : pending) watched->check();
}

}  // namespace moxie::cuda
