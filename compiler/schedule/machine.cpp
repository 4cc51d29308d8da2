#include "compiler/schedule/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::array<std::string_view, kOperationClasses> kClassNames = {
    "arithmetic",    "select",  "function",  "divide_f32",  "divide_f64", "root_f32",     "root_f64",
    "divide_scalar", "random",  "load",      "masked_load", "store",      "masked_store", "gather",
    "scatter",       "combine", "iteration", "loop_entry",  "spill"};
constexpr std::array<std::string_view, kPorts> kPortNames = {"arithmetic", "divider", "load", "store", "issue"};

constexpr std::array kFigures = {
    MachineFigure{"vector_bits", &Machine::vector_bits},
    MachineFigure{"registers", &Machine::registers},
    MachineFigure{"registers_per_draw", &Machine::registers_per_draw},
    MachineFigure{"gigahertz", &Machine::gigahertz},
    MachineFigure{"cores", &Machine::cores},
    MachineFigure{"line_bytes", &Machine::line_bytes},
    MachineFigure{"scattered_factor", &Machine::scattered_factor},
    MachineFigure{"instructions_in_flight", &Machine::instructions_in_flight},
    MachineFigure{"arithmetic_latency", &Machine::arithmetic_latency},
    MachineFigure{"select_latency", &Machine::select_latency},
    MachineFigure{"function_latency", &Machine::function_latency},
    MachineFigure{"divide_latency", &Machine::divide_latency},
    MachineFigure{"load_latency", &Machine::load_latency},
    MachineFigure{"forward_latency", &Machine::forward_latency},
    MachineFigure{"combine_latency", &Machine::combine_latency},
    MachineFigure{"launch_seconds", &Machine::launch_seconds},
    MachineFigure{"wake_seconds", &Machine::wake_seconds},
    MachineFigure{"piece_seconds", &Machine::piece_seconds},
    MachineFigure{"partial_cycles", &Machine::partial_cycles},
};

/// The first level's sets are chosen by the address within a page.
constexpr double kPage = 4096;
/// Six instructions are issued in a cycle.
constexpr double kIssue = 1.0 / 6;

std::vector<OperationCycles> operations_of_x86(double divide, double gather, double masked_store) {
  std::vector<OperationCycles> cycles(kOperationClasses);
  const auto set = [&](OperationClass operation, Port port, double port_cycles, double issue) {
    cycles[static_cast<std::size_t>(operation)] = {port, port_cycles, issue};
  };
  set(OperationClass::Arithmetic, Port::Arithmetic, 0.5, kIssue);
  set(OperationClass::Select, Port::Arithmetic, 0.5, kIssue);
  set(OperationClass::Function, Port::Arithmetic, 0.5, kIssue);
  set(OperationClass::DivideF32, Port::Divider, 0.6 * divide, kIssue);
  set(OperationClass::DivideF64, Port::Divider, divide, kIssue);
  set(OperationClass::RootF32, Port::Divider, 0.8 * divide, kIssue);
  set(OperationClass::RootF64, Port::Divider, 1.5 * divide, kIssue);
  set(OperationClass::DivideScalar, Port::Divider, 4, kIssue);
  set(OperationClass::Random, Port::Arithmetic, 20, 60 * kIssue);
  set(OperationClass::Load, Port::Load, 0.5, kIssue);
  set(OperationClass::MaskedLoad, Port::Load, 0.6, 2 * kIssue);
  set(OperationClass::Store, Port::Store, 1, kIssue);
  set(OperationClass::MaskedStore, Port::Store, masked_store, 2 * kIssue);
  set(OperationClass::Gather, Port::Load, gather, 0.6 * gather);
  set(OperationClass::Scatter, Port::Store, 1.2 * gather, 0.8 * gather);
  set(OperationClass::Combine, Port::Arithmetic, 1.5, 2 * kIssue);
  set(OperationClass::Iteration, Port::Issue, 0, 0.5);
  set(OperationClass::LoopEntry, Port::Issue, 0, 4);
  set(OperationClass::Spill, Port::Arithmetic, 1, 2 * kIssue);
  return cycles;
}

