#pragma once
// Barriers: where the threads of a block must wait for each other, so that none reads or overwrites what another has
// yet to write or read.
#include <set>

#include "compiler/loop/loop_program.h"

namespace moxie::cuda_text {

/// What was touched in shared scratch since the last barrier.
class Barriers {
 public:
  /// Whether a barrier must come before these accesses, which are then noted.
  bool before(const std::set<ArrayId>& reads, const std::set<ArrayId>& writes) {
    const bool needed = intersects(reads, writes_) || intersects(writes, writes_) || intersects(writes, reads_);
    if (needed) passed();
    reads_.insert(reads.begin(), reads.end());
    writes_.insert(writes.begin(), writes.end());
    return needed;
  }
  bool is_pending() const { return !reads_.empty() || !writes_.empty(); }
  void passed() { reads_.clear(), writes_.clear(); }

 private:
  static bool intersects(const std::set<ArrayId>& a, const std::set<ArrayId>& b) {
    for (const ArrayId id : a) {
      if (b.contains(id)) return true;
    }
    return false;
  }
  std::set<ArrayId> reads_, writes_;
};

}  // namespace moxie::cuda_text
