#pragma once
// Proofs that accesses lie inside their tensors.
#include <map>
#include <optional>
#include <string>

#include "compiler/expression/node_map.h"
#include "compiler/program/index_domain.h"
#include "compiler/program/program.h"

namespace moxie {

/// Where an access has to lie: at an element that exists, or only somewhere in the tensor's storage, which is a box.
/// The latter is what generated code needs; it computes both branches of a condition, and heeds the condition only
/// where it guards an access directly: where(c, x[i], 0). Subscripts that depend on values count as inside: they are
/// checked or clamped when they are read.
enum class Inside : std::uint8_t { Element, Storage };

/// The step of a scan at which something is computed.
struct AtStep {
  Scan scan;
  Affine step;
  /// Tensors of the scan that keep their last steps only: subscripts have places in them, and the lag was known when
  /// these were chosen.
  const std::map<std::string, std::int64_t>* folded = nullptr;

  /// How many steps ago the step was that `access` reads, of a tensor of the same scan.
  Affine lag_of(const Expr& access) const;
  /// Whether that is one number, or known to be at least 1.
  bool knows_lag_of(const Expr& access, const IndexDomain& domain) const;
};

class InsideProof {
 public:
  /// With a step: what is read of the same scan has to be there when the scan comes to it, too.
  InsideProof(const Program& program, Inside wanted, std::optional<AtStep> at = {})
      : program_(program), wanted_(wanted), at_(std::move(at)) {}

  bool holds(const Expr& access, const IndexDomain& domain) const;
  /// The extents of the tensor that the access reads.
  std::vector<Affine> extents_of(const Expr& access) const { return program_.shape_of(access->tensor); }
  /// Whether it holds for every access in `expr`, by the domain and by the ranges and conditions inside the expression.
  bool holds_within(const Expr& expr, const IndexDomain& domain) const;
  /// The same without the conditions inside the expression.
  bool holds_unguarded(const Expr& expr, const IndexDomain& domain) const;

 private:
  struct Place {
    IndexDomain domain;
    NodeSet done = {};
    NodeMap<bool> unguarded = {};  // whether the node holds whatever its conditions say
  };
  bool heeds_condition(const Expr& where) const;
  bool holds_at(const Expr& expr, Place& place) const;
  bool holds_unguarded(const Expr& expr, Place& place) const;

  const Program& program_;
  Inside wanted_;
  std::optional<AtStep> at_;
};

}  // namespace moxie
