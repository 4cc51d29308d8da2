#include "runtime/mpi/mpi_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/mpi/mpi_library.h"

namespace moxie {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// MPI counts bytes and elements as int.
constexpr std::size_t kLargestMessage = std::size_t{1} << 30;
/// Rank 0 knows best who is missing, and is to say so first.
constexpr double kPatienceWithRankZero = 2;
/// mpirun sends SIGTERM when a rank has died, and SIGKILL a second later: who is missing must be said in between.
constexpr double kPatienceAfterSignal = 0.3;
/// A rank that waits looks for its messages without a pause at first, as they most often come soon, then lets others
/// have the processor: ranks may share one.
constexpr Seconds kSpinTime{200e-6}, kYieldTime{2e-3};
constexpr std::chrono::microseconds kNap{50};

enum Tag : int { kGatherTag = 1, kExchangeTag, kBroadcastTag };

/// A message that is under way, and the rank at its other end; -1: all.
struct Pending {
  void* request;
  int rank;
};

/// What each gathered message begins with: 0, or 1 + the rank that failed, followed by its reason in place of values.
using GatherHead = std::uint64_t;
constexpr std::size_t kLongestReason = 4000;

std::vector<std::byte> with_head(GatherHead head, std::span<const std::byte> rest) {
  std::vector<std::byte> message(sizeof head + rest.size());
  std::memcpy(message.data(), &head, sizeof head);
  std::ranges::copy(rest, message.begin() + sizeof head);
  return message;
}

GatherHead head_of(std::span<const std::byte> message) {
  GatherHead head = 0;
  std::memcpy(&head, message.data(), sizeof head);
  return head;
}

/// Reasons end with a zero, whatever the size of the buffer that holds them.
std::string reason_of(std::span<const std::byte> message) {
  return reinterpret_cast<const char*>(message.data() + sizeof(GatherHead));
}

std::vector<std::byte> failing_message(int rank, const std::string& reason) {
  const std::string text = reason.substr(0, kLongestReason - 1);
  return with_head(static_cast<GatherHead>(rank) + 1, std::as_bytes(std::span(text.c_str(), text.size() + 1)));
}

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(const moxie_mpi_functions& mpi, const moxie_mpi_world& world, CommunicatorOptions options)
      : mpi_(mpi), world_(world), options_(std::move(options)) {}
  ~MpiCommunicator() override {
    if (!is_lost_) mpi_.finish();
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return world_.rank; }
  int size() const override { return world_.size; }
  int local_size() const override { return world_.local; }
  int local_rank() const override { return world_.local_rank; }
  /// "Open MPI v4.1.4", "MPICH Version: 4.0.2": the beginning of what the library says.
  std::string description() const override {
    std::string name = mpi_.library();
    name.resize(std::min(name.size(), name.find_first_of(",\n")));
    std::ranges::replace(name, '\t', ' ');
    return name;
  }

  std::vector<std::byte> all_gather(std::span<const std::byte> own) override {
    if (own.size() > kLargestGather) throw InternalError(fmt::format("{} bytes are gathered at once", own.size()));
    const std::vector<std::byte> answer = gather(with_head(0, own), own.size());
    const auto begin = answer.begin() + sizeof(GatherHead);
    return {begin, begin + static_cast<std::ptrdiff_t>(own.size() * ranks())};
  }

  void fail(const std::string& reason) override {
    gather(failing_message(rank(), reason), kLargestGather);
    throw InternalError("a failure of a rank was lost");
  }

  void exchange(int other, std::span<const std::byte> out, std::span<std::byte> in) override {
    std::vector<Pending> pending;
    receive(in, other, kExchangeTag, pending);
    send(out, other, kExchangeTag, pending);
    wait(pending, 0);
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    std::vector<Pending> pending;
    if (rank() != root) receive(bytes, root, kBroadcastTag, pending);
    for (int to = 0; rank() == root && to < size(); ++to)
      if (to != root) send(bytes, to, kBroadcastTag, pending);
    wait(pending, 0);
  }

