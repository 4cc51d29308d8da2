#pragma once
// Predictions from several stochastic passes.
#include <map>
#include <string>

#include "runtime/forward_pass.h"

namespace moxie {

class Ensemble {
 public:
  /// The outputs of one pass.
  void add(const std::map<std::string, RowValues>& outputs);
  /// The means of `probability`, `logit_mean` and `mean`, with `probability_variance` and `logit_var` (the variances
  /// over the passes), and in `variance` that of `mean` plus what the passes said of it themselves, which is
  /// `aleatoric` unless they put that out.
  std::map<std::string, RowValues> outputs() const;

 private:
  struct Moments {
    RowValues mean, squares;  // squared distances from the mean, summed
  };
  std::map<std::string, Moments> moments_;
  double count_ = 0;
};

}  // namespace moxie
