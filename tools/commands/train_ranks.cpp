#include "tools/commands/train_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "data/file.h"
#include "runtime/cache_file.h"
#include "runtime/cache_key.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/host.h"
#include "runtime/mpi/mpi_communicator.h"
#include "tools/commands/command.h"
#include "tools/commands/train_stop.h"

namespace moxie {
namespace {

/// A line for each rank would say the same.
void mute_output() {
  std::fflush(stdout);
  if (std::freopen("/dev/null", "w", stdout) == nullptr) throw DataError("cannot open /dev/null");
}

std::string message_of(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) ? "out of memory; use smaller dims or batches" : error.what();
}

/// All ranks hear why this one ends, and throw it.
void fail_together(Communicator& ranks, const std::exception& error) {
  const std::string own = message_of(error);
  try {
    ranks.fail(own);
  } catch (const RankFailure& failure) {
    if (failure.what() == own && dynamic_cast<const UsageError*>(&error)) throw UsageError(own);
    throw;
  }
}

int work_together(Communicator& ranks, const std::function<int()>& work) {
  try {
    const int code = work();
    ranks.barrier();
    return code;
  } catch (const LostRankError&) {
    throw;
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& error) {
    fail_together(ranks, error);
    throw;
  }
}

std::string name_of_processor() {
  std::string level = "unknown";
  for (const MachineLevel& known : machine_levels()) {
    if (!host_supports(known.name)) continue;
    level = known.name;
    break;
  }
  return fmt::format("{}, products for {}", level, blas_kernels());
}

/// What is to be the same on all ranks: names, and values or digests of them.
using Parts = nlohmann::ordered_json;

void append(std::string& bytes, const Matrix& matrix) {
  bytes += fmt::format("{} x {}\n", matrix.rows, matrix.columns);
  bytes.append(reinterpret_cast<const char*>(matrix.values.data()), matrix.values.size() * sizeof(float));
}

std::string digest_of(const Dataset& data) {
  std::string bytes = to_json(data.encoding);
  for (const Samples* samples : {&data.train, &data.validation, &data.test}) {
    append(bytes, samples->x);
    append(bytes, samples->y);
  }
  return key_digest(bytes);
}

std::string digest_of(const NamedTensors& tensors) {
  std::string bytes;
  for (const auto& [name, tensor] : tensors) {
    bytes += name + "\n";
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  return key_digest(bytes);
}

Parts start_parts(const TrainConfig& config, const Dataset& data, const NamedTensors& checkpoint) {
  Parts parts = {
      {"the program", fmt::format("moxie {}, {}", MOXIE_VERSION, key_digest(read_whole_file("/proc/self/exe")))},
      {"the environment's MOXIE_*", key_head("runs")},
      {"the processor", name_of_processor()},
      {"the data", fmt::format("{}, {}", data.name, digest_of(data))},
      {"the checkpoint", digest_of(checkpoint)}};
  const auto options = Parts::parse(to_json(config));
  for (const auto& [name, value] : options.items()) parts["--" + name] = value.dump();
  return parts;
}

[[noreturn]] void explain_difference(std::size_t rank, const Parts& theirs, const Parts& first) {
  std::string differences;
  for (const auto& [name, value] : first.items()) {
    const std::string other = theirs.value(name, "nothing"), expected = value.get<std::string>();
    if (other != expected)
      differences +=
          fmt::format("{}{} is {}, but {} on rank 0", differences.empty() ? "" : "; ", name, other, expected);
  }
  throw DataError(
      fmt::format("rank {} was started otherwise than rank 0: {}. Start all ranks with the same program, "
                  "options and data",
                  rank, differences));
}

}  // namespace

void add_rank_options(OptionParser& parser, RankChoice& choice) {
  parser
      .add_option("--ranks", choice.count,
                  "how many processes `mpirun` must have started (see docs/parallel.md); 0: any number")
      .show_default()
      .in_range(0, 1 << 20);
  parser.add_option("--rank-timeout", choice.timeout, "seconds after which a rank that does not answer is given up")
      .show_default();
}

std::shared_ptr<Communicator> open_ranks(const RankChoice& choice) {
  if (!(choice.timeout > 0)) throw UsageError("--rank-timeout is a number of seconds above 0");
  auto ranks = open_communicator({choice.timeout, StopSignals::is_terminated});
  if (choice.count > 0 && choice.count != ranks->size()) {
    throw UsageError(fmt::format("--ranks {}, but {} started: start as many by mpirun -n {} moxie train ..",
                                 choice.count, ranks->size() == 1 ? "one process" : fmt::format("{}", ranks->size()),
                                 choice.count));
  }
  return ranks;
}

int run_on_ranks(Communicator& ranks, const std::function<int()>& work) {
  if (ranks.size() == 1) return work();
  if (ranks.rank() != 0) mute_output();
  try {
    return work_together(ranks, work);
  } catch (const LostRankError& error) {
    fmt::print(stderr, "moxie: {}. All ranks end; go on from the last checkpoint by --resume\n", error.what());
    std::fflush(nullptr);
    ranks.abort(1);
    throw;
  } catch (const Error&) {
    if (ranks.rank() == 0) throw;
    return 0;  // mpirun ends rank 0, before it has said why, when another rank ends with the code of a failure
  }
}

namespace {

/// Every rank of a machine has a GPU of its own: "cuda" is "cuda:1" for the second one.
std::string device_of_rank(const std::string& name, const Communicator& ranks) {
  if (name == "cpu" || name == "interp" || name == "cuda-emu") return name;
  if (name == "cuda") return fmt::format("cuda:{}", ranks.local_rank());
  throw UsageError(
      fmt::format("--device {}: several ranks train on processors, or each on a GPU of its own; give --device cpu, or "
                  "--device cuda, of which the ranks of a machine take one each",
                  name));
}

}  // namespace

void choose_for_ranks(TrainConfig& config, DeviceChoice& device, const Communicator& ranks) {
  const auto count = static_cast<std::size_t>(ranks.size());
  if (config.micro_batches == 0 && find_mpi_launch())
    config.micro_batches = config.reduce == "fast" ? count : suitable_micro_batches(config.batch);
  check_division(batch_division(config), ranks.size());
  if (count == 1) return;
  if (is_cross_validation(config))
    throw UsageError(
        "the folds of a cross-validation do not need each other: train each with several ranks by --fold, or "
        "all of them without mpirun");
  if (device.tune)
    throw UsageError("--tune measures, and ranks would measure otherwise: several ranks train without it");
  device.name = device_of_rank(device.name, ranks);
  const long online = sysconf(_SC_NPROCESSORS_ONLN), allowed = static_cast<long>(std::thread::hardware_concurrency());
  if (device.threads == 0)
    device.threads = static_cast<int>(std::max(1L, std::min(allowed, online / std::max(1, ranks.local_size()))));
}

void require_same_start(Communicator& ranks, const TrainConfig& config, const Dataset& data,
                        const NamedTensors& checkpoint) {
  if (ranks.size() == 1) return;
  const Parts own = start_parts(config, data, checkpoint);
  const std::vector<std::string> texts = gather_texts(ranks, own.dump());
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] != texts[0]) explain_difference(rank, Parts::parse(texts[rank]), Parts::parse(texts[0]));
  }
}

}  // namespace moxie
