#pragma once
// PerPlan: what a device has made of Plans that are in use, so that another set of extents needs no code generation.
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/plan.h"

namespace moxie {

/// Values are small, such as pointers that executables share. Thread-safe; two threads may make the value of one plan
/// at the same time, and then use one of the two.
template <class Value>
class PerPlan {
 public:
  /// The value of the plan, made by `make` unless there is one. Those of plans that nobody uses any more go.
  template <class Make>
  Value find_or_make(const std::shared_ptr<const Plan>& plan, const Make& make) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto known = values_.find(plan); known != values_.end()) return known->second;
    }
    Value made = make();
    const std::scoped_lock lock(mutex_);
    std::erase_if(values_, [](const auto& entry) { return entry.first.expired(); });
    return values_.emplace(plan, std::move(made)).first->second;
  }

 private:
  std::map<std::weak_ptr<const Plan>, Value, std::owner_less<>> values_;
  std::mutex mutex_;
};

}  // namespace moxie
