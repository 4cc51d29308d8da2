#pragma once
// MicroBatches: the gradients of a batch that is divided into parts, by one rank or by several, with the same bits.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/device.h"
#include "runtime/host_tensor.h"
#include "runtime/rows.h"
#include "runtime/session.h"

namespace moxie {

/// How the gradients of ranks become their sum: in one order for any number of ranks, or in the order that the library
/// finds fastest.
enum class Reduction : std::uint8_t { Tree, Fast };

/// How a batch is divided.
struct BatchDivision {
  std::size_t parts = 0;  // each with a fixed range of the batch's rows; 0: the batch is taken as a whole
  Reduction reduction = Reduction::Tree;
};

/// Throws DeviceError, saying which numbers are possible, where so many ranks cannot have equal numbers of parts, or
/// where parts and ranks have no common tree: with Reduction::Tree both are powers of two.
void check_division(const BatchDivision& division, int ranks);

/// Why a run ends that no error ends: flags that each rank raises and all ranks then know of.
using RankFlags = std::uint32_t;

/// A batch of S rows is divided into C parts: part c has the rows c*S/C to (c+1)*S/C. Each part gives outputs that are
/// means over its rows; the batch's are their sums, weighted by the parts' fractions of the rows, in one binary tree
/// over the parts: ((0 + 1) + (2 + 3)) + ... Every rank computes a range of parts that is a subtree, so that the sums,
/// and with them everything that is made of them, have the same bits for any number of ranks. Part c of step t draws
/// the random numbers of step t*C + c.
class MicroBatches {
 public:
  /// `gradients` reads x[S,..], perhaps target[S,..], and other inputs; it puts out the scalar `loss` and tensors
  /// without rows, f32 or f64. Throws as check_division() and check_rows() do, and TypeError for other outputs.
  MicroBatches(const Program& gradients, std::shared_ptr<Device> device, const SampleRows& data,
               const BatchDivision& division, std::shared_ptr<Communicator> communicator);

  /// What a batch gave, the same for all ranks.
  struct Result {
    double loss = 0;
    int spoilt_rank = -1;  // the lowest rank whose parts gave a NaN or an infinity; -1: none
    RankFlags flags = 0;   // of all ranks
    double waited = 0;     // seconds that this rank spent with the others: waiting for them, and adding up
  };
  /// Computes the sums of a batch. Collective. Throws DeviceError, on all ranks alike, where a part of some rank
  /// failed: the message names the rank.
  Result compute(std::span<const std::uint32_t> samples, std::uint64_t seed, std::uint64_t step, RankFlags flags);
  /// The names of the outputs besides the loss.
  std::vector<std::string> outputs() const;
  /// The sum of an output after compute(), in its dtype.
  std::span<const std::byte> sum(const std::string& output) const;

  /// Where the parts are computed: for its inputs besides x and target.
  Session& session() { return session_; }
  const Session& session() const { return session_; }
  const Communicator& communicator() const { return *communicator_; }

 private:
  /// The sum over a subtree of parts.
  struct Partial {
    std::vector<float> singles;
    std::vector<double> doubles;
    double loss = 0;
    void add(const Partial& other);
    void take_nothing(bool adds);
  };
  /// Of a part's random numbers.
  struct Draws {
    std::uint64_t seed, step;
  };
  struct Output {
    std::string name;
    DType dtype;
    std::size_t begin, count;  // within the values of its dtype
  };
  /// What ranks tell each other before they add up.
  struct Status;

  void list_outputs();
  void compute_own(std::span<const std::uint32_t> samples, std::uint64_t seed, std::uint64_t step);
  /// Writes what a part gives, or adds it to its left neighbour.
  void compute_part(std::span<const std::uint32_t> samples, std::size_t part, const Draws& draws, bool adds,
                    Partial& partial);
  void take_outputs(double weight, bool adds, Partial& partial);
  std::vector<Status> exchange_status(const Status& own);
  void throw_failures(const std::vector<Status>& ranks, const std::string& own);
  void add_up_ranks();
  template <class Real>
  void add_up(std::vector<Real>& values);
  double add_up_losses(const std::vector<Status>& ranks) const;
  std::size_t own_parts() const;

  Session session_;
  RowLoader rows_;
  BatchDivision division_;
  std::shared_ptr<Communicator> communicator_;
  std::vector<Output> outputs_;
  std::vector<Partial> partials_;  // the first is the sum; the others are those that are not added up yet
  bool is_finite_ = true;
};

}  // namespace moxie
