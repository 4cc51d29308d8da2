// Two GPUs in one process: each has sessions of its own, and nothing of one is used in the context of the other.
#include <doctest/doctest.h>

#include <thread>

#include "compiler/support/error.h"
#include "runtime/session.h"

using namespace moxie;
using Values = std::vector<double>;

namespace {

constexpr std::int64_t kRows = 24, kColumns = 40;

/// A matrix product, kernels around it, and parameters that a step changes.
Session network(const std::shared_ptr<Device>& device) {
  const Program program = parse(R"(dim S dynamic, N, M
index s:S, n:N, m:M
input x[S,N], w[N,M]
let h[s,m] = sum[n](x[s,n]*w[n,m])
output y[s,m] = tanh(h[s,m])
output moved[n,m] = w[n,m] - 0.1*sum[s](x[s,n]*y[s,m])/S
)",
                                "network");
  Session session(program, {{"N", kColumns}, {"M", kColumns}}, device);
  session.feed_back("moved", "w");
  Values w;
  for (std::int64_t k = 0; k < kColumns * kColumns; ++k) w.push_back(0.01 * static_cast<double>(k % 17 - 8));
  session.set("w", make_host_tensor(DType::f32, {kColumns, kColumns}, w));
  return session;
}

void step(Session& session, std::int64_t rows) {
  Values x;
  for (std::int64_t k = 0; k < rows * kColumns; ++k) x.push_back(0.1 * static_cast<double>(k % 13 - 6));
  session.set("x", make_host_tensor(DType::f32, {rows, kColumns}, x));
  session.run();
  session.prefetch("y");
}

Values alone(const std::shared_ptr<Device>& device, std::int64_t rows) {
  Session session = network(device);
  for (int k = 0; k < 3; ++k) step(session, rows + k);
  return to_doubles(session.get("moved"));
}

}  // namespace

TEST_CASE("sessions of two GPUs take turns in one thread") {
  const auto first = open_device("cuda"), second = open_device("cuda:1");
  CHECK(first->name() == "cuda");
  CHECK(second->name() == "cuda:1");
  const Values few = alone(first, 3), many = alone(second, kRows);
  CHECK(few != many);
  CHECK(few == alone(second, 3));
  auto one = std::make_unique<Session>(network(first)), other = std::make_unique<Session>(network(second));
  for (int k = 0; k < 3; ++k) {
    step(*one, 3 + k);
    step(*other, kRows + k);
  }
  CHECK(to_doubles(one->get("moved")) == few);
  CHECK(to_doubles(other->get("moved")) == many);
  step(*other, kRows);
  one.reset();  // while the other GPU's context is the thread's
  step(*other, kRows);
  CHECK(to_doubles(other->get("y")).size() == kRows * kColumns);
}

TEST_CASE("two GPUs are used by two threads at the same time") {
  const auto first = open_device("cuda:0"), second = open_device("cuda:1");
  const Values few = alone(first, 3), many = alone(second, kRows);
  Values one, other;
  std::thread a([&] { one = alone(first, 3); }), b([&] { other = alone(second, kRows); });
  a.join();
  b.join();
  CHECK(one == few);
  CHECK(other == many);
}

TEST_CASE("a GPU that the machine does not have is refused with their number") {
  CHECK_THROWS_WITH_AS(
      open_device("cuda:2"),
      doctest::Contains("there is no device cuda:2: the driver finds 2 GPUs, numbered from 0; see nvidia-smi"),
      DeviceError);
}
