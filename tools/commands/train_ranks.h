#pragma once
// Training by several ranks: how they start alike, and how they end together.
#include <functional>
#include <memory>
#include <string>

#include "learn/train_config.h"
#include "runtime/communicator.h"
#include "runtime/trainer.h"
#include "tools/commands/common.h"

namespace moxie {

struct RankChoice {
  int count = 0;         // that there must be; 0: as many as were started
  double timeout = 600;  // seconds
};
void add_rank_options(OptionParser& parser, RankChoice& choice);

/// The ranks that this process was started with. Throws UsageError where they are not as many as chosen, and
/// DeviceError where MPI is missing.
std::shared_ptr<Communicator> open_ranks(const RankChoice& choice);

/// Does the work of one rank, and returns its exit code; only rank 0 writes to the standard output. Where work() throws
/// on some rank, all of them end, and rank 0 throws the error for all. Where a rank is lost, all processes are ended.
int run_on_ranks(Communicator& ranks, const std::function<int()>& work);

/// The configuration with the number of micro-batches that it leaves open, and a device whose threads, or GPU, ranks on
/// the same machine do not take from each other. Throws UsageError for what ranks cannot share.
void choose_for_ranks(TrainConfig& config, DeviceChoice& device, const Communicator& ranks);

/// Throws DataError, on all ranks, where they have not been started alike: with the same program, kind of processor,
/// options, data and, where a run goes on, checkpoint. The message names what differs, the rank, and both values.
void require_same_start(Communicator& ranks, const TrainConfig& config, const Dataset& data,
                        const NamedTensors& checkpoint = {});

}  // namespace moxie
