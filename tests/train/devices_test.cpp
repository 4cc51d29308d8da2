// A whole run on tiny data comes to the same on every device.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/devices.h"
#include "tests/train/tiny.h"

namespace {

using namespace moxie;

/// The trained parameters of one epoch.
std::map<std::string, std::vector<double>> trained(const std::string& model, const std::shared_ptr<Device>& device) {
  const tiny::Scratch scratch;
  TrainConfig config = tiny::config(model);
  config.epochs = 1;
  const RunFolder folder = RunFolder::create(scratch / "run", config, "");
  const Dataset data = tiny::dataset();
  TrainingRun(config, data, device).train(tiny::saved_to(folder));
  std::map<std::string, std::vector<double>> parameters;
  for (const auto& [name, tensor] : load_model(folder.model_file()).parameters) parameters[name] = to_doubles(tensor);
  return parameters;
}

}  // namespace

TEST_CASE("training takes the same steps on every device") {
  for (const char* model : {"gpn", "mlp"}) {
    CAPTURE(std::string(model));
    const auto want = trained(model, open_device("interp"));
    for (const auto& device : moxie::test::test_devices()) {
      CAPTURE(device->name());
      for (const auto& [name, values] : trained(model, device)) {
        CAPTURE(name);
        double worst = 0;
        for (std::size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::abs(values[i] - want.at(name)[i]));
        CHECK(worst < 1e-3);
      }
    }
  }
}
