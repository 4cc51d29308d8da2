#include "runtime/micro_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/support/error.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

constexpr const char* kLoss = "loss";

/// Writes weight * value for each value, or adds it to what is there, and says whether all values are finite. The
/// product is rounded before it is added (this file is compiled without contraction): added up by another rank it would
/// be, too.
template <class Real>
bool take_weighted(std::span<const std::byte> bytes, double weight, bool adds, Real* out) {
  const auto factor = static_cast<Real>(weight);
  const std::size_t count = bytes.size() / sizeof(Real);
  const auto* values = reinterpret_cast<const Real*>(bytes.data());
  bool is_finite = true;
  for (std::size_t i = 0; i < count; ++i) {
    is_finite = is_finite & (std::abs(values[i]) <= std::numeric_limits<Real>::max());
  }
  if (adds) {
    for (std::size_t i = 0; i < count; ++i) out[i] += factor * values[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = factor * values[i];
  }
  return is_finite;
}

template <class Real>
void add_to(std::vector<Real>& sum, const std::vector<Real>& other) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
}

/// The sum of a tree over the values.
double tree_sum_of(std::span<const double> values) {
  if (values.size() == 1) return values[0];
  const std::size_t half = values.size() / 2;
  return tree_sum_of(values.first(half)) + tree_sum_of(values.subspan(half));
}

}  // namespace

void check_division(const BatchDivision& division, int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  if (division.parts == 0 && ranks == 1) return;
  if (division.parts == 0)
    throw DeviceError(fmt::format(
        "a batch that is taken as a whole cannot be shared by {} ranks: give --micro-batches, a power of two "
        "of at least {}, to the run from its start",
        ranks, std::bit_ceil(count)));
  if (division.reduction == Reduction::Fast) {
    if (division.parts % count == 0) return;
    throw DeviceError(
        fmt::format("{} micro-batches cannot be shared equally by {} ranks: with --reduce fast, "
                    "--micro-batches is a multiple of the number of ranks",
                    division.parts, ranks));
  }
  if (!std::has_single_bit(division.parts))
    throw DeviceError(fmt::format("{} micro-batches: with --reduce tree their number is a power of two, such as {}",
                                  division.parts, std::bit_ceil(division.parts)));
  if (!std::has_single_bit(count))
    throw DeviceError(
        fmt::format("{} ranks cannot share a step with the same bits as one: start 1, 2, 4, .., at most {}", ranks,
                    division.parts));
  if (count > division.parts)
    throw DeviceError(fmt::format(
        "{} ranks are more than a step has micro-batches, {}: start fewer ranks, or train from the start with "
        "--micro-batches {}, and a --batch that is worth dividing so",
        ranks, division.parts, count));
}

struct MicroBatches::Status {
  double loss;
  std::uint64_t step;
  RankFlags flags;
  std::uint32_t failed, finite, samples;
};

void MicroBatches::Partial::add(const Partial& other) {
  add_to(singles, other.singles);
  add_to(doubles, other.doubles);
  loss += other.loss;
}

/// Zeros are added, for they turn -0 into 0.
void MicroBatches::Partial::take_nothing(bool adds) {
  for (float& value : singles) value = adds ? value + 0.0F : 0.0F;
  for (double& value : doubles) value = adds ? value + 0.0 : 0.0;
  loss = adds ? loss + 0.0 : 0.0;
}

MicroBatches::MicroBatches(const Program& gradients, std::shared_ptr<Device> device, const SampleRows& data,
                           const BatchDivision& division, std::shared_ptr<Communicator> communicator)
    : session_(gradients, {}, std::move(device)),
      rows_(session_.program(), data, checks_inputs(session_.device().program_options())),
      division_(division),
      communicator_(std::move(communicator)) {
  check_division(division_, communicator_->size());
  list_outputs();
}

void MicroBatches::list_outputs() {
  std::size_t singles = 0, doubles = 0;
  const Program& program = session_.program();
  for (const Definition& definition : program.definitions) {
    if (!definition.output || definition.name == kLoss) continue;
    if (holds_integers(definition.dtype))
      throw TypeError(fmt::format("{} holds integers, which have no mean over the parts of a batch", definition.name));
    std::size_t& begin = definition.dtype == DType::f32 ? singles : doubles;
    const auto count = static_cast<std::size_t>(element_count(extents_of(program, definition.name, {})));
    outputs_.push_back({definition.name, definition.dtype, begin, count});
    begin += count;
  }
  // At most one subtree of each size waits for its neighbour.
  partials_.resize(static_cast<std::size_t>(std::bit_width(own_parts())));
  for (Partial& partial : partials_) {
    partial.singles.resize(singles);
    partial.doubles.resize(doubles);
  }
}

