#pragma once
// ForwardPass: applies a Program to the rows of a data set.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/rows.h"
#include "runtime/session.h"

namespace moxie {

/// An output for all rows; a scalar output, which stands for a mean over samples, is averaged and has no columns.
struct RowValues {
  std::size_t columns = 0;
  std::vector<double> values;
};

class ForwardPass {
 public:
  /// `program` reads x[S,..] and possibly target[S,..]. At most `batch` rows are in work at a time.
  ForwardPass(const Program& program, std::shared_ptr<Device> device, std::size_t batch = 1024);

  /// Gives an input other than x and target its values. Tensors that the Program does not read are ignored.
  void set(const std::map<std::string, HostTensor>& tensors);
  /// The next run draws as the run number `step` with this seed does.
  void set_random_state(std::uint64_t seed, std::uint64_t step) { session_.set_random_state(seed, step); }
  /// All outputs by name. Throws ShapeError if the rows do not fit the Program, and DataError for values outside the
  /// declared domain of x or target.
  std::map<std::string, RowValues> run(const SampleRows& data);
  const Session& session() const { return session_; }

 private:
  struct Batch {
    std::size_t begin, rows, all;
    bool resizes;  // the batch before had another number of rows
  };
  void load(const std::string& input, std::span<const float> values, const Batch& batch);

  Session session_;
  std::size_t batch_;
  std::size_t room_ = 0;  // rows that the session holds
};

}  // namespace moxie