/// A server's core with AVX-512.
Machine x86_64_v4() {
  Machine machine;
  machine.name = "x86-64-v4";
  machine.vector_bits = 512;
  machine.registers = 32;
  machine.registers_per_draw = 2;
  machine.gigahertz = 4;
  machine.cores = 8;
  machine.scattered_factor = 2;
  machine.instructions_in_flight = 320;
  machine.arithmetic_latency = 3;
  machine.select_latency = 2;
  machine.function_latency = 35;
  machine.divide_latency = 12;
  machine.load_latency = 6;
  machine.forward_latency = 7;
  machine.combine_latency = 6;
  machine.launch_seconds = 3e-8;
  machine.wake_seconds = 3e-6;
  machine.piece_seconds = 4e-9;
  machine.partial_cycles = 1;
  machine.operations = operations_of_x86(/*divide=*/8, /*gather=*/1, /*masked_store=*/1);
  machine.levels = {
      {"L1", 48 << 10, 80, 8 * 80, kPage}, {"L2", 1 << 20, 35, 8 * 35, 16 * kPage}, {"L3", 24 << 20, 15, 60, 0}};
  return machine;
}

/// A core with AVX2: half the lanes and half the registers.
Machine x86_64_v3() {
  Machine machine = x86_64_v4();
  machine.name = "x86-64-v3";
  machine.vector_bits = 256;
  machine.registers = 16;
  machine.registers_per_draw = 1;
  machine.instructions_in_flight = 224;
  // AMD's cores store part of a vector in microcode (8.7 cycles on an EPYC, by moxie doctor --calibrate).
  machine.operations = operations_of_x86(/*divide=*/6, /*gather=*/1.2, /*masked_store=*/9);
  machine.levels = {
      {"L1", 32 << 10, 60, 8 * 60, kPage}, {"L2", 512 << 10, 25, 8 * 25, 16 * kPage}, {"L3", 16 << 20, 10, 40, 0}};
  return machine;
}

Machine x86_64() {
  Machine machine = x86_64_v3();
  machine.name = "x86-64";
  machine.vector_bits = 128;
  machine.operations = operations_of_x86(/*divide=*/5, /*gather=*/1.5, /*masked_store=*/4);
  return machine;
}

/// A core with Advanced SIMD: four short vector units.
Machine aarch64() {
  Machine machine = x86_64_v3();
  machine.name = "aarch64";
  machine.vector_bits = 128;
  machine.registers = 32;
  machine.gigahertz = 3;
  machine.operations = operations_of_x86(/*divide=*/5, /*gather=*/0.75, /*masked_store=*/4);
  for (const OperationClass operation :
       {OperationClass::Arithmetic, OperationClass::Select, OperationClass::Function, OperationClass::Random})
    machine.operations[static_cast<std::size_t>(operation)].cycles /= 2;
  machine.levels = {
      {"L1", 64 << 10, 50, 8 * 50, 4 * kPage}, {"L2", 1 << 20, 25, 8 * 25, 32 * kPage}, {"L3", 16 << 20, 10, 48, 0}};
  return machine;
}

}  // namespace

std::string_view to_string(OperationClass operation) { return kClassNames.at(static_cast<std::size_t>(operation)); }
std::string_view to_string(Port port) { return kPortNames.at(static_cast<std::size_t>(port)); }
std::span<const MachineFigure> machine_figures() { return kFigures; }

std::span<const Machine> default_machines() {
  static const std::vector<Machine> machines = {x86_64_v4(), x86_64_v3(), x86_64(), aarch64()};
  return machines;
}

const Machine& default_machine(std::string_view level) {
  const auto machines = default_machines();
  const auto found = std::ranges::find(machines, level, &Machine::name);
  if (found != machines.end()) return *found;
  std::vector<std::string_view> names;
  for (const Machine& machine : machines) names.push_back(machine.name);
  throw CompileError(fmt::format("unknown machine '{}'; known machines: {}", level, fmt::join(names, ", ")));
}

}  // namespace moxie
