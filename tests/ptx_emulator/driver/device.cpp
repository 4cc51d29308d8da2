#include "tests/ptx_emulator/driver/device.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace moxie::ptx {
namespace {

/// More than any test takes, and less than a host has: what asks for more is told so.
constexpr std::uint64_t kCapacity = std::uint64_t{8} << 30;

thread_local int current = -1;

/// PTX_EMULATOR_ORDER: "ascending", "descending" or "shuffled".
BlockOrder order_of_blocks() {
  const char* value = std::getenv("PTX_EMULATOR_ORDER");
  const std::string_view order = value == nullptr ? "ascending" : value;
  if (order == "descending") return BlockOrder::descending;
  if (order == "shuffled") return BlockOrder::shuffled;
  return BlockOrder::ascending;
}

}  // namespace

int device_count() {
  const char* value = std::getenv("PTX_EMULATOR_GPUS");
  return value == nullptr ? 1 : std::atoi(value);
}

int current_device() { return current; }

bool is_lasting(Reason reason) { return reason >= Reason::illegal_address && reason <= Reason::launch_failed; }

Device::Device() : memory(kCapacity), order_(order_of_blocks()) {}

Device::~Device() {
  if (misuses_ == 0) return;
  std::fputs(fmt::format("PTX emulator: the driver was misused {} times, see above\n", misuses_).c_str(), stderr);
  std::fflush(nullptr);
  std::_Exit(kMisuseExitCode);
}

void Device::misuse(const std::string& what) {
  ++misuses_;
  std::fputs(fmt::format("PTX emulator: misuse: {}\n", what).c_str(), stderr);
}

void Device::need_context(const char* call) {
  if (current >= 0 && retained_ > 0) return;
  misuse(fmt::format("{} in a thread without a current context", call));
  throw Fault(Reason::invalid_context, "the thread has no current context");
}

void Device::set_current(int number) {
  if (number >= 0 && retained_ == 0) throw Fault(Reason::invalid_context, "the context was released");
  current = number;
}

/// Those that their makers are to destroy.
std::string Device::describe_things() const {
  std::string things =
      modules.describe() + streams.describe() + events.describe() + graphs.describe() + executables.describe();
  if (!pinned.empty()) things += fmt::format("{} blocks of host memory; ", pinned.size());
  if (memory.allocations() > 0) things += fmt::format("{} blocks of device memory; ", memory.allocations());
  return things;
}

void Device::release_context() {
  if (retained_ == 0) throw Fault(Reason::invalid_context, "the context was released already");
  if (--retained_ > 0) return;
  if (const std::string things = describe_things(); !things.empty())
    misuse(fmt::format("the context goes before {}", things));
  clear();
}

/// As for a new context.
void Device::clear() {
  lost = Reason::none;
  executables.clear();
  graphs.clear();
  events.clear();
  streams.clear();
  functions.clear();
  modules.clear();
  pinned.clear();
  memory.clear();
}

void Device::lose(Reason reason) {
  lost = reason;
  for (const auto& [handle, stream] : streams) stream->forget();
}

bool Device::is_pinned(const void* host, std::uint64_t bytes) const {
  auto block = pinned.upper_bound(host);
  if (block == pinned.begin()) return false;
  --block;
  const auto* begin = static_cast<const std::byte*>(block->first);
  return static_cast<const std::byte*>(host) + bytes <= begin + block->second.bytes;
}

void Device::enqueue(Stream& stream, Work work) {
  if (lost != Reason::none) throw Fault(lost, last_error);
  stream.enqueue(std::move(work));
}

void Device::drain(Stream& stream) {
  if (lost != Reason::none) throw Fault(lost, last_error);
  try {
    stream.drain();
  } catch (const Fault& fault) {
    if (is_lasting(fault.reason())) lose(fault.reason());
    throw;
  }
}

void Device::drain_all() {
  for (const auto& [handle, stream] : streams) {
    if (!stream->is_capturing()) drain(*stream);
  }
}

void Device::launch(const std::shared_ptr<LoadedFunction>& function, Extent grid, Extent block,
                    std::vector<std::byte> parameters) {
  if (!function->is_loaded) throw Fault(Reason::illegal_address, "a kernel runs whose module is unloaded");
  run_grid({*function->kernel, grid, block, std::move(parameters), memory}, order_);
}

Device& device() {
  static Device instance;
  return instance;
}

void enqueue_on_stream(void* stream, std::function<void()> run) {
  const std::scoped_lock lock(device().mutex);
  device().need_context("cuBLAS");
  device().enqueue(*device().streams.get(stream), {std::move(run)});
}

std::byte* device_range(std::uint64_t address, std::uint64_t bytes, const char* purpose) {
  return device().memory.range(address, bytes, purpose);
}

}  // namespace moxie::ptx
