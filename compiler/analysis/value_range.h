#pragma once
// Conditions on an index against integers that tensors hold: where(start[i] <= k and k < start[i+1], e[k], 0).
#include <optional>
#include <span>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// An integer combination of indices and of elements of integer tensors, which are added to `values`: in it,
/// Symbol::value(k) is values[k].
std::optional<Affine> integer_of(const Program& program, const Expr& expr, std::vector<Expr>& values);

/// The parts of a condition that all have to hold.
void add_conjuncts(const Expr& condition, std::vector<Expr>& parts);

/// Where an index has to be for conditions to hold, between ends that do not depend on it.
struct ValueRange {
  std::vector<Expr> values;         // elements of integer tensors
  std::vector<Affine> lows, highs;  // both inclusive; Symbol::value(k) is values[k]
  std::vector<Expr> bounds;         // the conditions that say so
  std::vector<Expr> rest;           // the others
  bool operator==(const ValueRange&) const = default;
};
/// The range of the index by values, if the conditions give both of its ends.
std::optional<ValueRange> value_range(const Program& program, std::span<const Expr> conditions, Symbol index);

/// Whether the condition compares integers by size, elements of tensors among them.
bool compares_with_values(const Program& program, const Expr& condition);

/// Whether the condition says which integer, made of elements of tensors, the index is: row[z] == i.
bool gives_index(const Program& program, const Expr& condition, Symbol index);

/// The expression where all of the conditions hold.
Expr without_conditions(const Expr& expr, const std::vector<Expr>& conditions);

/// A reduction whose elements count only inside such a range.
struct RangedReduce {
  ValueRange range;
  Symbol index;
  Expr body, position;  // hold inside the range; only ArgMax and ArgMin have positions
  /// Of ArgMax and ArgMin: where no element of the range is better than the mask outside of it, the position is the
  /// first one of this whole range.
  std::optional<Range> first = {};
};
/// The integers between which data keep the index of a reduction of any kind: the elements of `start` for
/// max[k in start[i]..start[i+1]](..). Empty where data do not bound both of its ends.
std::vector<Expr> ends_by_value(const Program& program, const OpenedReduce& opened);
/// Whether the expression differs from one such range to the next, and along its index: for all pairs it has many more
/// elements than the ranges have.
bool is_of_data_range(const Expr& expr, Symbol index, const std::vector<Expr>& ends);
std::optional<RangedReduce> ranged_reduce(const Program& program, const Expr& reduction);
/// Whether the expression has such a reduction in it.
bool has_ranged_reduce(const Program& program, const Expr& expr);
bool has_integers(const Program& program);

}  // namespace moxie
