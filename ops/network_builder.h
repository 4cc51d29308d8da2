#pragma once
// What the builders of networks share: a Program in the making with its parameters.
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/compose.h"
#include "ops/network.h"

namespace moxie {

class NetworkBuilder {
 public:
  /// Declares dim S with index s, and dims N0, N1, ... of the given sizes, and the inputs x[S,N0] and, if wanted,
  /// target[S,N<last>].
  NetworkBuilder(std::string_view name, const std::vector<std::int64_t>& sizes, bool with_target);
  /// Declares dim S with index s, and the inputs x[S,row..], with the sign, and, if wanted, target[S,outputs..].
  NetworkBuilder(std::string_view name, const std::vector<std::int64_t>& row, const std::vector<std::int64_t>& outputs,
                 bool with_target, ValueDomain x_domain = ValueDomain::Any);

  /// The width of layer `layer`; 0 is the input.
  static Affine width(std::size_t layer);
  static Affine dim(std::string_view name) { return Symbol::dim(name); }

  void declare_dim(std::string name, std::int64_t value);
  /// Only for the printed text: an axis of this name and range is printed without its range.
  void declare_index(std::string name, const Affine& extent);
  void parameter(const std::string& name, std::vector<Affine> shape, Initialiser initialiser, bool trainable = true);
  void define(const std::string& name, const std::vector<Affine>& shape, const Expr& body, bool output = false);
  /// Integers, to be subscripts: each number of `body` is rounded to the nearest.
  void define_integers(const std::string& name, const std::vector<Affine>& shape, const Expr& body);
  /// Includes the catalogue's operation `op`.
  void apply(std::string_view op, const Inclusion& how);
  /// Includes a pointwise operation on x[S,N] for tensors [S,shape..].
  void apply_pointwise(std::string_view op, const std::vector<Affine>& shape, const Inclusion& how);
  void apply(const Program& op, const Inclusion& how) { include(program_, op, how); }

  const Program& program() const { return program_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  Program program_;
  std::vector<Parameter> parameters_;
};

/// Throws TypeError unless there are at least `least` sizes, all positive.
void check_sizes(std::string_view network, const std::vector<std::int64_t>& sizes, std::size_t least);

/// `tensor` with the axes of the definition around it as subscripts, one for each of its `rank` axes.
Expr element(const std::string& tensor, std::size_t rank);

}  // namespace moxie
