#include "tests/runtime/rank_threads.h"

#include <algorithm>
#include <barrier>
#include <exception>
#include <optional>
#include <thread>

namespace moxie::test {
namespace {

using Bytes = std::vector<std::byte>;

/// What all ranks see: a message from each, and for each when it is read.
struct Shared {
  explicit Shared(int size) : messages(static_cast<std::size_t>(size)), reasons(messages.size()), all(size) {}
  std::vector<Bytes> messages;
  std::vector<std::optional<std::string>> reasons;
  std::barrier<> all;
};

/// Every operation is two barriers: all messages are there, and all are read. So all pairs exchange at the same time.
class ThreadRank : public Communicator {
 public:
  ThreadRank(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_.messages.size()); }
  int local_size() const override { return size(); }
  int local_rank() const override { return rank(); }
  std::string description() const override { return "threads"; }

  Bytes all_gather(std::span<const std::byte> own) override { return gather(own, std::nullopt); }
  void fail(const std::string& reason) override {
    gather({}, reason);
    throw InternalError("not reached");
  }
  void exchange(int other, std::span<const std::byte> out, std::span<std::byte> in) override {
    post(out, std::nullopt);
    std::ranges::copy(shared_.messages.at(static_cast<std::size_t>(other)), in.begin());
    shared_.all.arrive_and_wait();
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    const Bytes all = gather(bytes, std::nullopt);
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(bytes.size()) * root, bytes.size(), bytes.begin());
  }
  void fast_sum(std::span<float> values) override { tree_sum(*this, values); }
  void fast_sum(std::span<double> values) override { tree_sum(*this, values); }
  void abort(int) override { std::terminate(); }

 private:
  void post(std::span<const std::byte> own, const std::optional<std::string>& reason) {
    shared_.messages[static_cast<std::size_t>(rank_)].assign(own.begin(), own.end());
    shared_.reasons[static_cast<std::size_t>(rank_)] = reason;
    shared_.all.arrive_and_wait();
  }

  Bytes gather(std::span<const std::byte> own, const std::optional<std::string>& reason) {
    post(own, reason);
    Bytes all;
    std::string failure;
    for (std::size_t rank = shared_.messages.size(); rank-- > 0;)
      if (shared_.reasons[rank]) failure = "rank " + std::to_string(rank) + ": " + *shared_.reasons[rank];
    for (const Bytes& message : shared_.messages) all.insert(all.end(), message.begin(), message.end());
    shared_.all.arrive_and_wait();
    if (!failure.empty()) throw RankFailure(failure);
    return all;
  }

  Shared& shared_;
  int rank_;
};

}  // namespace

void on_ranks(int size, const std::function<void(const std::shared_ptr<Communicator>&)>& work) {
  Shared shared(size);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          work(std::make_shared<ThreadRank>(shared, rank));
        } catch (...) {
          failures[static_cast<std::size_t>(rank)] = std::current_exception();
          shared.all.arrive_and_drop();
        }
      });
    }
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace moxie::test
