#pragma once
// Names: how tensors, loops and dims of a LoopProgram are called in CUDA C++, without clashes.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie::cuda_text {

class Names {
 public:
  explicit Names(const LoopProgram& program);

  const std::string& buffer(BufferId id) const { return buffers_.at(id); }
  const std::string& array(ArrayId id) const { return arrays_.at(id); }
  static std::string value(ValueId id) { return "v" + std::to_string(id); }
  static std::string var(VarId id) { return "acc" + std::to_string(id); }
  /// An integer argument or the variable of an open loop.
  const std::string& symbol(Symbol symbol) const;

  /// A loop's variable has a name of its own from open() to close().
  std::string open(const stmt::For& loop);
  void close(const stmt::For& loop);
  /// Gives the name so far.
  std::string rename(Symbol symbol, std::string name) { return std::exchange(symbols_.at(symbol), std::move(name)); }
  /// A further name in the kernel that clashes with none.
  std::string fresh(const std::string& wanted);

 private:
  std::set<std::string> taken_;
  std::vector<std::string> buffers_, arrays_;
  std::map<Symbol, std::string> symbols_;
};

}  // namespace moxie::cuda_text
