#pragma once
// A definition's body made ready to be evaluated: symbols resolved to slots, tensors to their values.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

using Coordinates = std::vector<std::int64_t>;

struct TensorData {
  Coordinates shape;
  std::vector<double> values;
  DType dtype = DType::f32;
};

/// An affine expression over slots of the evaluator's index values and, in subscripts, over arguments of the access.
struct SlotAffine {
  std::int64_t constant = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> terms;
  std::vector<std::pair<std::size_t, std::int64_t>> values = {};
};

struct SlotRange {
  std::vector<std::pair<std::int64_t, SlotAffine>> lows, highs;
};

/// A node ready to run.
struct EvaluationStep {
  const Node* node = nullptr;
  std::vector<std::size_t> args;        // steps
  std::vector<std::size_t> depends_on;  // slots
  std::vector<SlotAffine> subscripts;
  SlotAffine affine;   // LinearAlgebra: rows of the matrix
  SlotAffine columns;  // LinearAlgebra
  SlotRange range;
  std::size_t bound_slot = 0;
  const TensorData* tensor = nullptr;
  DType dtype = DType::f32;           // in which it is computed
  std::vector<std::size_t> operands;  // LinearAlgebra: slots on which the whole result depends
};

/// The slots of a definition are its axes, then the bound indices by height.
class BodyPlan {
 public:
  BodyPlan(const Definition& definition, const DimValues& dims, const std::map<std::string, TensorData>& tensors);

  const std::vector<EvaluationStep>& steps() const { return steps_; }  // arguments first, the body last
  const std::vector<SlotRange>& axes() const { return axes_; }
  std::size_t slots() const { return axis_count_ + height_ + 1; }

 private:
  std::size_t slot(Symbol symbol) const;
  SlotAffine compile(const Affine& affine) const;
  SlotRange compile(const Range& range) const;
  std::size_t compile(const Expr& expr, DType dtype);
  DType argument_dtype(const Expr& expr, DType dtype) const;
  bool is_integer(const Expr& expr) const;
  const TensorData* find_tensor(const Node& node) const;
  std::vector<std::size_t> operand_slots(const EvaluationStep& step) const;

  std::string name_;
  std::size_t axis_count_;
  std::size_t height_;
  const DimValues& dims_;
  const std::map<std::string, TensorData>& tensors_;
  std::vector<EvaluationStep> steps_;
  std::vector<SlotRange> axes_;
  std::map<std::pair<const Node*, DType>, std::size_t> index_of_;
};

}  // namespace moxie
