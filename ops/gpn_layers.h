#pragma once
// The layers of networks of Gaussian process neurons: parameters, posteriors of activation functions, moments.
#include <functional>
#include <string>
#include <vector>

#include "ops/network_builder.h"

namespace moxie {

/// The tensors that hold what is known of some values.
struct Moments {
  std::string mean;
  std::string spread;  // a variance, or a covariance if `full`; empty where the values are known exactly
  bool full = false;
};

/// The scalar tensor of a layer's divergence of the posterior from the prior, with each set of virtual observations
/// counted once for every unit that shares it.
struct Divergence {
  std::string tensor;
  std::int64_t sharers = 1;
};

class GpnLayers {
 public:
  using Names = std::map<std::string, std::string, std::less<>>;

  /// Both outlive the layers.
  GpnLayers(const GpnOptions& options, NetworkBuilder& builder);

  static std::string prefix(std::size_t layer);

  Moments input();
  /// The moments of x W, with weights named prefix + "W" between widths `from` and `to`.
  Moments activate(const std::string& prefix, std::size_t from, std::size_t to, Moments x);
  /// Layer `layer`, with some of the tensors of its operation (mean, variance) as the network's outputs.
  Moments add(std::size_t layer, const Moments& x, Names outputs = {});
  /// What the units of `layer` make of the activations a[S,1], the same for all of them, and their virtual
  /// observations.
  void describe(std::size_t layer, const std::string& a);

  /// The tensors of all variances of virtual observations.
  const std::vector<std::string>& noises() const { return noises_; }
  const std::vector<Divergence>& divergences() const { return divergences_; }

 private:
  struct Response;
  /// The tensors [R,N] of a layer's virtual observations.
  struct Observations {
    std::string points, targets, variance;
  };

  bool variational() const { return options_.inference != GpnOptions::Inference::MaximumLikelihood; }
  std::int64_t units(std::size_t layer) const { return options_.sizes[layer]; }
  std::int64_t sets(std::size_t layer) const;
  static std::vector<Affine> per_point(std::size_t layer);
  std::string per_set(const std::string& name, const std::string& stored, std::vector<Affine> shape, std::size_t unit,
                      std::size_t layer, const Initialiser& start, bool trainable,
                      const std::function<Expr(const Expr&)>& transform = {});
  std::string per_unit(const std::string& p, const std::string& name, std::size_t layer, double start, bool trainable);
  std::string noise_of_units(const std::string& p, std::size_t layer);

  void draw(Moments& x);
  Moments with_input(const std::string& p, std::size_t layer, const Moments& a);
  Response response(const Moments& a) const;
  Moments respond(std::size_t layer, const Moments& a, const Response& response, Names outputs);
  void bind_points(Inclusion& how, std::size_t layer, bool equispaced);
  void bind_parameters(Inclusion& how, std::size_t layer);
  void bind_posterior(Inclusion& how, std::size_t layer, const Program& op);
  Initialiser targets() const;
  Expr centre() const;

  const GpnOptions& options_;
  NetworkBuilder& builder_;
  Moments input_;
  Observations observations_;  // of the last layer
  std::vector<std::string> noises_;
  std::vector<Divergence> divergences_;
};

}  // namespace moxie
