#pragma once
// Definitions that compute the elements of another one in a different order of axes.
#include <optional>
#include <string>
#include <vector>

#include "compiler/rewrite/algebra.h"
#include "compiler/rewrite/axis_order.h"

namespace moxie {

class PermutedTwins {
 public:
  struct Twin {
    std::string name;
    AxisOrder order;  // its axis k is axis order[k] of the definition
  };

  /// `program`, which must outlive this, has the readers of all definitions.
  explicit PermutedTwins(const Program& program) : program_(program), algebra_(program) {}

  /// The one of `earlier` that readers of `definition` can read in its place: matrix products stay products of tensors
  /// as they lie in memory, and what other readers lose by reading across the axes is less than what is not computed
  /// twice.
  std::optional<Twin> find(const std::vector<Definition>& earlier, const Definition& definition) const;

 private:
  std::optional<AxisOrder> order_of(const Definition& twin, const Definition& definition) const;
  bool is_equal(const Definition& twin, const Definition& definition, const AxisOrder& order) const;
  bool suits_readers(const Twin& twin, const Definition& definition) const;

  const Program& program_;
  const Algebra algebra_;
};

}  // namespace moxie
