#include "tools/commands/train_stop.h"

#include <csignal>

namespace moxie {
namespace {

volatile std::sig_atomic_t signal_received = 0;

void note(int signal) {
  signal_received = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  signal_received = 0;
  std::signal(SIGINT, note);
  std::signal(SIGTERM, note);
}

StopSignals::~StopSignals() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool StopSignals::received() { return signal_received != 0; }

}  // namespace moxie
