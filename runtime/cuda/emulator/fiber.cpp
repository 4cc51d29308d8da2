#include "runtime/cuda/emulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#include "compiler/support/error.h"

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace moxie::cuda::emulator {
namespace {

// Only the pages that a kernel touches are ever there. The lowest is a guard.
constexpr std::size_t kStackBytes = 1 << 18;

/// Tells the sanitizers when the stack changes. enter() and leave() must not be functions of their own, or the thread
/// sanitizer would see them begin on one stack and end on the other.
class StackWatch {
 public:
#if defined(__SANITIZE_THREAD__)
  StackWatch() : fiber_(__tsan_create_fiber(0)) {}
  ~StackWatch() { __tsan_destroy_fiber(fiber_); }
  StackWatch(const StackWatch&) = delete;
  StackWatch& operator=(const StackWatch&) = delete;
  [[gnu::always_inline]] void enter() {
    host_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, 0);
  }
  [[gnu::always_inline]] void leave() { __tsan_switch_to_fiber(host_, 0); }
#else
  void enter() {}
  void leave() {}
#endif

  /// What ran on the stack before is dropped where it stands.
  void restart([[maybe_unused]] std::byte* stack) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
    // Calls that were dropped stay on the sanitizer's stack of calls, which holds 65536. A new one takes long.
    constexpr int kMostRestarts = 1000;
    if (++restarts_ % kMostRestarts != 0) return;
    __tsan_destroy_fiber(fiber_);
    fiber_ = __tsan_create_fiber(0);
#endif
  }

#if defined(__SANITIZE_THREAD__)
 private:
  void* fiber_;
  void* host_ = nullptr;
  int restarts_ = 0;
#endif
};

}  // namespace

#if defined(__x86_64__)

// swapcontext() asks the system for the signal mask, which takes ten times as long as all the rest. Of a thread that
// calls a function, only these registers must survive.
asm(R"(
.text
.globl moxie_switch_stack
.hidden moxie_switch_stack
.type moxie_switch_stack, @function
moxie_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.globl moxie_enter_fiber
.hidden moxie_enter_fiber
.type moxie_enter_fiber, @function
moxie_enter_fiber:
  movq %r12, %rdi
  callq *%rbx
  ud2
)");
extern "C" void moxie_switch_stack(void** save, void* next);
extern "C" void moxie_enter_fiber();

struct Fiber::Contexts {
  void* host = nullptr;
  void* fiber = nullptr;
  StackWatch watch;
};

void Fiber::start(void (*function)(void*), void* argument) {
  // As moxie_switch_stack finds it: r15, r14, r13, r12, rbx, rbp and the return address. The ABI wants the stack
  // aligned at the call.
  auto* top = reinterpret_cast<void**>(stack_ + kStackBytes) - 2;
  *--top = reinterpret_cast<void*>(&moxie_enter_fiber);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(function);
  *--top = argument;
  for (int k = 0; k < 3; ++k) *--top = nullptr;
  contexts_->fiber = static_cast<void*>(top);
  contexts_->watch.restart(stack_);
}

void Fiber::resume() {
  contexts_->watch.enter();
  moxie_switch_stack(&contexts_->host, contexts_->fiber);
}

void Fiber::suspend() {
  contexts_->watch.leave();
  moxie_switch_stack(&contexts_->fiber, contexts_->host);
}

#else

struct Fiber::Contexts {
  ucontext_t host, fiber;
  void (*function)(void*);
  void* argument;
  StackWatch watch;
};

namespace {

/// makecontext() passes ints only.
void enter(unsigned high, unsigned low) {
  const auto* contexts = reinterpret_cast<const Fiber::Contexts*>((static_cast<std::uintptr_t>(high) << 32) | low);
  contexts->function(contexts->argument);
}

}  // namespace

void Fiber::start(void (*function)(void*), void* argument) {
  contexts_->function = function;
  contexts_->argument = argument;
  getcontext(&contexts_->fiber);
  contexts_->fiber.uc_stack = {.ss_sp = stack_, .ss_flags = 0, .ss_size = kStackBytes};
  contexts_->fiber.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(contexts_.get());
  makecontext(&contexts_->fiber, reinterpret_cast<void (*)()>(&enter), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
  contexts_->watch.restart(stack_);
}

void Fiber::resume() {
  contexts_->watch.enter();
  swapcontext(&contexts_->host, &contexts_->fiber);
}

void Fiber::suspend() {
  contexts_->watch.leave();
  swapcontext(&contexts_->fiber, &contexts_->host);
}

#endif

Fiber::Fiber() : contexts_(std::make_unique<Contexts>()) {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
  stack_ = static_cast<std::byte*>(memory);
}

Fiber::~Fiber() { munmap(stack_, kStackBytes); }

}  // namespace moxie::cuda::emulator
