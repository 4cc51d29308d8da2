#pragma once
// Asking a run to stop: SIGINT, SIGTERM, and SIGUSR1, which mpirun and Slurm pass on to all ranks.

namespace moxie {

/// While it lives, the first of these signals only sets a flag, so that a run can finish its step and save; the second
/// one ends the process at once.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool received();
  /// Whether it was SIGTERM, which mpirun sends when a rank has died, a second before it ends the others.
  static bool is_terminated();
};

}  // namespace moxie
