#pragma once
// Orders of the axes of a tensor in memory, and what reads it in them.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// Axis k of a tensor is axis order[k] of another one.
using AxisOrder = std::vector<std::uint32_t>;

/// Orders of more axes than these are too many to try.
inline constexpr std::size_t kMaxOrderedAxes = 4;
/// Multiply-adds that a kernel does in vectors of 16 while it loads one lane by itself.
inline constexpr double kCostOfReadingAcross = 16;

/// Whether axes can stand in any order: nothing that depends on a scan's step, on coordinates alone, or on a library's
/// layout.
bool may_be_permuted(const Definition& definition);
/// The element of `tensor` that has the subscripts of `access`, whose axes stand in this order in `tensor`.
Expr permuted_access(const std::string& tensor, const AxisOrder& order, const Expr& access);
/// The reader with elements of `other`, which has the axes of `tensor` in this order, in place of those of `tensor`.
Definition with_reads_of(const std::string& tensor, const std::string& other, const AxisOrder& order,
                         Definition reader);

/// How often an expression mentions each tensor.
std::map<std::string, int> read_counts(const Expr& expr);
/// Whether an operation of linear algebra reads the tensor.
bool reads_as_matrix(const Expr& expr, const std::string& tensor);
/// Elements of the tensor that are read, once in every iteration of the loops around them.
double loads_of(const Definition& reader, const std::string& tensor);
/// Those of them that lie apart from each other along the last axis of the reader and along all that it sums over,
/// except for what it scatters: such terms are added one by one, in rows along that axis.
double loads_across(const Program& program, const Definition& reader, const std::string& tensor);

}  // namespace moxie
