#pragma once
// Inlining: which values are written into the one expression that uses them, so that the text reads like a formula.
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie::cuda_text {

class Inlining {
 public:
  /// Values that `named` says, such as reads of shared scratch, keep a name.
  template <class Named>
  Inlining(const LoopProgram& program, const Named& named)
      : program_(program), inlined_(program.values.size()), uses_(program.values.size()) {
    count(program.body);
    choose(program.body);
    for (ValueId id = 0; id < inlined_.size(); ++id) inlined_[id] = inlined_[id] && !named(program.values[id]);
  }
  bool operator()(ValueId id) const { return inlined_.at(id); }

 private:
  void count(const Block& block);
  void choose(const Block& block);
  bool may_move(const Block& block, std::size_t from, std::size_t to) const;

  const LoopProgram& program_;
  std::vector<bool> inlined_;
  std::vector<int> uses_;
};

}  // namespace moxie::cuda_text
