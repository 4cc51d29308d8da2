#include "runtime/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/mpi/mpi_communicator.h"

namespace moxie {
namespace {

class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_size() const override { return 1; }
  int local_rank() const override { return 0; }
  std::string description() const override { return "one process"; }
  std::vector<std::byte> all_gather(std::span<const std::byte> own) override { return {own.begin(), own.end()}; }
  void fail(const std::string& reason) override { throw RankFailure(reason); }
  void exchange(int other, std::span<const std::byte>, std::span<std::byte>) override {
    throw InternalError(fmt::format("one process exchanges bytes with rank {}", other));
  }
  void broadcast(std::span<std::byte>, int) override {}
  void fast_sum(std::span<float>) override {}
  void fast_sum(std::span<double>) override {}
  void abort(int) override {}
};

/// Part of the values that a rank adds up, as it halves from level to level.
struct Segment {
  std::size_t begin, end;
  std::size_t middle() const { return begin + (end - begin) / 2; }
};

template <class T>
std::span<T> part(std::span<T> values, Segment segment) {
  return values.subspan(segment.begin, segment.end - segment.begin);
}

/// The two halves of a segment: the lower rank of a pair keeps the first one.
struct Halves {
  Segment kept, given;
};

Halves halves_of(Segment segment, bool is_lower) {
  const Segment first{segment.begin, segment.middle()}, second{segment.middle(), segment.end};
  return is_lower ? Halves{first, second} : Halves{second, first};
}

template <class T>
void sum_in_tree(Communicator& communicator, std::span<T> values) {
  const auto rank = static_cast<unsigned>(communicator.rank()), size = static_cast<unsigned>(communicator.size());
  if (!std::has_single_bit(size)) throw InternalError(fmt::format("a tree sum over {} ranks", size));
  std::vector<Segment> segments = {{0, values.size()}};
  std::vector<T> theirs(values.size() / 2 + 1);
  for (unsigned distance = 1; distance < size; distance *= 2) {
    const bool is_lower = (rank & distance) == 0;
    const auto [kept, given] = halves_of(segments.back(), is_lower);
    const std::span<T> own = part(values, kept), other = std::span(theirs).first(own.size());
    communicator.exchange(static_cast<int>(rank ^ distance), std::as_bytes(part(values, given)),
                          std::as_writable_bytes(other));
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = is_lower ? own[i] + other[i] : other[i] + own[i];
    segments.push_back(kept);
  }
  for (unsigned distance = size / 2; distance > 0; distance /= 2) {
    segments.pop_back();
    const auto [kept, given] = halves_of(segments.back(), (rank & distance) == 0);
    communicator.exchange(static_cast<int>(rank ^ distance), std::as_bytes(part(values, kept)),
                          std::as_writable_bytes(part(values, given)));
  }
}

}  // namespace

std::shared_ptr<Communicator> self_communicator() { return std::make_shared<SelfCommunicator>(); }

std::shared_ptr<Communicator> open_communicator(const CommunicatorOptions& options) {
  const auto launch = find_mpi_launch();
  return launch ? open_mpi(*launch, options) : self_communicator();
}

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& own) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::uint64_t length = own.size();
  const std::vector<std::byte> gathered = communicator.all_gather(std::as_bytes(std::span(&length, 1)));
  std::vector<std::uint64_t> lengths(ranks);
  std::memcpy(lengths.data(), gathered.data(), gathered.size());
  std::vector<std::string> texts(ranks);
  const std::uint64_t longest = *std::ranges::max_element(lengths);
  for (std::uint64_t begin = 0; begin < longest; begin += kLargestGather) {
    const std::size_t width = std::min<std::uint64_t>(kLargestGather, longest - begin);
    std::string piece = begin < length ? own.substr(begin, width) : "";
    piece.resize(width);
    const std::vector<std::byte> pieces = communicator.all_gather(std::as_bytes(std::span(piece)));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      texts[rank].append(reinterpret_cast<const char*>(pieces.data()) + rank * width, width);
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) texts[rank].resize(lengths[rank]);
  return texts;
}

void tree_sum(Communicator& communicator, std::span<float> values) { sum_in_tree(communicator, values); }
void tree_sum(Communicator& communicator, std::span<double> values) { sum_in_tree(communicator, values); }

}  // namespace moxie
