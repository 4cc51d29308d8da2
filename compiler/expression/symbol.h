#pragma once
// Symbol: whatever may stand in an affine expression.
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace moxie {

/// A Dim, an axis of a definition, the index bound by a reduction, an index that is open during a transformation, or an
/// integer that is read from a tensor.
/// Axis(k) is the k-th index of the definition around an expression. Bound(h) is the index of a reduction whose
/// body holds reductions of height below h, so that expressions that differ in the names of their bound
/// indices only are one and the same node. Free symbols come from Symbol::fresh() and grow in number, so that an outer
/// index that was opened first sorts first. Value(k) stands in the subscripts of an access for the value of its
/// argument k, and in a LoopProgram for the value of that number; nothing is known of it.
class Symbol {
 public:
  enum class Kind : std::uint8_t { Dim, Axis, Bound, Free, Value };

  static Symbol dim(std::string_view name);
  static Symbol axis(std::uint32_t position) { return {Kind::Axis, position}; }
  static Symbol bound(std::uint32_t height) { return {Kind::Bound, height}; }
  static Symbol value(std::uint32_t number) { return {Kind::Value, number}; }
  static Symbol fresh();

  Kind kind() const { return kind_; }
  std::uint32_t number() const { return number_; }
  bool is_dim() const { return kind_ == Kind::Dim; }
  bool is_value() const { return kind_ == Kind::Value; }
  /// The dim's name; for other kinds a spelling for messages (`axis0`, `bound2`, `free17`).
  std::string name() const;

  bool operator==(const Symbol&) const = default;
  /// Dims order by name, not by when they were first seen, so that printed text never depends on the process's past.
  std::strong_ordering operator<=>(const Symbol& other) const;
  /// A hash of the content (a dim's name), equal in every process.
  std::uint64_t hash() const;

 private:
  Symbol(Kind kind, std::uint32_t number) : kind_(kind), number_(number) {}
  Kind kind_;
  std::uint32_t number_;
};

}  // namespace moxie
