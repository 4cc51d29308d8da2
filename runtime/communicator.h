#pragma once
// Communicator: the processes ("ranks") that train one model together, and how they exchange bytes.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/error.h"

namespace moxie {

/// Ranks that did not answer within the time limit: they ended, hang or are out of reach, and nothing can be agreed
/// with them any more. Only the ranks that notice throw it.
class LostRankError : public Error {
 public:
  using Error::Error;
};

/// A rank gave up and told the others why (see Communicator::fail): every rank throws it, with the same message.
class RankFailure : public Error {
 public:
  using Error::Error;
};

/// All functions are collective unless they say otherwise or tell a number or a name: every rank calls them in the same
/// order, from one thread at a time. Each throws LostRankError where another rank does not answer within the time
/// limit. Bytes are those of this machine: all ranks have processors of one kind.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// From 0 to size() - 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks on this machine, which share its processors.
  virtual int local_size() const = 0;
  /// Among these, from 0 to local_size() - 1.
  virtual int local_rank() const = 0;
  /// What carries the bytes: "Open MPI v4.1.4".
  virtual std::string description() const = 0;

  /// `own` of every rank, one after the other in the order of the ranks. All give the same number of bytes, at most
  /// kLargestGather. Throws RankFailure where a rank called fail() instead.
  virtual std::vector<std::byte> all_gather(std::span<const std::byte> own) = 0;
  /// Takes the place of the next all_gather(): all ranks, this one included, throw a RankFailure with the reason of the
  /// lowest rank that failed, and its number unless all ranks failed for the same reason.
  [[noreturn]] virtual void fail(const std::string& reason) = 0;
  /// Gives `out` to rank `other`, and fills `in` with what that rank gives; both name each other.
  virtual void exchange(int other, std::span<const std::byte> out, std::span<std::byte> in) = 0;
  /// Gives all ranks the bytes that rank `root` has.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// Replaces `values` by the sum over the ranks, in the order that the library finds fastest: the bits may differ with
  /// the number of ranks. tree_sum() has one order.
  virtual void fast_sum(std::span<float> values) = 0;
  virtual void fast_sum(std::span<double> values) = 0;
  /// Not collective: ends all processes at once, also this one, for a rank that cannot agree with others any more. A
  /// process alone goes on.
  virtual void abort(int code) = 0;
  /// Returns when all ranks have called it. Throws as all_gather() does.
  void barrier() { all_gather({}); }
};

inline constexpr std::size_t kLargestGather = std::size_t{1} << 16;

/// A process alone, which every operation leaves as it is.
std::shared_ptr<Communicator> self_communicator();

struct CommunicatorOptions {
  double time_limit = 600;  // seconds that a rank waits for another one
  /// Asked while waiting: whether this process is about to be ended from outside. Then it waits a moment only.
  std::function<bool()> interrupted = [] { return false; };
};

/// The ranks that `mpirun` (or `srun`) started this process with, by MPI, which is loaded for it; self_communicator()
/// for a process that was started alone. At most one is open at a time, and after the last one is gone none can be
/// opened again. Throws DeviceError where MPI is missing or is another one than that of `mpirun`, with what to install.
std::shared_ptr<Communicator> open_communicator(const CommunicatorOptions& options = {});

/// The texts of all ranks, of any lengths, in the order of the ranks.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own);

/// Replaces `values` by the sum over the ranks, in one fixed binary tree: ((0 + 1) + (2 + 3)) + ((4 + 5) + ...). The
/// number of ranks is a power of two. Each rank adds up a part of the values and then all parts are passed on, so that
/// 2 (ranks - 1) / ranks times their bytes leave each rank, in 2 log2(ranks) messages.
void tree_sum(Communicator& communicator, std::span<float> values);
void tree_sum(Communicator& communicator, std::span<double> values);

}  // namespace moxie
