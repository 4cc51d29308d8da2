#include "python/core/xla_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/support/error.h"
#include "python/core/arrays.h"
#include "python/core/device.h"
#include "python/core/function.h"
#include "runtime/cache_file.h"

namespace nb = nanobind;
namespace ffi = xla::ffi;
using namespace nb::literals;

namespace moxie::python {
namespace {

using Compiled = std::shared_ptr<CompiledFunction>;

// ---- Handles ----

struct Registry {
  std::mutex mutex;
  std::multimap<std::int64_t, ForkAware<Compiled>> functions;
};

/// Never destroyed: XLA may still release executables while the process ends.
Registry& registry() {
  static auto* instance = new Registry;
  return *instance;
}

/// Throws UsageError for a number that no handle has.
Compiled find_function(std::int64_t id) {
  Registry& known = registry();
  const std::scoped_lock lock(known.mutex);
  for (auto [place, end] = known.functions.equal_range(id); place != end; ++place) {
    if (const Compiled* function = place->second.get()) return *function;
  }
  throw UsageError(
      fmt::format("there is no formula with the handle {} in this process: the formula was deleted before the "
                  "computation was compiled, or the computation was traced by another process",
                  id));
}

/// A positive number, as jaxlib wants attributes.
std::int64_t number_of(std::string_view spelling) {
  return static_cast<std::int64_t>(std::stoull(key_digest(spelling).substr(0, 16), nullptr, 16) >> 1);
}

// ---- Tensors ----

std::optional<DType> dtype_of(ffi::DataType type) {
  const auto row = std::ranges::find(dtypes(), static_cast<int>(type), &DTypeInfo::xla);
  return row == dtypes().end() ? std::nullopt : std::optional(row->dtype);
}

std::vector<std::int64_t> shape_of(const ffi::AnyBuffer& buffer) {
  return {buffer.dimensions().begin(), buffer.dimensions().end()};
}

/// Throws TypeError where `found` is not the dtype that the formula is compiled for.
void check_dtype(const std::string& tensor, DType expected, ffi::DataType found) {
  const auto dtype = dtype_of(found);
  if (dtype == expected) return;
  throw TypeError(fmt::format("{}: expected {}, found {}", tensor, numpy_name(expected),
                              dtype ? numpy_name(*dtype) : "another dtype"));
}

// ---- Calls ----

/// A call in an executable of XLA. XLA may execute it in several threads at once.
class Call {
 public:
  static inline ffi::TypeId id{};  // XLA sets it when the type is registered

  Call(Compiled function, std::uint64_t seed, std::uint64_t step)
      : function_(std::move(function)), seed_(seed), step_(step) {}

