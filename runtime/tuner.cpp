#include "runtime/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>

namespace moxie {
namespace {

/// Each four times the one before: nearer neighbours differ by less than measurements do.
constexpr std::array<std::int64_t, 4> kTiles = {1, 4, 16, 64};
constexpr std::array<std::int64_t, 3> kChunks = {1, 4, 16};

/// Of a candidate: enough runs that the fastest of them is typical, few enough that tuning goes unnoticed.
constexpr int kFewestRuns = 3, kMostRuns = 20;
constexpr double kEnoughMilliseconds = 5;
/// A candidate must be faster than the default by more than measurements scatter.
constexpr double kWorthwhile = 0.97;

/// Pieces that a loop can be cut into.
std::int64_t most_pieces(const std::optional<SplitLoop>& loop, const DimValues& dims, int lanes) {
  if (!loop) return 1;
  const std::int64_t rows = piece_of(*loop, dims, 0, 1, lanes).high;
  return std::max<std::int64_t>(1, ceil_div(rows, loop->over_lanes ? lanes : 1));
}

std::string processor_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line;
  }
  return "unknown processor";
}

double fastest_run(const Trial& trial) {
  double fastest = std::numeric_limits<double>::infinity(), total = 0;
  trial.run();
  for (int i = 0; i < kFewestRuns || (i < kMostRuns && total < kEnoughMilliseconds); ++i) {
    const double taken = trial.run();
    fastest = std::min(fastest, taken);
    total += taken;
  }
  return fastest;
}

}  // namespace

std::vector<Partition> candidate_partitions(const LoweredKernel& kernel, const DimValues& dims, int lanes) {
  std::vector<Partition> candidates = {choose_partition(kernel, dims, lanes)};
  const std::int64_t most_tiles = most_pieces(kernel.tiles, dims, lanes);
  const std::int64_t most_chunks = most_pieces(kernel.chunks, dims, lanes);
  for (const std::int64_t tiles : kTiles) {
    for (const std::int64_t chunks : kChunks) {
      if (tiles > most_tiles || chunks > most_chunks) continue;
      if (tiles == candidates[0].tiles && chunks == candidates[0].chunks) continue;
      candidates.push_back({tiles, chunks, ""});
    }
  }
  return candidates;
}

std::vector<std::string> records_of(const std::vector<Partition>& partitions) {
  std::vector<std::string> records;
  for (const Partition& partition : partitions)
    records.push_back(fmt::format("{} {}", partition.tiles, partition.chunks));
  return records;
}

std::string processor_of(int threads) { return fmt::format("{}\n{} threads", processor_model(), threads); }

std::string tuning_key(std::string_view kernel_key, const DimValues& dims, std::string_view machine) {
  std::string key = fmt::format("partition 1\n{}\n", machine);
  for (const auto& [name, value] : dims) key += fmt::format("{} = {}\n", name, value);
  return key.append(kernel_key);
}

std::optional<Tuned> find_tuned(KernelCache& cache, std::string_view key, Ways ways) {
  const auto entry = cache.find(key);
  if (!entry) return std::nullopt;
  const auto found = std::ranges::find(ways, entry->object);
  if (found == ways.end()) return std::nullopt;
  return Tuned{static_cast<std::size_t>(found - ways.begin()), entry->log};
}

Tuned measure(KernelCache& cache, std::string_view key, Ways ways, const Trial& trial) {
  Tuned best;
  double best_time = 0, default_time = 0;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    trial.prepare(way);
    const double time = fastest_run(trial);
    if (way == 0) best_time = default_time = time;
    if (time >= best_time * kWorthwhile) continue;
    best.way = way;
    best_time = time;
  }
  best.reason =
      fmt::format("the fastest of {}: {:.4g} ms, the default {:.4g} ms", ways.size(), best_time, default_time);
  cache.store(key, {ways[best.way], std::string(key), best.reason});
  return best;
}

}  // namespace moxie
