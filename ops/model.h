#pragma once
// Models that their users wrote: one Program with parameters, predictions and a loss becomes a Network.
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/error.h"
#include "ops/network.h"

namespace moxie {

/// The scalar output that is the loss as validation has it, of models that say so: without noise, for example.
inline constexpr std::string_view kValidationLoss = "validation_loss";
/// The scalar output that is a divergence from a prior, and the state that is its weight in the loss: 1 divided by the
/// number of training rows at the start, or what is on its way there (`--kl-warmup`).
inline constexpr std::string_view kDivergence = "kl", kDivergenceWeight = "kl_weight";

/// What a data set says of the rows that a model reads.
struct SampleShape {
  Task task = Task::Regression;
  std::int64_t features = 0;             // numbers in a row of x
  std::vector<std::int64_t> image = {};  // height, width and channels, if rows are images
  std::int64_t targets = 0;              // numbers in a row of target: values, or one for each class
};

/// A model that cannot be trained. `name` is the tensor or dim that the message is about, empty for the whole model.
class ModelError : public TypeError {
 public:
  ModelError(std::string name, std::string message, std::string hint)
      : TypeError(message + "; " + hint),
        name_(std::move(name)),
        message_(std::move(message)),
        hint_(std::move(hint)) {}
  const std::string& name() const { return name_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }

 private:
  std::string name_, message_, hint_;
};

/// What the model says of a sample: classes where it predicts `probability`, values where it predicts `mean`; nothing
/// for a model that predicts something else, which any data set may train.
std::optional<Task> task_of(const Program& model);

/// Throws ModelError for what no data set could change: without a loss, parameters or predictions, inputs that are
/// neither x[S,..] nor target[S,..] with a dynamic S, predictions that read the target, and so on.
void check_model(const Program& model);

/// The model for rows of that shape. Dims without a value take theirs from `dims` or from the shapes of x and target.
/// Throws ModelError where these contradict each other or leave a dim without value.
Network model_network(const Program& model, const SampleShape& rows, const DimValues& dims = {});

}  // namespace moxie
