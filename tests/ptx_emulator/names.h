#pragma once
// What names mean where an instruction stands: registers, and memory of every space.
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/ptx_emulator/machine.h"
#include "tests/ptx_emulator/syntax.h"

namespace moxie::ptx {

struct Register {
  Slot slot;
  unsigned bytes;  // of one lane
};
/// Memory by its address in its space.
struct Place {
  Space space;
  std::uint64_t address;
};
using Places = std::map<std::string_view, Place>;

/// The names of one kernel. Scopes nest; those of a function do not see those of its caller.
class Names {
 public:
  Names(Kernel& kernel, const Places& globals) : kernel_(kernel), globals_(globals) {}

  void open_scope() { scopes_.emplace_back(); }
  void close_scope() { scopes_.pop_back(); }
  /// For the body of a function, of which the parameters are places of its caller.
  void open_function(Places parameters);
  void close_function();

  /// Lays out registers or memory in the kernel. Throws Fault(invalid_ptx) for a space that is not known.
  void declare(const Declaration& declaration);
  std::optional<Register> find_register(std::string_view name) const;
  std::optional<Place> find_place(std::string_view name) const;
  /// One without a name.
  Register make_register(unsigned bytes);
  /// The register that always holds these bits.
  Slot constant(unsigned bytes, std::uint64_t bits);
  /// %tid.x and its like; nothing for other names.
  std::optional<Register> special(std::string_view name);

 private:
  struct Family {
    Slot first;
    unsigned bytes;
    std::uint64_t count;
  };
  struct Scope {
    bool is_function = false;
    std::map<std::string_view, Register> registers;
    std::map<std::string_view, Family> families;
    Places places;
  };
  /// Looks from the innermost scope out to the function's.
  template <class F>
  auto find(const F& look) const -> decltype(look(std::declval<const Scope&>()));

  Kernel& kernel_;
  const Places& globals_;
  std::vector<Scope> scopes_;
  std::map<std::pair<unsigned, std::uint64_t>, Slot> constants_;
  std::map<std::string_view, Register> specials_;
};

/// The next address from `end` on that an object of this alignment may have; `end` becomes the address after it.
std::uint64_t lay_out(std::uint64_t& end, std::uint64_t bytes, std::uint64_t alignment);

}  // namespace moxie::ptx
