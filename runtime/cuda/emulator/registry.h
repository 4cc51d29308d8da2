#pragma once
// Registry: the objects behind the driver's handles, so that a handle that is not, or no longer, alive is an error and
// not a crash.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "runtime/cuda/emulator/driver_error.h"

namespace moxie::cuda::emulator {

template <class Handle, class Object>
class Registry {
 public:
  explicit Registry(const char* kind) : kind_(kind) {}

  Handle add(Object object) {
    auto owned = std::make_shared<Object>(std::move(object));
    const auto handle = reinterpret_cast<Handle>(owned.get());
    objects_[handle] = std::move(owned);
    return handle;
  }
  const std::shared_ptr<Object>& get(Handle handle) const {
    const auto found = objects_.find(handle);
    if (found == objects_.end())
      throw DriverError(kInvalidHandle, fmt::format("{} is no {}", static_cast<const void*>(handle), kind_));
    return found->second;
  }
  Object& operator[](Handle handle) const { return *get(handle); }
  void remove(Handle handle) {
    get(handle);
    objects_.erase(handle);
  }

 private:
  const char* kind_;
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace moxie::cuda::emulator