MicroBatches::Result MicroBatches::compute(std::span<const std::uint32_t> samples, std::uint64_t seed,
                                           std::uint64_t step, RankFlags flags) {
  std::string failure;
  try {
    compute_own(samples, seed, step);
  } catch (const std::exception& error) {
    if (communicator_->size() == 1) throw;
    failure = error.what();
    if (failure.empty()) failure = "an error without a message";
  }
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Status> ranks = exchange_status(
      {partials_[0].loss, step, flags, !failure.empty(), is_finite_, static_cast<std::uint32_t>(samples.size())});
  throw_failures(ranks, failure);
  add_up_ranks();
  Result result;
  result.loss = add_up_losses(ranks);
  for (const Status& rank : ranks) result.flags |= rank.flags;
  const auto spoilt = std::ranges::find(ranks, 0U, &Status::finite);
  if (spoilt != ranks.end()) result.spoilt_rank = static_cast<int>(spoilt - ranks.begin());
  result.waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

/// Adds up neighbouring subtrees of the same size as soon as both are there.
void MicroBatches::compute_own(std::span<const std::uint32_t> samples, std::uint64_t seed, std::uint64_t step) {
  is_finite_ = true;
  const std::size_t first = own_parts() * static_cast<std::size_t>(communicator_->rank());
  std::size_t waiting = 0;
  for (std::size_t k = 0; k < own_parts(); ++k) {
    const bool adds = k % 2 == 1;  // to its left neighbour
    if (!adds) ++waiting;
    compute_part(samples, first + k, {seed, step * division_.parts + first + k}, adds, partials_.at(waiting - 1));
    if (!adds) continue;
    for (std::size_t done = (k + 1) / 2; done % 2 == 0; done /= 2) {
      partials_[waiting - 2].add(partials_[waiting - 1]);
      --waiting;
    }
  }
  // Subtrees of several sizes are left where the number of parts is not a power of two.
  for (; waiting > 1; --waiting) partials_[waiting - 2].add(partials_[waiting - 1]);
}

void MicroBatches::compute_part(std::span<const std::uint32_t> samples, std::size_t part, const Draws& draws, bool adds,
                                Partial& partial) {
  const std::size_t begin = part * samples.size() / division_.parts,
                    end = (part + 1) * samples.size() / division_.parts;
  if (begin == end) return partial.take_nothing(adds);  // the last batch of an epoch may have fewer rows than parts
  rows_.load(session_, samples.subspan(begin, end - begin));
  session_.set_random_state(draws.seed, draws.step);
  session_.run();
  take_outputs(static_cast<double>(end - begin) / static_cast<double>(samples.size()), adds, partial);
}

void MicroBatches::take_outputs(double weight, bool adds, Partial& partial) {
  for (const Output& output : outputs_) session_.prefetch(output.name);
  std::vector<double> loss;
  append_doubles(session_.program().dtype_of(kLoss), session_.read(kLoss), loss);
  partial.loss = weight * loss.at(0) + (adds ? partial.loss : 0);
  is_finite_ &= std::isfinite(loss[0]);
  for (const Output& output : outputs_) {
    const std::span<const std::byte> values = session_.read(output.name);
    is_finite_ &= output.dtype == DType::f32
                      ? take_weighted(values, weight, adds, partial.singles.data() + output.begin)
                      : take_weighted(values, weight, adds, partial.doubles.data() + output.begin);
  }
}

std::vector<MicroBatches::Status> MicroBatches::exchange_status(const Status& own) {
  const std::vector<std::byte> bytes = communicator_->all_gather(std::as_bytes(std::span(&own, 1)));
  std::vector<Status> ranks(static_cast<std::size_t>(communicator_->size()));
  std::memcpy(ranks.data(), bytes.data(), bytes.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].step != ranks[0].step || ranks[rank].samples != ranks[0].samples)
      throw InternalError(fmt::format("rank {} takes step {} on {} samples where rank 0 takes step {} on {}", rank,
                                      ranks[rank].step, ranks[rank].samples, ranks[0].step, ranks[0].samples));
  }
  return ranks;
}

void MicroBatches::throw_failures(const std::vector<Status>& ranks, const std::string& own) {
  const auto failed = std::ranges::find_if(ranks, [](const Status& rank) { return rank.failed != 0; });
  if (failed == ranks.end()) return;
  const auto first = static_cast<std::size_t>(failed - ranks.begin());
  throw DeviceError(fmt::format("rank {}: {}", first, gather_texts(*communicator_, own)[first]));
}

void MicroBatches::add_up_ranks() {
  add_up(partials_[0].singles);
  add_up(partials_[0].doubles);
}

template <class Real>
void MicroBatches::add_up(std::vector<Real>& values) {
  if (values.empty() || communicator_->size() == 1) return;
  if (division_.reduction == Reduction::Fast) {
    communicator_->fast_sum(std::span(values));
  } else {
    tree_sum(*communicator_, std::span(values));
  }
}

double MicroBatches::add_up_losses(const std::vector<Status>& ranks) const {
  std::vector<double> losses;
  for (const Status& rank : ranks) losses.push_back(rank.loss);
  return tree_sum_of(losses);
}

std::size_t MicroBatches::own_parts() const {
  return division_.parts / static_cast<std::size_t>(communicator_->size());
}

std::vector<std::string> MicroBatches::outputs() const {
  std::vector<std::string> names;
  for (const Output& output : outputs_) names.push_back(output.name);
  return names;
}

std::span<const std::byte> MicroBatches::sum(const std::string& output) const {
  const auto found = std::ranges::find(outputs_, output, &Output::name);
  if (found == outputs_.end()) throw TypeError(fmt::format("the parts of a batch give no '{}'", output));
  if (found->dtype == DType::f32)
    return std::as_bytes(std::span(partials_[0].singles).subspan(found->begin, found->count));
  return std::as_bytes(std::span(partials_[0].doubles).subspan(found->begin, found->count));
}

}  // namespace moxie
