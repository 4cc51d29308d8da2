#pragma once
// What the accesses met so far contribute to the adjoints of the tensors they read.
#include <map>
#include <string>

#include "compiler/diff/inversion.h"
#include "compiler/ir/program.h"

namespace moxie {

class Contributions {
 public:
  /// `read`, an access in a definition of `dtype`, takes place at every point of `domain` and receives `adjoint` there.
  /// The read element is converted to that dtype, and so its adjoint is computed in it.
  void add(const Program& program, const IterationDomain& domain, const Expr& read, const Expr& adjoint, DType dtype);
  /// The sum of all contributions, over the tensor's axes; the constant 0 if there is none.
  Expr to(const std::string& tensor) const;

 private:
  std::map<std::string, Expr> sums_;
};

}  // namespace moxie
