// Trains a network of Gaussian process neurons on a CSV file, and says what it expects of the rows that it has not
// seen.
//
//   train_on_csv [cpu|interp] [FILE.csv TARGET]
#include <moxie/learn.h>

#include <cmath>
#include <fstream>
#include <iostream>

using namespace moxie;

/// For who has no file.
std::string made_up_table() {
  std::ofstream file("train_on_csv.csv");
  file << "angle,height,price\n";
  for (int k = 0; k < 400; ++k) {
    const double angle = 0.05 * (k * 37 % 101), height = 0.1 * (k * 53 % 41), noise = 0.02 * (k * 29 % 17 - 8);
    file << angle << ',' << height << ',' << 3 * std::sin(angle) + 0.5 * height + noise << '\n';
  }
  return "train_on_csv.csv";
}

int main(int argc, char** argv) {
  TrainConfig config;  // every option of `moxie train`
  config.model = "gpn";
  config.data = "csv:" + (argc > 3 ? std::string(argv[2]) : made_up_table());
  config.targets = {argc > 3 ? argv[3] : "price"};
  config.layers = {8};
  config.batch = 32;
  config.epochs = 60;
  check(config);
  const Dataset data = load_dataset(config.data, load_options(config));
  TrainingRun run(config, data, open_device(argc > 1 ? argv[1] : "cpu"));
  run.train({.report = [](const EpochReport& epoch) { std::cout << epoch.epoch << ' ' << epoch.loss << '\n'; }});
  save_model("train_on_csv.safetensors", run.model());
  const FinalReport report = run.evaluate_best();
  for (const Score& score : report.test.scores) std::cout << score.name << ' ' << score.value << '\n';
  return score_of(report.test.scores, "rmse") < score_of(report.constant, "rmse") ? 0 : 1;
}