  void fast_sum(std::span<float> values) override { sum(values, mpi_.sum_f32); }
  void fast_sum(std::span<double> values) override { sum(values, mpi_.sum_f64); }
  void abort(int code) override {
    is_lost_ = true;
    mpi_.abort(code);
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  /// What rank 0 makes of the messages of all ranks, `width` bytes each besides their heads. Throws RankFailure.
  std::vector<std::byte> gather(const std::vector<std::byte>& own, std::size_t width) {
    const std::vector<std::byte> answer = rank() == 0 ? answer_of(collect(own, width)) : ask(own, width);
    if (rank() == 0) spread(answer);
    if (head_of(answer) == 0) return answer;
    const std::string reason = reason_of(answer);
    const bool all_failed = head_of(answer) > ranks();
    throw RankFailure(all_failed ? reason : fmt::format("rank {}: {}", head_of(answer) - 1, reason));
  }

  std::vector<std::vector<std::byte>> collect(const std::vector<std::byte>& own, std::size_t width) {
    std::vector<std::vector<std::byte>> messages(ranks());
    std::vector<Pending> pending;
    messages[0] = own;
    for (int from = 1; from < size(); ++from) {
      auto& message = messages[static_cast<std::size_t>(from)];
      message.resize(sizeof(GatherHead) + std::max(width, kLongestReason));
      receive(message, from, kGatherTag, pending);
    }
    wait(pending, 0);
    for (auto& message : messages) {
      if (head_of(message) == 0) message.resize(sizeof(GatherHead) + width);
    }
    return messages;
  }

  /// All values, or the reason of the lowest rank that failed; under the number of ranks + 1 where all failed alike.
  std::vector<std::byte> answer_of(const std::vector<std::vector<std::byte>>& messages) const {
    const auto failed = [](const auto& message) { return head_of(message) != 0; };
    const auto first = std::ranges::find_if(messages, failed);
    if (first == messages.end()) {
      std::vector<std::byte> values = with_head(0, {});
      for (const auto& message : messages)
        values.insert(values.end(), message.begin() + sizeof(GatherHead), message.end());
      return values;
    }
    const std::string reason = reason_of(*first);
    const bool all_alike =
        std::ranges::all_of(messages, [&](const auto& each) { return failed(each) && reason_of(each) == reason; });
    return failing_message(all_alike ? size() : static_cast<int>(head_of(*first) - 1), reason);
  }

  void spread(const std::vector<std::byte>& answer) {
    std::vector<Pending> pending;
    for (int to = 1; to < size(); ++to) send(answer, to, kGatherTag, pending);
    wait(pending, 0);
  }

  std::vector<std::byte> ask(const std::vector<std::byte>& own, std::size_t width) {
    std::vector<std::byte> answer(sizeof(GatherHead) + std::max(width * ranks(), kLongestReason));
    std::vector<Pending> pending;
    receive(answer, 0, kGatherTag, pending);
    send(own, 0, kGatherTag, pending);
    wait(pending, kPatienceWithRankZero);
    return answer;
  }

  void check(int failed) {
    if (failed == 0) return;
    is_lost_ = true;
    throw LostRankError(fmt::format("MPI failed: {}", mpi_.last_error()));
  }

  void send(std::span<const std::byte> bytes, int to, Tag tag, std::vector<Pending>& pending) {
    for (std::size_t begin = 0; begin == 0 || begin < bytes.size(); begin += kLargestMessage) {
      const auto piece = bytes.subspan(begin, std::min(kLargestMessage, bytes.size() - begin));
      pending.push_back({nullptr, to});
      check(mpi_.send(piece.data(), static_cast<int>(piece.size()), to, tag, &pending.back().request));
    }
  }

  void receive(std::span<std::byte> bytes, int from, Tag tag, std::vector<Pending>& pending) {
    for (std::size_t begin = 0; begin == 0 || begin < bytes.size(); begin += kLargestMessage) {
      const auto piece = bytes.subspan(begin, std::min(kLargestMessage, bytes.size() - begin));
      pending.push_back({nullptr, from});
      check(mpi_.receive(piece.data(), static_cast<int>(piece.size()), from, tag, &pending.back().request));
    }
  }

  template <class T>
  void sum(std::span<T> values, int (*begin_sum)(T*, int, void**)) {
    constexpr std::size_t kMost = kLargestMessage / sizeof(T);
    for (std::size_t begin = 0; begin < values.size(); begin += kMost) {
      std::vector<Pending> pending = {{nullptr, -1}};
      const std::size_t count = std::min(kMost, values.size() - begin);
      check(begin_sum(values.data() + begin, static_cast<int>(count), &pending[0].request));
      wait(pending, 0);
    }
  }

  /// Until all messages have arrived, and at most so many seconds longer than the time limit.
  void wait(std::vector<Pending>& pending, double patience) {
    const auto is_done = [this](const Pending& message) {
      int done = 0;
      check(mpi_.test(message.request, &done));
      return done != 0;
    };
    const Clock::time_point start = Clock::now();
    std::optional<Clock::time_point> interrupted;
    while (true) {
      std::erase_if(pending, is_done);
      if (pending.empty()) return;
      const Clock::time_point now = Clock::now();
      if (!interrupted && options_.interrupted()) interrupted = now;
      if (Seconds(now - start).count() > options_.time_limit + patience)
        lose(pending, Seconds(now - start), "it has ended, hangs, or is slower than --rank-timeout allows");
      if (interrupted && Seconds(now - *interrupted).count() > kPatienceAfterSignal)
        lose(pending, Seconds(now - start), "it has ended, for this one has been told to end, too");
      rest(now - start);
    }
  }

  static void rest(Seconds waited) {
    if (waited < kSpinTime) return;
    if (waited < kYieldTime) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }

  [[noreturn]] void lose(const std::vector<Pending>& pending, Seconds waited, const char* meaning) {
    is_lost_ = true;
    std::vector<int> missing;
    for (const Pending& message : pending) missing.push_back(message.rank);
    std::ranges::sort(missing);
    missing.erase(std::ranges::unique(missing).begin(), missing.end());
    const std::string who = missing.front() < 0 ? "some rank" : fmt::format("rank {}", fmt::join(missing, ", rank "));
    throw LostRankError(
        fmt::format("{} did not answer rank {} for {:.1f} s: {}", who, rank(), waited.count(), meaning));
  }

  const moxie_mpi_functions& mpi_;
  moxie_mpi_world world_;
  CommunicatorOptions options_;
  bool is_lost_ = false;
};

/// Variables that tell the number of ranks, and one that only tells that there are some.
constexpr std::array kSizeVariables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};
constexpr const char* kPmix = "PMIX_RANK";

}  // namespace

