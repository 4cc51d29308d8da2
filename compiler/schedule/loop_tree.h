#pragma once
// LoopTree: the loops of a LoopProgram with their average trip counts for given extents.
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/loop/lower.h"
#include "compiler/program/program.h"
#include "compiler/schedule/pieces.h"

namespace moxie {

struct CountedLoop {
  const stmt::For* statement = nullptr;
  std::optional<std::size_t> parent;
  double executions = 0;  // in one launch
  double trips = 0;       // values of the loop's variable in one execution, on average
  double iterations = 0;  // of the loop's body in one execution: in a vector loop each takes all lanes
  double pieces = 1;      // of a loop that is split into tiles or chunks, of which an execution computes one
  /// How often the body runs in one launch.
  double body_executions() const { return executions * iterations; }
};

/// One launch of a kernel, that is one call for each of its pieces.
class LoopTree {
 public:
  /// Throws ShapeError where a dim has no value.
  LoopTree(const LoweredKernel& kernel, const DimValues& dims, const PieceCounts& pieces, int lanes);

  const LoopProgram& program() const { return program_; }
  int lanes() const { return lanes_; }
  /// Calls of the kernel.
  double calls() const { return static_cast<double>(pieces_.tiles * pieces_.chunks); }
  /// In the order of the text, so that parents come before their children.
  const std::vector<CountedLoop>& loops() const { return loops_; }
  std::size_t index_of(const stmt::For& loop) const { return indices_.at(&loop); }
  /// The value of an expression of arguments alone.
  double value(const Affine& affine) const;

 private:
  void collect(const Block& block, std::optional<std::size_t> parent);
  void set(Symbol symbol, double value);
  double pieces_of(const stmt::For& loop) const;

  const LoopProgram& program_;
  const LoweredKernel& kernel_;
  PieceCounts pieces_;
  int lanes_;
  std::vector<CountedLoop> loops_;
  std::unordered_map<const stmt::For*, std::size_t> indices_;
  std::vector<std::pair<Symbol, double>> symbols_;
};

}  // namespace moxie
