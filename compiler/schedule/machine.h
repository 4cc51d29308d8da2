#pragma once
// Machine: the figures of a processor that the cost of a kernel is computed with.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

/// Classes of operations that a processor executes at different rates. Each is counted in operations on one register,
/// except as stated.
enum class OperationClass : std::uint8_t {
  Arithmetic,  // additions, multiplications, multiply-adds
  Select,      // comparisons, where, logic, conversions, rounding
  Function,    // exp, log, ...: in units of ScalarFunction::cost, the multiply-adds of the function
  DivideF32,   // divisions of a vector register
  DivideF64,
  RootF32,  // square roots of a vector register
  RootF64,
  DivideScalar,  // divisions and square roots of a single number
  Random,        // uniform random numbers: a register of them; a normal one counts as two
  Load,
  MaskedLoad,
  Store,
  MaskedStore,
  Gather,     // elements that are loaded one by one, because lanes are not neighbours in memory
  Scatter,    // elements that are stored one by one
  Combine,    // halvings of a register when its lanes are combined into one value
  Iteration,  // iterations of a loop that is not unrolled
  LoopEntry,  // executions of a loop that is not unrolled
  Spill,      // registers that are stored and loaded again because there are not enough
};
inline constexpr std::size_t kOperationClasses = static_cast<std::size_t>(OperationClass::Spill) + 1;
std::string_view to_string(OperationClass operation);

/// Units of a processor that work side by side. An operation occupies one of them, and the issue of instructions.
enum class Port : std::uint8_t { Arithmetic, Divider, Load, Store, Issue };
inline constexpr std::size_t kPorts = static_cast<std::size_t>(Port::Issue) + 1;
std::string_view to_string(Port port);

/// What an operation of a class occupies.
struct OperationCycles {
  Port port = Port::Arithmetic;
  double cycles = 1;  // of this port
  double issue = 0;   // cycles of the issue of instructions
  bool operator==(const OperationCycles&) const = default;
};

struct CacheLevel {
  std::string name;
  double bytes = 0;                   // that one core can use
  double bytes_per_cycle = 0;         // that one core moves between this level and the next one outwards
  double shared_bytes_per_cycle = 0;  // that all cores move together
  double way_bytes = 0;               // addresses this far apart compete for the same few lines; 0: none do
  bool operator==(const CacheLevel&) const = default;
};

struct Machine {
  std::string name;
  double vector_bits = 0;
  double registers = 0;           // vector registers
  double registers_per_draw = 1;  // registers that a random number takes per lane, see lane_count()
  double gigahertz = 0;
  double cores = 0;  // assumed, whatever number of threads runs: a choice must not depend on it
  double line_bytes = 64;
  double scattered_factor = 0;        // how much longer lines take to move that are not neighbours in memory
  double instructions_in_flight = 0;  // that are executed out of order
  double arithmetic_latency = 0;      // cycles until the result of an addition can be used
  double select_latency = 0;          // the same of comparisons and selections
  double function_latency = 0;        // the same of a function, besides the cycles that it occupies its port
  double divide_latency = 0;          // of divisions and roots
  double load_latency = 0;            // from the first cache level
  double forward_latency = 0;         // from a store to the load of what it stored
  double combine_latency = 0;         // of one halving of a register
  double launch_seconds = 0;          // of one kernel
  double wake_seconds = 0;            // to begin and end on several cores
  double piece_seconds = 0;           // of the call for one tile or chunk
  double partial_cycles = 0;          // to add one element of one chunk's partial result
  std::vector<OperationCycles> operations = std::vector<OperationCycles>(kOperationClasses);  // by OperationClass
  std::vector<CacheLevel> levels;                                                             // from the core outwards
  const OperationCycles& of(OperationClass operation) const {
    return operations.at(static_cast<std::size_t>(operation));
  }
  bool operator==(const Machine&) const = default;
};

/// A figure of a Machine by its name, for tables and files.
struct MachineFigure {
  std::string_view name;
  double Machine::* value;
};
std::span<const MachineFigure> machine_figures();

/// Typical machines of the levels that kernels are compiled for: "x86-64-v4", "x86-64-v3", "x86-64", "aarch64".
std::span<const Machine> default_machines();
/// Throws CompileError for an unknown level, with the list of names.
const Machine& default_machine(std::string_view level);

}  // namespace moxie