std::optional<MpiLaunch> find_mpi_launch() {
  for (const char* variable : kSizeVariables) {
    const char* value = std::getenv(variable);
    if (value == nullptr) continue;
    int size = 0;
    const auto [end, error] = std::from_chars(value, value + std::strlen(value), size);
    if (error == std::errc() && *end == '\0' && size > 0) return MpiLaunch{variable, size};
  }
  if (std::getenv(kPmix) != nullptr) return MpiLaunch{kPmix, std::nullopt};
  return std::nullopt;
}

std::shared_ptr<Communicator> open_mpi(const MpiLaunch& launch, const CommunicatorOptions& options) {
  const moxie_mpi_functions& mpi = mpi_library();
  moxie_mpi_world world{};
  if (mpi.start(&world) != 0) throw DeviceError(fmt::format("MPI could not be started: {}", mpi.last_error()));
  auto communicator = std::make_shared<MpiCommunicator>(mpi, world, options);
  if (launch.size && *launch.size != world.size)
    throw DeviceError(
        fmt::format("{} ranks were started ({}={}), but moxie's MPI knows of {}: it is {}. Start moxie with the mpirun "
                    "of that MPI, or build moxie again with the MPI of this mpirun",
                    *launch.size, launch.variable, *launch.size, world.size, mpi.library()));
  return communicator;
}

}  // namespace moxie
