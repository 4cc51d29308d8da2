#pragma once
// Asking a run to stop: SIGINT and SIGTERM.

namespace moxie {

/// While it lives, the first SIGINT or SIGTERM only sets a flag, so that a run can finish its step and save; the second
/// one ends the process at once.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool received();
};

}  // namespace moxie
