#include "runtime/cpu/code_symbols.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "runtime/log.h"
#include "runtime/private_file.h"
#include "runtime/switches.h"

// ---- The interface of gdb (and lldb), which finds these by their names: "JIT Compilation Interface" in its manual.
// ---- Weak: where the host program or another of its libraries defines them, their list is used.
extern "C" {

struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};

struct jit_descriptor {
  std::uint32_t version;
  std::uint32_t action_flag;
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};

// A debugger stops here to look at the descriptor. The names are those that debuggers look for.
// NOLINTBEGIN(bugprone-reserved-identifier)
[[gnu::weak, gnu::noinline, gnu::used]] void __jit_debug_register_code() { asm volatile("" ::: "memory"); }

[[gnu::weak, gnu::used]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
// NOLINTEND(bugprone-reserved-identifier)
}

namespace moxie {
namespace {

enum Action : std::uint32_t { kRegister = 1, kUnregister = 2 };

std::mutex& list_mutex() {
  static std::mutex mutex;
  return mutex;
}

void tell_debugger(jit_code_entry& entry, Action action) {
  __jit_debug_descriptor.relevant_entry = &entry;
  __jit_debug_descriptor.action_flag = action;
  __jit_debug_register_code();
}

/// The file that perf looks for, whatever TMPDIR says. Everybody may write to its folder, so that a file or a link of
/// another user can be there already.
void append_to_perf_map(const std::vector<LoadedObject::Function>& functions) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const std::string path = fmt::format("/tmp/perf-{}.map", getpid());
  std::string lines;
  for (const LoadedObject::Function& function : functions)
    lines +=
        fmt::format("{:x} {:x} {}\n", reinterpret_cast<std::uintptr_t>(function.address), function.size, function.name);
  try {
    append_private_file(path, lines);
  } catch (const std::exception& error) {
    log_info(LogChannel::Codegen, "MOXIE_SYMBOLS: {} is not written: {}", path, error.what());
  }
}

}  // namespace

struct PublishedCode::Registration {
  std::string image;
  jit_code_entry entry{};
};

SymbolConsumers symbol_consumers() {
  const auto wanted = split_list(switch_value("MOXIE_SYMBOLS"));
  const auto has = [&](const char* name) { return std::ranges::find(wanted, name) != wanted.end(); };
  return {has("perf"), has("gdb")};
}

PublishedCode::PublishedCode(const std::string& object, const LoadedObject& code, SymbolConsumers consumers) {
  if (consumers.perf) append_to_perf_map(code.functions(object));
  if (!consumers.gdb) return;
  registration_ = std::make_unique<Registration>();
  registration_->image = code.with_addresses(object);
  const std::scoped_lock lock(list_mutex());
  jit_code_entry*& first = __jit_debug_descriptor.first_entry;
  registration_->entry = {first, nullptr, registration_->image.data(), registration_->image.size()};
  if (first) first->prev_entry = &registration_->entry;
  first = &registration_->entry;
  tell_debugger(registration_->entry, kRegister);
}

PublishedCode::~PublishedCode() {
  if (!registration_) return;
  const std::scoped_lock lock(list_mutex());
  jit_code_entry& entry = registration_->entry;
  (entry.prev_entry ? entry.prev_entry->next_entry : __jit_debug_descriptor.first_entry) = entry.next_entry;
  if (entry.next_entry) entry.next_entry->prev_entry = entry.prev_entry;
  tell_debugger(entry, kUnregister);
}

}  // namespace moxie
