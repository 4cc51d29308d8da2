#pragma once
// Which definitions can run slice by slice, and along which of their axes.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// What a definition reads, with the indices of its reductions open.
struct OpenedReads {
  std::vector<Expr> accesses;
  std::vector<Symbol> summed;  // where the definition is a sum, or that times a number: slices may sum parts
};

/// For typical extents: the elements along an axis, and the bytes of the tensor that a definition stores.
double typical_extent(const Affine& extent, const DimValues& extents);
double typical_bytes(const Definition& definition, const DimValues& extents);

/// For every index that is sliced the axis of a definition that it is; none where the definition sums over it.
using SlicedAxes = std::vector<std::optional<std::uint32_t>>;

struct SliceGroup {
  std::map<std::string, SlicedAxes> members;
  std::set<std::string> inside;  // members that nobody else reads: a slice of them is all that is ever stored
  std::string obstacle;          // what a member reads of which a slice does not have all
};

/// Dependences among the definitions of a Program.
class SliceSearch {
 public:
  SliceSearch(const Program& program, const DimValues& extents);

  /// Typical bytes of what the definition of this name stores.
  double bytes_of(const std::string& tensor) const;
  bool reads(const std::string& definition, const std::string& tensor) const;
  /// Multiply-adds of a sum of products.
  double multiply_adds(const std::string& definition) const;
  /// The most bytes of the tensors inside the group that hold something at the same time.
  double bytes_in_use(const SliceGroup& group) const;
  /// What has to run slice by slice if this definition does along these axes; nothing if that is not possible.
  std::optional<SliceGroup> group(const std::string& seed, const std::vector<std::uint32_t>& axes) const;
  /// The Program with large tensors computed once more for their readers behind the definition that keeps such a group
  /// from running slice by slice, as a loss stands between attention and its gradient: the readers before it and those
  /// behind it then make two groups. Nothing where that is not what keeps it.
  std::optional<Program> recomputed(const std::string& seed, const std::vector<std::uint32_t>& axes) const;
  /// Definitions that members depend on and are none themselves, with all of a scan.
  std::set<std::string> before(const SliceGroup& group) const;
  /// Definitions that depend on members of the group and are none themselves, with all of a scan of which one does.
  std::set<std::string> after(const SliceGroup& group) const;

 private:
  /// Null for an input.
  const Definition* find(const std::string& tensor) const;
  bool is_large(const Definition& definition, double least) const;
  bool grow(SliceGroup& group, double least, bool& changed) const;
  bool add_reader(SliceGroup& group, const Definition& definition, const Expr& access, bool& changed) const;
  bool add_between(SliceGroup& group, bool& changed) const;
  bool grow_all(SliceGroup& group, const std::string& seed) const;
  bool is_consistent(SliceGroup& group, const Definition& seed) const;
  void find_inside(SliceGroup& group) const;

  const Program& program_;
  const DimValues& extents_;
  std::map<std::string, OpenedReads> reads_;
  std::map<std::string, const Definition*> definitions_;
};

}  // namespace moxie
