#pragma once
// Slices: a part of a Program that runs once for every slice of some of its indices, so that what lies between its
// steps is small enough for a cache. Attention runs for some rows of one head, and never stores all pairs of words.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// One index that is cut into slices. Its elements in a slice are those from `first` on.
struct SliceAxis {
  std::string name;        // of the index, for printed text
  Affine extent;           // all of its elements
  std::int64_t block = 1;  // elements of a slice; the last slice may have fewer; 0: the square root of the extent
  std::string first;       // the dim that holds the number of the first element
  std::string count;       // the dim that holds how many there are; empty where it is always `block`
  bool operator==(const SliceAxis&) const = default;
};

/// The part of a whole tensor that belongs to a slice: contiguous, from the elements that these dims hold on along the
/// first axes of the tensor.
struct SliceView {
  std::string tensor;
  std::vector<std::string> first;
  bool operator==(const SliceView&) const = default;
};

/// Dims that tell slices of one axis where others have left what they need.
struct SliceNumbers {
  std::string number, next;  // the number of the slice, counted from 0, and the number after it
  std::string turn, other;   // 0 and 1 by turns; 0 for the slice that runs last
  std::string slots;         // how many slices there are, plus one
  bool operator==(const SliceNumbers&) const = default;
};

struct Slices {
  std::vector<SliceAxis> axes;             // outermost first: the order in which slices run
  std::map<std::string, SliceView> views;  // by the name that steps of a slice have for them
  /// Sums over sliced indices, with the dims `first` of these: slices add to what is there unless all of them are 0.
  std::map<std::string, std::vector<std::string>> sums;
  /// Where each slice adds what it has of these sums when it has run; the others are added as they are computed.
  std::map<std::string, SliceView> parts;
  bool backwards = false;  // the last slice runs first
  std::optional<SliceNumbers> numbers = {};
  bool operator==(const Slices&) const = default;
};

/// Definitions that run together, before those of the next part.
struct ProgramPart {
  Program program;
  std::optional<Slices> slices;
  std::vector<Definition> results = {};  // whole tensors that the slices of this part compute
  /// Tensors with sliced axes first: copies that belong before this part, and what is copied behind it.
  std::vector<Definition> copies_before = {}, copies_behind = {};
};

/// The name of in_slices() among passes that can be left out.
inline constexpr const char* kSlicesPass = "slices";

/// How many slices there are.
std::int64_t slice_count(const Slices& slices, const DimValues& dims);
/// Puts the dims of the slice that runs after `done` others into `dims`, which has those of the Program.
void set_dims_of_run(const Slices& slices, std::int64_t done, DimValues& dims);
/// Puts the dims of the slice with this number into `dims`, which has those of the Program.
void set_slice_dims(const Slices& slices, std::int64_t number, DimValues& dims);

/// Whether a slice with these dims is not the first along all of the axes with the dims `firsts`.
bool is_later(const std::vector<std::string>& firsts, const DimValues& dims);

/// What runs slices.
struct SliceTarget {
  double cache_bytes = 0;  // that a slice should fit into
  /// How often the tensors of a group must fill that before slices of them are worth their launches.
  double least_caches = 12;
  bool has_library = true;  // for products of matrices, which adds products of slices to what is there
  bool has_bands = true;    // whether that library computes products of a band
  bool adds_parts = true;   // whether sums over slices that no library computes are added up
};

/// An optimised Program, as it is or in parts, those in slices where tensors between matrix products take more memory
/// than a cache and their slices fit into it. `extents` has typical values of dims.
std::vector<ProgramPart> in_slices(const Program& optimised, const SliceTarget& target, const DimValues& extents);

}  // namespace moxie
