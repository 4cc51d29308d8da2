#pragma once
// Interface: what a generated C function takes, in the order of the words of its struct of arguments: the dims, pointer
// and count of every tensor, and the state of random numbers.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan.h"

namespace moxie::aot {

struct TensorArgument {
  std::string name;   // as in the formula
  std::string field;  // as in C
  DType dtype = DType::f32;
  std::vector<Affine> shape;
  bool output = false;
  ValueDomain domain = ValueDomain::Any;
};

struct DimArgument {
  std::string name, field;
  std::int64_t least = 0;  // h[T-1] is there from T = 1 on
};

struct Interface {
  std::string name;  // of the function
  std::vector<DimArgument> dims;
  std::vector<TensorArgument> tensors;  // inputs first
  bool random = false;

  std::int64_t word_of_dim(std::size_t dim) const { return static_cast<std::int64_t>(dim); }
  std::int64_t word_of_tensor(std::size_t tensor) const { return static_cast<std::int64_t>(dims.size() + 2 * tensor); }
  std::int64_t word_of_seed() const { return word_of_tensor(tensors.size()); }
};

/// Of a specialised Program. Throws TypeError where two names come to be the same in C.
Interface interface_of(const Program& program, const std::string& name, bool random);
Interface interface_of(const Plan& plan, const std::string& name);

/// A name that C and C++ take: other characters become `_`, and words of the languages get one behind them.
std::string c_name(std::string_view name);
/// The function for a formula of this name: names of the C library and those of the header itself get `_` behind them,
/// too.
std::string function_name(std::string_view formula);

/// "S*N*14", of a shape; "1" of none.
std::string count_text(const std::vector<Affine>& shape);
/// "[S,N,14]"
std::string shape_text(const std::vector<Affine>& shape);

}  // namespace moxie::aot
