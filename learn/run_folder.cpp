#include "learn/run_folder.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/support/error.h"
#include "data/file.h"
#include "learn/cross_validation.h"
#include "runtime/atomic_file.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::string_view kBest = "best.";
constexpr const char* kState = "state";

/// Calls visit(name, member) for every member of the state that JSON can hold as it is.
template <class State, class Visit>
void visit_members(State& s, Visit&& visit) {
  visit("epoch", s.position.data.epoch);
  visit("used", s.position.data.used);
  visit("step", s.position.step);
  visit("rate", s.plateau.rate);
  visit("waiting", s.plateau.waiting);
  visit("loss_sum", s.loss_sum);
  visit("loss_samples", s.loss_samples);
  visit("best_epoch", s.best_epoch);
  visit("variance_scale", s.variance_scale);
  visit("skipped", s.skipped);
  visit("elapsed", s.elapsed);
  visit("finished", s.finished);
  visit("data", s.data);
}

std::string to_json(const RunState& state) {
  Json json;
  visit_members(state, [&](const char* name, const auto& value) { json[name] = value; });
  // JSON has no infinity: a run without an evaluation has no best loss.
  if (std::isfinite(state.plateau.best)) json["best_loss"] = state.plateau.best;
  return json.dump();
}

RunState state_from_json(const std::string& text) {
  RunState state;
  const Json json = Json::parse(text);
  visit_members(state, [&](const char* name, auto& value) { json.at(name).get_to(value); });
  if (json.contains("best_loss")) json["best_loss"].get_to(state.plateau.best);
  return state;
}

}  // namespace

void RunFolder::require_free(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error)) {
    throw DataError(
        fmt::format("{} exists already, and no run is ever overwritten: choose another --out, or go on with "
                    "it by --resume {}",
                    path.string(), path.string()));
  }
}

RunFolder RunFolder::create(const fs::path& path, const TrainConfig& config, std::string_view command) {
  require_free(path);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw DataError(fmt::format("cannot make the folder {}: {}", path.string(), error.message()));
  RunFolder folder(path);
  folder.write_config(config, command);
  if (is_own_model(config)) atomic_write(path / "model.mox", config.formula);
  return folder;
}

RunFolder RunFolder::open(const fs::path& path) {
  RunFolder folder(path);
  std::error_code error;
  require_single_run(path);
  if (!fs::exists(folder.checkpoint_file(), error))
    throw DataError(
        fmt::format("{} holds no checkpoint.safetensors: it is not the folder of a training run; name one that `moxie "
                    "train --out` wrote",
                    path.string()));
  return folder;
}

TrainConfig RunFolder::read_config() const {
  const fs::path file = path_ / "config.json";
  TrainConfig config = config_from_json(read_whole_file(file), file.string());
  check_file(config, file.string());
  return config;
}

std::string RunFolder::read_command() const {
  const fs::path file = path_ / "config.json";
  const Json json = Json::parse(read_whole_file(file), nullptr, false);
  if (json.is_object() && json.contains("moxie") && json["moxie"].is_object())
    return json["moxie"].value("command", "");
  return {};
}

void RunFolder::write_config(const TrainConfig& config, std::string_view command) const {
  Json json = Json::parse(to_json(config));
  json["moxie"] = {{"version", MOXIE_VERSION}, {"command", command}};
  atomic_write(path_ / "config.json", json.dump(2) + "\n");
}

void RunFolder::write(const Snapshot& snapshot) const {
  if (snapshot.model) save_model(model_file(), *snapshot.model);
  const Checkpoint& checkpoint = snapshot.checkpoint;
  TensorFile contents{checkpoint.tensors, {{kState, to_json(checkpoint.state)}, {"version", MOXIE_VERSION}}};
  for (const auto& [name, tensor] : checkpoint.best) contents.tensors[std::string(kBest) + name] = tensor;
  write_safetensors(checkpoint_file(), contents);
}

std::function<void(const Snapshot&)> RunFolder::saver() const {
  return [folder = *this](const Snapshot& snapshot) { folder.write(snapshot); };
}

Checkpoint RunFolder::read_checkpoint() const {
  TensorFile contents = read_safetensors(checkpoint_file());
  Checkpoint checkpoint;
  try {
    checkpoint.state = state_from_json(contents.metadata[kState]);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: is not a checkpoint: {}", checkpoint_file().string(), error.what()));
  }
  for (auto& [name, tensor] : contents.tensors) {
    if (name.starts_with(kBest)) {
      checkpoint.best[name.substr(kBest.size())] = std::move(tensor);
    } else {
      checkpoint.tensors[name] = std::move(tensor);
    }
  }
  return checkpoint;
}

void RunFolder::append_metrics(const std::string& json) const {
  std::ofstream file(metrics_file(), std::ios::app);
  file << json << '\n' << std::flush;
  if (!file) throw DataError(fmt::format("cannot write {}; is the disk full?", metrics_file().string()));
}

std::string RunFolder::read_metrics() const { return read_whole_file(metrics_file()); }

std::string RunFolder::final_metrics() const {
  std::istringstream lines(read_metrics());
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    last = json.is_object() && json.contains("final") ? line : "";
  }
  return last;
}

void RunFolder::write_report(const std::string& html) const { atomic_write(path_ / "report.html", html); }

void RunFolder::rewind_metrics(std::uint64_t step) const {
  std::ifstream file(metrics_file());
  std::string kept;
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", std::uint64_t{0}) <= step && !json.contains("final"))
      kept += line + "\n";
  }
  atomic_write(metrics_file(), kept);
}

}  // namespace moxie
