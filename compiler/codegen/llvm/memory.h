#pragma once
// Loads and stores of scalars and vectors: plain, masked, gathered or scattered as the lanes' addresses and the masks
// demand.
#include <optional>
#include <string>
#include <vector>

#include "compiler/codegen/llvm/addressing.h"
#include "compiler/codegen/llvm/text_builder.h"

namespace moxie::llvm_ir {

/// Elements in memory: those `at.step` apart, from the element `at.first` behind `pointer` on.
struct Place {
  std::string pointer;  // with its %
  Scalar type;          // of an element
  Offset at;
};

/// The name of zeros that every module defines: what a load reads when its guard is false. Each lane has a word of 64
/// bits, as the widest elements have.
inline constexpr std::string_view kZeros = "@moxie.zeros";

class Memory {
 public:
  Memory(TextBuilder& builder, Addressing& addressing, int lanes)
      : ir_(builder), addressing_(addressing), lanes_(lanes) {}

  /// One element for every lane, or (`varying` false) one for all. Where `guard` is false nothing is read and the
  /// result is zero; lanes outside `active` read nothing, and at least one lane is active. A missing mask is true in
  /// every lane.
  Val load(const Place& place, bool varying, const std::optional<Val>& guard, const std::optional<Val>& active);
  void store(const Place& place, const Val& value, const std::optional<Val>& active);

  /// Loads or stores `count` neighbours from the place of each lane on (a power of two, at most the lanes): value k has
  /// element k of every lane.
  std::vector<Val> load_run(const Place& place, std::size_t count);
  void store_run(const Place& place, const std::vector<Val>& values);

  /// Asks for the cache line of the first lane; the address may lie outside the tensor.
  void prefetch(const Place& place, bool for_writing);

  /// The number of the first lane whose bit is set, as an i64; one is.
  Val first_lane(const Val& mask);

 private:
  /// The pointer, or that to zeros where a guard of all lanes does not hold.
  std::string guarded(const std::string& pointer, const std::optional<Val>& guard);
  Val load_uniform(const Place& place, const std::optional<Val>& guard);
  Val load_broadcast(const Place& place, const std::optional<Val>& guard, const std::optional<Val>& active);
  Val load_vector(const Place& place, const std::string& pointer);
  Val load_strided(const Place& place);
  std::string element(const Place& place);
  std::string element_of_each_lane(const Place& place);
  std::string element_of_lane(const Place& place, const std::string& first, int lane);
  std::vector<Val> transposed(std::vector<Val> rows);
  std::string lowest_element(const Place& place);
  void store_backwards(const Place& place, const Val& value, const std::optional<Val>& active);
  std::string mask_text(const std::optional<Val>& mask) const;
  std::optional<Val> both(const std::optional<Val>& a, const std::optional<Val>& b);

  TextBuilder& ir_;
  Addressing& addressing_;
  int lanes_;
};

/// <0, 1, 2, ...> * factor, of i32 or i64.
Val lane_numbers(Scalar type, int lanes, std::int64_t factor = 1);

}  // namespace moxie::llvm_ir
