// A trained model answers requests of changing sizes, as in a server: it is compiled once, for any number of rows.
//
//   predict_in_batches [cpu|interp]
#include <moxie/learn.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace moxie;

/// `rows` lines of text with the same columns as the table of the training, in its units.
std::string request(int rows, bool with_price) {
  std::ostringstream text;
  text << "area,rooms" << (with_price ? ",price\n" : "\n");
  for (int k = 0; k < rows; ++k) {
    const int area = 20 + k * 37 % 101, rooms = 1 + k * 53 % 6;
    text << area << ',' << rooms;
    if (with_price) text << ',' << 4 * area + 25 * rooms + k % 5;
    text << '\n';
  }
  return text.str();
}

/// What `moxie train` writes to model.safetensors.
SavedModel trained_model(const std::shared_ptr<Device>& device) {
  std::ofstream("predict_in_batches.csv") << request(300, true);
  TrainConfig config;
  config.model = "gpn";
  config.data = "csv:predict_in_batches.csv";
  config.targets = {"price"};
  config.layers = {6};
  config.batch = 32;
  config.epochs = 60;
  const Dataset data = load_dataset(config.data, load_options(config));
  TrainingRun run(config, data, device);
  run.train();
  save_model("predict_in_batches.safetensors", run.model());
  return load_model("predict_in_batches.safetensors");
}

int main(int argc, char** argv) {
  const std::shared_ptr<Device> device = open_device(argc > 1 ? argv[1] : "cpu");
  const SavedModel model = trained_model(device);
  Evaluator evaluator(model.config, model.encoding, device);
  evaluator.set_parameters(model.parameters);
  for (const int rows : {1, 7, 300, 2, 64}) {
    const Matrix x = encode_features(parse_table(request(rows, false), "request"), model.encoding);
    const Prediction prediction = evaluator.predict({x.rows, x.values, {}}, model.variance_scale);
    std::cout << rows << " rows; the first costs " << prediction.mean.at(0) << ", sd "
              << std::sqrt(prediction.variance.at(0)) << '\n';
    // 20 square metres and one room: 105, or up to 4 more. The table's prices lie between 105 and 640.
    if (prediction.rows != x.rows || std::abs(prediction.mean[0] - 107) > 60) return 1;
  }
}
