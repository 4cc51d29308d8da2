#include "tools/commands/train_stop.h"

#include <csignal>

namespace moxie {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};

volatile std::sig_atomic_t signal_received = 0;

void note(int signal) {
  signal_received = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  signal_received = 0;
  for (const int signal : kSignals) std::signal(signal, note);
}

StopSignals::~StopSignals() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  signal_received = 0;
}

bool StopSignals::received() { return signal_received != 0; }
bool StopSignals::is_terminated() { return signal_received == SIGTERM; }

}  // namespace moxie
