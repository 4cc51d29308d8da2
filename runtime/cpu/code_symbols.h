#pragma once
// Names of code that was made at run time, for profilers and debuggers (MOXIE_SYMBOLS).
#include <memory>
#include <string>
#include <string_view>

#include "runtime/cpu/object_loader.h"

namespace moxie {

/// What MOXIE_SYMBOLS asks for.
struct SymbolConsumers {
  bool perf = false;  // a file with names and addresses, which perf reads
  bool gdb = false;   // objects registered with the debugger, with line tables
  bool any() const { return perf || gdb; }
};
SymbolConsumers symbol_consumers();

/// Code that debuggers know as long as this lives.
class PublishedCode {
 public:
  /// `object` is what `code` was loaded from.
  PublishedCode(const std::string& object, const LoadedObject& code, SymbolConsumers consumers);
  ~PublishedCode();
  PublishedCode(const PublishedCode&) = delete;
  PublishedCode& operator=(const PublishedCode&) = delete;

 private:
  struct Registration;
  std::unique_ptr<Registration> registration_;
};

}  // namespace moxie
