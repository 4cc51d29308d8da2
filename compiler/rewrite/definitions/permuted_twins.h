#pragma once
// Definitions that compute the elements of another one in a different order of axes.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/patterns/axis_order.h"

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
  /// twice. `earlier` are those of the call before and none or more behind them.
  std::optional<Twin> find(const std::vector<Definition>& earlier, const Definition& definition);

 private:
  /// What twins have in common: their dtype, the height of their bodies, and how often these read each tensor.
  using Kind = std::tuple<DType, std::uint32_t, std::map<std::string, int>>;
  static Kind kind_of(const Definition& definition);

  std::optional<AxisOrder> order_of(const Definition& twin, const Definition& definition) const;
  bool is_equal(const Definition& twin, const Definition& definition, const AxisOrder& order) const;
  bool suits_readers(const Twin& twin, const Definition& definition) const;

  const Program& program_;
  const Algebra algebra_;
  std::map<Kind, std::vector<std::size_t>> known_;  // those of the earlier ones that may be permuted
  std::size_t known_count_ = 0;
};

}  // namespace moxie
