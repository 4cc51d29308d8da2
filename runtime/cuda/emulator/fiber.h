#pragma once
// Fiber: a function on a stack of its own, which hands control back in the middle and takes it up again.
#include <cstddef>
#include <memory>

namespace moxie::cuda::emulator {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Prepares a call of `function`, which must never return: it ends in suspend(). Whatever ran before is dropped where
  /// it stands.
  void start(void (*function)(void*), void* argument);
  /// Runs the function until it suspends itself.
  void resume();
  /// Called on the fiber: goes back to where it was resumed.
  void suspend();

  struct Contexts;

 private:
  std::byte* stack_;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace moxie::cuda::emulator
