// A server's loop: requests of changing sizes are computed where they lie, and answers written where they go. Each
// worker has a session of its own; all share one device, its threads and its compiled kernels.
//
//   serve_batches [cpu|interp]
#include <moxie/moxie.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iostream>
#include <mutex>
#include <thread>

using namespace moxie;

namespace {

constexpr std::int64_t kFeatures = 6, kClasses = 3;

/// A softmax over classes, for a batch of any size.
Program classifier() {
  return parse(R"(
dim S dynamic, N, C
index s:S, n:N, c:C
input x[S,N], w[N,C]
let score[s,c] = sum[n](x[s,n]*w[n,c])
output probability[s,c] = softmax[c](score[s,c])
)");
}

/// What a worker answers, row by row, to requests of these sizes; the largest difference of a row's sum from 1.
double serve(const std::shared_ptr<Device>& device, const std::vector<std::int64_t>& sizes) {
  Session session(classifier(), {{"N", kFeatures}, {"C", kClasses}}, device);
  std::vector<float> weights(kFeatures * kClasses);
  for (std::size_t k = 0; k < weights.size(); ++k) weights[k] = 0.1F * static_cast<float>(k % 7) - 0.3F;
  session.set("w", weights, {kFeatures, kClasses});  // copied once
  double worst = 0;
  for (const std::int64_t rows : sizes) {
    std::vector<float> request(static_cast<std::size_t>(rows * kFeatures));
    for (std::size_t k = 0; k < request.size(); ++k) request[k] = 0.01F * static_cast<float>(k * 37 % 101);
    std::vector<float> answer(static_cast<std::size_t>(rows * kClasses));
    session.bind("x", view_of(request, {rows, kFeatures}));  // not copied, on a device that works in the host's memory
    session.bind("probability", view_of(answer, {rows, kClasses}));
    session.run();
    session.wait();  // for a GPU: `answer` is there now
    for (std::size_t row = 0; row < answer.size(); row += kClasses)
      worst = std::max(worst, std::abs(1.0 - answer[row] - answer[row + 1] - answer[row + 2]));
  }
  return worst;  // the bindings end with the session
}

}  // namespace

int main(int argc, char** argv) {
  std::atomic<int> compiled = 0;
  std::mutex printing;
  const LogLevels levels = parse_log_levels("codegen");
  set_log_callback(
      [&](const LogMessage& message) {
        const std::scoped_lock lock(printing);
        ++compiled;
        std::cout << message.channel_name() << ": " << message.text << '\n';
      },
      levels);
  const std::shared_ptr<Device> device = open_device(argc > 1 ? argv[1] : "cpu");
  double first = 1, second = 1;
  std::thread worker([&] { first = serve(device, {1, 7, 300, 2, 64, 5, 280}); });
  second = serve(device, {12, 1, 9, 500, 11});
  worker.join();
  set_log_callback({});
  std::cout << compiled << " messages of the compiler; sums of probabilities differ from 1 by "
            << std::max(first, second) << " at most\n";
  return std::max(first, second) < 1e-6 ? 0 : 1;
}
