#pragma once
// Calls of formulas by XLA, the compiler of JAX, through its typed foreign function interface (FFI). XLA gives a
// handler the addresses of its buffers: no call needs Python or the GIL, and nothing is copied.
//
// A formula is an attribute of the call: the id of an XlaHandle. XLA instantiates each call of a computation once; from
// then on the executable shares the ownership of the function, whether or not the handle still exists.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string_view>

#include "python/core/device.h"
#include "runtime/compiled_function.h"

namespace moxie::python {

/// A function that XLA can find by a number while a handle of its spelling exists. The number is that of the spelling
/// in every process, so that a saved executable finds its function or none. Thread-safe.
class XlaHandle {
 public:
  XlaHandle(std::shared_ptr<CompiledFunction> function, std::string_view spelling);
  ~XlaHandle();
  XlaHandle(const XlaHandle&) = delete;
  XlaHandle& operator=(const XlaHandle&) = delete;
  std::int64_t id() const { return id_; }

 private:
  std::int64_t id_;
  std::multimap<std::int64_t, ForkAware<std::shared_ptr<CompiledFunction>>>::iterator place_;
};

/// XlaHandle and what jax.ffi registers: xla_handlers() and xla_state_type().
void bind_xla(nanobind::module_& module);

}  // namespace moxie::python