  void run(const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results) {
    // Shapes do not change from one execution to the next.
    std::call_once(is_bound_, [&] { bound_.set(bind(arguments, results)); });
    const auto* bound = bound_.get();
    if (bound == nullptr) throw UsageError("a computation of JAX cannot go on in a process that was forked");
    std::vector<const void*> inputs(arguments.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = arguments.get<ffi::AnyBuffer>(i)->untyped_data();
    std::vector<void*> outputs(results.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = (*results.get<ffi::AnyBuffer>(i))->untyped_data();
    (*bound)->run(inputs, outputs, seed_, step_);
  }

 private:
  /// Compiles for these shapes. Throws ShapeError and TypeError where tensors are not those of the formula, so that no
  /// kernel leaves a buffer whatever computation names a handle.
  std::shared_ptr<BoundFunction> bind(const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results) {
    const Compiled* function = function_.get();
    if (function == nullptr) throw UsageError("a computation of JAX cannot go on in a process that was forked");
    const Program& program = (*function)->program();
    const std::vector<std::string>& names = (*function)->outputs();
    if (arguments.size() != program.inputs.size() || results.size() != names.size())
      throw ShapeError(fmt::format("expected {} inputs and {} outputs, found {} and {}", program.inputs.size(),
                                   names.size(), arguments.size(), results.size()));
    TensorShapes shapes;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto buffer = arguments.get<ffi::AnyBuffer>(i);
      check_dtype(program.inputs[i].name, program.inputs[i].dtype, buffer->element_type());
      shapes.push_back(shape_of(*buffer));
    }
    std::shared_ptr<BoundFunction> bound = (*function)->bind(shapes);
    for (std::size_t i = 0; i < results.size(); ++i) {
      auto buffer = results.get<ffi::AnyBuffer>(i);
      check_dtype(names[i], program.dtype_of(names[i]), (*buffer)->element_type());
      if (shape_of(**buffer) != bound->output_shapes()[i])
        throw ShapeError(fmt::format("{}: expected {}, found {}", names[i], text_of_shape(bound->output_shapes()[i]),
                                     text_of_shape(shape_of(**buffer))));
    }
    return bound;
  }

  ForkAware<Compiled> function_;
  std::uint64_t seed_, step_;
  std::once_flag is_bound_;
  ForkAware<std::shared_ptr<BoundFunction>> bound_;
};

/// The error that XLA passes on as an exception of Python. XLA itself is compiled without exceptions: none may leave a
/// handler.
ffi::Error current_error() {
  try {
    throw;
  } catch (const InternalError& error) {
    return ffi::Error::Internal(error.what());
  } catch (const Error& error) {
    return ffi::Error::InvalidArgument(error.what());
  } catch (const std::bad_alloc&) {
    return {ffi::ErrorCode::kResourceExhausted, "moxie: out of memory"};
  } catch (const std::exception& error) {
    return ffi::Error::Internal(error.what());
  }
}

ffi::ErrorOr<std::unique_ptr<Call>> instantiate(std::int64_t handle, std::int64_t seed, std::int64_t step) {
  try {
    return std::make_unique<Call>(find_function(handle), static_cast<std::uint64_t>(seed),
                                  static_cast<std::uint64_t>(step));
  } catch (...) {
    return ffi::Unexpected(current_error());
  }
}

/// The attributes were used by instantiate().
ffi::Error execute(Call* call, ffi::RemainingArgs arguments, ffi::RemainingRets results, ffi::Dictionary) {
  try {
    call->run(arguments, results);
    return ffi::Error::Success();
  } catch (...) {
    return current_error();
  }
}

XLA_FFI_DEFINE_HANDLER(
    kInstantiate, instantiate,
    ffi::Ffi::BindInstantiate().Attr<std::int64_t>("handle").Attr<std::int64_t>("seed").Attr<std::int64_t>("step"));
XLA_FFI_DEFINE_HANDLER(kExecute, execute,
                       ffi::Ffi::Bind().Ctx<ffi::State<Call>>().RemainingArgs().RemainingRets().Attrs());

template <class T>
nb::capsule capsule_of(T* pointer) {
  const auto* address = reinterpret_cast<const void*>(pointer);
  return nb::capsule(address);
}

}  // namespace

XlaHandle::XlaHandle(std::shared_ptr<CompiledFunction> function, std::string_view spelling) : id_(number_of(spelling)) {
  Registry& known = registry();
  const std::scoped_lock lock(known.mutex);
  place_ = known.functions.emplace(std::piecewise_construct, std::forward_as_tuple(id_), std::forward_as_tuple());
  place_->second.set(std::move(function));
}

XlaHandle::~XlaHandle() {
  Registry& known = registry();
  decltype(known.functions)::node_type released;  // a function that nothing else owns is destroyed without the lock
  const std::scoped_lock lock(known.mutex);
  released = known.functions.extract(place_);
}

void bind_xla(nb::module_& module) {
  nb::class_<XlaHandle>(module, "XlaHandle", "A function that computations of XLA name by a number while this exists.")
      .def(
          "__init__",
          [](XlaHandle* self, PythonFunction& function, const std::vector<std::string>& dtypes,
             const std::string& spelling) {
            new (self) XlaHandle(function.compiled_for(dtypes), fmt::format("{} {}", spelling, fmt::join(dtypes, " ")));
          },
          "function"_a, "dtypes"_a, "spelling"_a)
      .def_prop_ro("id", &XlaHandle::id);
  module.def(
      "xla_handlers",
      [] {
        nb::dict handlers;
        handlers["instantiate"] = capsule_of(kInstantiate);
        handlers["execute"] = capsule_of(kExecute);
        return handlers;
      },
      "For jax.ffi.register_ffi_target.");
  module.def(
      "xla_state_type",
      [] {
        static constexpr ffi::TypeInfo kInfo = ffi::MakeTypeInfo<Call>();
        nb::dict type;
        type["type_id"] = capsule_of(&Call::id);
        type["type_info"] = capsule_of(&kInfo);
        return type;
      },
      "For jax.ffi.register_ffi_type.");
}

}  // namespace moxie::python
