#pragma once
// DimMath: sizes that depend on the dims of a call, computed when the call is made: what plan.cpp computes for known
// dims. Every size is the same formula as there, so that sums are split alike.
#include <map>
#include <span>
#include <string>

#include "compiler/loop/scratch_size.h"
#include "runtime/aot/function_writer.h"
#include "runtime/plan.h"

namespace moxie::aot {

/// Up to a multiple of the alignment, a power of two. A count too large for 64 bits stays at the largest multiple.
Val rounded_up(FunctionWriter& writer, const Val& bytes, std::int64_t alignment);

class DimMath {
 public:
  /// The values of dims, and in a scan that of its step.
  using Values = std::map<std::string, Val, std::less<>>;

  DimMath(FunctionWriter& writer, const Program& program, Values values)
      : w_(writer), program_(program), values_(std::move(values)) {}

  const Values& values() const { return values_; }
  const Val& value(const std::string& dim) const { return values_.find(dim)->second; }
  /// From here on, as for each slice.
  void set(const std::string& dim, const Val& value) { values_.insert_or_assign(dim, value); }
  void set_all(Values values) { values_ = std::move(values); }

  Val value(const Affine& affine);
  /// An extent such as S-2 is 0 where S is 1. Counts too large for 64 bits stay at the largest.
  Val extent(const Affine& size);
  Val count(const std::vector<Affine>& shape);
  Val bytes(const std::string& tensor);
  Val bytes(const ScratchSize& scratch);
  /// Of one step of a tensor of a scan.
  Val slice_count(const std::string& tensor);
  Val slice_bytes(const std::string& tensor);

  /// Rounds of a loop that starts at 0.
  Val rounds(const Range& range);
  Val rounds(const SplitLoop& loop) { return rounds(loop.range); }
  /// Chunks that the loop is shared out in.
  Val chunks(const SplitLoop& rows);
  /// Where piece `index` of `count` begins, which is where the one before it ends.
  Val boundary(const SplitLoop& loop, const Val& rounds, const Val& index, const Val& count, int lanes);

 private:
  FunctionWriter& w_;
  const Program& program_;
  Values values_;
};

}  // namespace moxie::aot
