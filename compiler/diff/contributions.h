#pragma once
// What the accesses met so far contribute to the adjoints of the tensors they read.
#include <map>
#include <string>

#include "compiler/diff/gates.h"
#include "compiler/diff/inversion.h"
#include "compiler/program/program.h"

namespace moxie {

class Contributions {
 public:
  /// `gates` must outlive this.
  explicit Contributions(const Gates& gates) : gates_(gates) {}

  /// `read`, an access in a definition of `dtype`, takes place at every point of `domain` and receives `adjoint` there.
  /// The read element is converted to that dtype, and so its adjoint is computed in it. `gated`: on the way stood a
  /// `where`, which may not have chosen the element.
  void add(const Program& program, const IterationDomain& domain, const Expr& read, const Expr& adjoint, DType dtype,
           bool gated);
  /// The sum of all contributions, over the tensor's axes; the constant 0 if there is none.
  Expr to(const std::string& tensor) const;
  /// Whether every contribution may be zero because of a `where` on its way.
  bool is_gated(const std::string& tensor) const { return gated_.contains(tensor) && gated_.at(tensor); }

 private:
  const Gates& gates_;
  std::map<std::string, Expr> sums_;
  std::map<std::string, bool> gated_;
};

}  // namespace moxie
