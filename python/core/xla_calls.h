#pragma once
// Calls of formulas by XLA, the compiler of JAX, through its typed foreign function interface (FFI). XLA gives a
// handler the addresses of its buffers: no call needs Python or the GIL, and nothing is copied.
//
// A formula is an attribute of the call: the id of an XlaHandle. XLA instantiates each call of a computation once; from
// then on the executable shares the ownership of the function, whether or not the handle still exists.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "runtime/compiled_function.h"

namespace moxie::python {

/// A function that XLA can find by a number while the handle exists. Numbers are not used again. Thread-safe.
class XlaHandle {
 public:
  explicit XlaHandle(std::shared_ptr<CompiledFunction> function);
  ~XlaHandle();
  XlaHandle(const XlaHandle&) = delete;
  XlaHandle& operator=(const XlaHandle&) = delete;
  std::int64_t id() const { return id_; }

 private:
  std::int64_t id_;
};

/// XlaHandle and what jax.ffi registers: xla_handlers() and xla_state_type().
void bind_xla(nanobind::module_& module);

}  // namespace moxie::python
