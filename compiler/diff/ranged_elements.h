#pragma once
// Elements that only ranges by data read.
#include "compiler/program/program.h"

namespace moxie {

/// The scores `let s[b,n] = sum[c](q[b,c]*k[n,c])` of ragged attention, which are read only at `n in
/// start[b]..start[b+1]`, are computed where they are read: of all pairs of a row and an element the ranges have few,
/// and derivatives would have as many adjoints. Elements that are computed twice may differ in their last bit: in
/// strict and accurate precision none that a definition compares, or of which it reads two. Definitions of scans, with
/// promises of their own, and long ones stay.
Program compute_ranged_elements(const Program& program);

}  // namespace moxie
