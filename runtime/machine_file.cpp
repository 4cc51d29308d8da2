#include "runtime/machine_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/support/error.h"
#include "runtime/atomic_file.h"
#include "runtime/cpu/host.h"
#include "runtime/kernel_cache.h"
#include "runtime/log.h"
#include "runtime/private_file.h"
#include "runtime/tuner.h"

namespace moxie {
namespace {

using MachineJson = nlohmann::ordered_json;

constexpr const char* kProcessor = "processor";

std::string processor() { return processor_of(0); }

double positive(const MachineJson& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  if (found == object.end() || !found->is_number() || !(found->get<double>() > 0))
    throw DataError(fmt::format("machine table: '{}' is missing or not a positive number", name));
  return found->get<double>();
}

const MachineJson& member(const MachineJson& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw DataError(fmt::format("machine table: '{}' is missing", name));
  return *found;
}

MachineJson as_json(const Machine& machine) {
  MachineJson json = {{"name", machine.name}};
  for (const MachineFigure& figure : machine_figures()) json[std::string(figure.name)] = machine.*figure.value;
  for (std::size_t k = 0; k < kOperationClasses; ++k) {
    const OperationCycles& cycles = machine.operations.at(k);
    json["operations"][std::string(to_string(static_cast<OperationClass>(k)))] = {
        {"port", to_string(cycles.port)}, {"cycles", cycles.cycles}, {"issue", cycles.issue}};
  }
  for (const CacheLevel& level : machine.levels) {
    json["levels"].push_back({{"name", level.name},
                              {"bytes", level.bytes},
                              {"bytes_per_cycle", level.bytes_per_cycle},
                              {"shared_bytes_per_cycle", level.shared_bytes_per_cycle},
                              {"way_bytes", level.way_bytes}});
  }
  return json;
}

Port port_from(const MachineJson& name) {
  for (std::size_t k = 0; k < kPorts; ++k) {
    if (name == to_string(static_cast<Port>(k))) return static_cast<Port>(k);
  }
  throw DataError("machine table: unknown port " + name.dump());
}

/// Some operations only take part in the issue of instructions, and not all caches have ways.
double not_negative(const MachineJson& object, const char* name) {
  const MachineJson& number = member(object, name);
  if (!number.is_number() || number.get<double>() < 0)
    throw DataError(fmt::format("machine table: '{}' is not a number of at least 0", name));
  return number.get<double>();
}

Machine from_json(const MachineJson& json) {
  Machine machine;
  machine.name = member(json, "name").get<std::string>();
  for (const MachineFigure& figure : machine_figures()) machine.*figure.value = positive(json, figure.name);
  const MachineJson& operations = member(json, "operations");
  for (std::size_t k = 0; k < kOperationClasses; ++k) {
    const MachineJson& operation = member(operations, std::string(to_string(static_cast<OperationClass>(k))).c_str());
    machine.operations[k] = {port_from(member(operation, "port")), not_negative(operation, "cycles"),
                             not_negative(operation, "issue")};
  }
  for (const MachineJson& level : member(json, "levels")) {
    machine.levels.push_back({member(level, "name").get<std::string>(), positive(level, "bytes"),
                              positive(level, "bytes_per_cycle"), positive(level, "shared_bytes_per_cycle"),
                              not_negative(level, "way_bytes")});
  }
  return machine;
}

}  // namespace

std::string to_json(const Machine& machine) { return as_json(machine).dump(1) + "\n"; }

Machine machine_from_json(std::string_view text) {
  try {
    return from_json(MachineJson::parse(text));
  } catch (const MachineJson::exception& error) {
    throw DataError(std::string("machine table: ") + error.what());
  }
}

std::string_view host_level() {
  for (const MachineLevel& level : machine_levels()) {
    if (host_supports(level.name)) return level.name;
  }
  throw CompileError("moxie compiles CPU kernels for x86-64 and aarch64 only; this processor is neither");
}

std::filesystem::path machine_file(const std::filesystem::path& cache_directory, std::string_view level) {
  return cache_directory / fmt::format("machine-{}.json", level);
}

void save_machine(const Machine& machine, const std::filesystem::path& cache_directory) {
  MachineJson json = as_json(machine);
  json[kProcessor] = processor();
  std::error_code ignored;  // atomic_write() says what is wrong
  std::filesystem::create_directories(cache_directory, ignored);
  atomic_write(machine_file(cache_directory, machine.name), json.dump(1) + "\n");
}

Machine load_machine(std::string_view level, const std::filesystem::path& cache_directory) {
  const Machine& known = default_machine(level);
  if (cache_directory.empty()) return known;
  const std::filesystem::path path = machine_file(cache_directory, level);
  try {
    const auto text = read_regular_file(path);
    if (!text) return known;
    const Machine machine = machine_from_json(*text);
    const MachineJson json = MachineJson::parse(*text);
    if (machine.name == level && json.value(kProcessor, "") == processor()) return machine;
    log_info(LogChannel::Cache, "{} is the table of another processor; run moxie doctor --calibrate", path.string());
  } catch (const std::exception& error) {
    log_info(LogChannel::Cache, "{} is not used: {}; run moxie doctor --calibrate", path.string(), error.what());
  }
  return known;
}

const Machine& host_table() {
  static const Machine machine = load_machine(host_level(), default_cache_dir());
  return machine;
}

}  // namespace moxie
