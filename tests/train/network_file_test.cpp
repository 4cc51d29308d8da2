// moxie's own networks as model files: `moxie ops gpn.network ..`.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "runtime/safetensors.h"
#include "tests/cli/process.h"

using moxie::test::Outcome;
using moxie::test::Workshop;

namespace {

/// The tensors of a run's model, without what the file says of them.
std::map<std::string, moxie::HostTensor> tensors_of(const Workshop& shop, const std::string& run) {
  return moxie::read_safetensors(shop.path(run) / "model.safetensors").tensors;
}

}  // namespace

TEST_CASE("a network of moxie's that is printed as a file trains to the same bits") {
  using Arguments = std::vector<std::string>;
  const Workshop shop;
  const auto run = [&](Arguments arguments, const Arguments& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = shop.moxie(arguments);
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    return outcome.out;
  };
  const std::vector<std::pair<std::string, Arguments>> networks = {
      {"mlp", {}},
      {"gpn", {"--inducing-points", "5"}},
      {"gpn", {"--inducing-points", "5", "--propagate", "sample"}},
      {"gpn", {"--inducing-points", "5", "--inference", "vb"}},
      {"probact", {}},
      {"probact", {"--sigma", "0.5", "--evaluation", "moments"}}};
  const Arguments training = {"--data", "synthetic", "--epochs", "2", "--threads", "1", "--seed", "3"};
  int number = 0;
  for (const auto& [family, options] : networks) {
    CAPTURE(family);
    const std::string name = fmt::format("{}{}", family, ++number);
    shop.write(name + ".mox", run({"ops", family + ".network", "--layers", "8,6,5,4"}, options));
    Arguments by_family = options;
    by_family.insert(by_family.end(), {"--layers", "6,5", "--out", name + "_family"});
    by_family.insert(by_family.end(), training.begin(), training.end());
    run({"train", family}, by_family);
    run({"train", name + ".mox", "--out", name + "_file"}, training);
    const auto wanted = tensors_of(shop, name + "_family"), found = tensors_of(shop, name + "_file");
    REQUIRE(found.size() == wanted.size());
    for (const auto& [tensor, values] : wanted) {
      CAPTURE(tensor);
      CHECK(found.at(tensor) == values);
    }
  }
}

TEST_CASE("networks are printed for options that fit") {
  const Workshop shop;
  const auto message = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"ops"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Outcome outcome = shop.moxie(all);
    CHECK(outcome.code == 2);
    return outcome.err;
  };
  CHECK(message({"gpn.network"}).find("gpn.network needs --layers") != std::string::npos);
  CHECK(message({"gpn.network", "--layers", "8,4,2", "--dropout", "fast"}).find("--dropout is not for gpn.network") !=
        std::string::npos);
  CHECK(message({"gpn.kappa", "--layers", "8,4"}).find("--layers is for a network") != std::string::npos);
  CHECK(
      message({"probact.network", "--network", "vgg-small", "--layers", "64,3", "--image", "8,8"}).find("--image is") !=
      std::string::npos);
}
