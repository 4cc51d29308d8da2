#include "tools/commands/doctor_calibrate.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <vector>

#include "compiler/expression/functions.h"
#include "compiler/schedule/cost.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host.h"
#include "runtime/host_memory.h"
#include "tools/commands/thread_clock.h"

namespace moxie {
namespace {

/// The least of some runs, each of which takes long enough for the processor's clock.
template <class Run>
double least_seconds(const Run& run) {
  constexpr int kRuns = 7;
  double least = std::numeric_limits<double>::infinity();
  for (int k = 0; k < kRuns; ++k) {
    const double start = thread_seconds();
    run();
    least = std::min(least, thread_seconds() - start);
  }
  return least;
}

/// Additions that wait for each other take a cycle each on every processor.
double measure_gigahertz() {
  constexpr int kAdditions = 4'000'000, kUnrolled = 8;
  const double seconds = least_seconds([] {
    std::uint64_t sum = 0;
    for (int k = 0; k < kAdditions; k += kUnrolled) {
      for (int j = 0; j < kUnrolled; ++j) {
        sum += 1;
        asm volatile("" : "+r"(sum));  // so that the compiler adds one by one
      }
    }
  });
  return kAdditions / seconds * 1e-9;
}

/// A kernel that repeats one operation in a loop: for k in 0..repetitions { for j in 0..kRow { body } }, in lanes or on
/// single numbers, with sums of its own for each of several copies of the operation.
class Probe {
 public:
  static constexpr std::int64_t kRow = 16;  // iterations of the inner loop
  enum class Lanes : std::uint8_t { one, whole, partial };

  Probe(ValueType type, Lanes lanes, const Machine& machine) : type_(type), lanes_(lanes) {
    const DType dtype = type == ValueType::f64 ? DType::f64 : DType::f32;
    width_ = static_cast<std::int64_t>(machine.vector_bits) / (type == ValueType::f64 ? 64 : 32);
    program_.name = "probe";
    program_.arguments = {"repetitions"};
    // x and y by copies, inner iterations and lanes; w by inner iterations; c by lanes, inner iterations and copies.
    program_.buffers = {buffer("x", dtype, {kMaxCopies, kRow, width_}), buffer("w", dtype, {kRow}),
                        buffer("columns", dtype, {width_, kRow, kMaxCopies}),
                        buffer("y", dtype, {kMaxCopies, kRow, width_}),
                        buffer("written_columns", dtype, {width_, kRow, kMaxCopies})};
    program_.buffers[3].written = program_.buffers[4].written = true;
    program_.arrays = {{"scratch", dtype, {1}, lanes != Lanes::one}};
    w_ = let(false, op::Load{1, {inner_variable()}, {}}, inner_);
  }

  static Symbol lane_variable() { return Symbol::bound(2); }
  static Symbol outer_variable() { return Symbol::bound(1); }
  static Symbol inner_variable() { return Symbol::bound(0); }

  ValueId w() const { return w_; }
  /// A value of the copy that no loop changes.
  ValueId invariant(std::int64_t copy) { return let(varying(), op::Load{0, {copy, 0, lane()}, {}}, outside_); }
  ValueId load(std::int64_t copy) { return let(varying(), op::Load{0, {copy, inner_variable(), lane()}, {}}, inner_); }
  ValueId gather(std::int64_t copy) {
    return let(varying(), op::Load{2, {lane(), inner_variable(), copy}, {}}, inner_);
  }
  void store(std::int64_t copy, ValueId value) {
    inner_.push_back(stmt::Store{3, {copy, inner_variable(), lane()}, value});
  }
  void scatter(std::int64_t copy, ValueId value) {
    inner_.push_back(stmt::Store{4, {lane(), inner_variable(), copy}, value});
  }
  ValueId call(std::string_view name, std::vector<ValueId> args) {
    return let(varying(), op::Call{&function(name), std::move(args)}, inner_);
  }
  /// The sum of a copy, which `next` gives for the following iteration; kept in a register or in scratch.
  void carry(const std::function<ValueId(ValueId sum)>& next) {
    const auto var = static_cast<VarId>(program_.vars.size());
    program_.vars.push_back({type_, varying()});
    outside_.push_back(stmt::SetVar{var, invariant(0)});
    inner_.push_back(stmt::SetVar{var, next(let(varying(), op::ReadVar{var}, inner_))});
    const ValueId last = let(varying(), op::ReadVar{var}, after_);
    after_.push_back(stmt::Store{3, {var, 0, lane()}, last});
  }
  void carry_in_scratch(const std::function<ValueId(ValueId sum)>& next) {
    outside_.push_back(stmt::StoreArray{0, {0}, invariant(0)});
    const ValueId sum = next(let(varying(), op::LoadArray{0, {0}}, inner_));
    inner_.push_back(stmt::StoreArray{0, {0}, sum});
  }

  LoweredKernel kernel() const {
    const stmt::For inner{inner_variable(), Range::extent(kRow), false, inner_};
    const stmt::For outer{outer_variable(), Range::extent(Symbol::dim("repetitions")), false, {inner}};
    Block body = outside_;
    body.emplace_back(outer);
    body.insert(body.end(), after_.begin(), after_.end());
    LoweredKernel kernel;
    kernel.program = program_;
    const std::int64_t lanes = lanes_ == Lanes::partial ? width_ - 1 : width_;
    kernel.program.body = body;
    if (lanes_ != Lanes::one) kernel.program.body = {stmt::For{lane_variable(), Range::extent(lanes), true, body}};
    verify(kernel.program);
    return kernel;
  }

  static constexpr std::int64_t kMaxCopies = 8;

 private:
  bool varying() const { return lanes_ != Lanes::one; }
  Affine lane() const { return varying() ? Affine(lane_variable()) : Affine(0); }

  static BufferDecl buffer(const char* name, DType dtype, std::vector<Affine> shape) {
    std::vector<std::uint32_t> layout;
    for (std::uint32_t axis = 0; axis < shape.size(); ++axis) layout.push_back(axis);
    return {name, dtype, std::move(shape), std::move(layout), false};
  }
  ValueId let(bool varying, Operation operation, Block& block) {
    const auto* call = std::get_if<op::Call>(&operation);
    const bool truth = call && call->function->result == ResultType::Truth;
    program_.values.push_back({truth ? ValueType::truth : type_, varying, std::move(operation)});
    const auto id = static_cast<ValueId>(program_.values.size() - 1);
    block.push_back(stmt::Let{id});
    return id;
  }

  LoopProgram program_;
  ValueType type_;
  Lanes lanes_;
  std::int64_t width_;
  ValueId w_ = 0;
  Block outside_, inner_, after_;
};

/// Seconds of one launch with buffers of small positive numbers.
double launch_seconds(const LoweredKernel& kernel, const DimValues& dims) {
  const CpuKernel::Ptr code = CpuKernel::build(kernel.program, host_machine(), nullptr);
  std::vector<HostMemory> memory;
  std::vector<void*> buffers;
  for (const BufferDecl& buffer : kernel.program.buffers) {
    std::int64_t count = 1;
    for (const Affine& extent : buffer.shape) count *= evaluate(extent, dims);
    const auto size = static_cast<std::size_t>(bytes_of(buffer.dtype));
    memory.push_back(allocate_zeros(static_cast<std::size_t>(count) * size));
    buffers.push_back(memory.back().get());
    for (std::int64_t k = 0; k < count; ++k) {
      const double value = 1 + 0.001 * static_cast<double>(k % 100);
      if (buffer.dtype == DType::f32)
        static_cast<float*>(buffers.back())[k] = static_cast<float>(value);
      else
        static_cast<double*>(buffers.back())[k] = value;
    }
  }
  std::vector<std::int64_t> arguments;
  for (const std::string& name : kernel.program.arguments) arguments.push_back(dims.at(name));
  const HostMemory scratch = allocate_zeros(static_cast<std::size_t>(code->scratch_bytes(arguments)));
  KernelStatus status;
  const auto run = [&] { code->run(buffers.data(), arguments.data(), scratch.get(), &status); };
  run();
  return least_seconds(run);
}

constexpr std::int64_t kRepetitions = 2000;
const DimValues kProbeDims = {{"repetitions", kRepetitions}};

struct ThroughputProbe {
  OperationClass operation;
  ValueType type;
  Probe::Lanes lanes;
  void (*add)(Probe& probe, std::int64_t copy);  // one copy of the operation
};

void add_sum(Probe& probe, const std::function<ValueId()>& value) {
  probe.carry([&](ValueId sum) { return probe.call("+", {sum, value()}); });
}

/// In an order in which each class needs only those before it.
constexpr std::array kThroughput = {
    ThroughputProbe{OperationClass::Arithmetic, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) {
                      const ValueId x = p.invariant(copy);
                      add_sum(p, [&] { return p.call("*", {x, p.w()}); });
                    }},
    ThroughputProbe{OperationClass::Select, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) {
                      const ValueId x = p.invariant(copy);
                      p.carry([&](ValueId sum) { return p.call("where", {p.call("<", {x, p.w()}), sum, x}); });
                    }},
    ThroughputProbe{OperationClass::Function, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) {
                      const ValueId x = p.invariant(copy);
                      add_sum(p, [&] { return p.call("exp", {p.call("*", {x, p.w()})}); });
                    }},
    ThroughputProbe{OperationClass::DivideF32, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) {
                      const ValueId x = p.invariant(copy);
                      add_sum(p, [&] { return p.call("/", {x, p.w()}); });
                    }},
    ThroughputProbe{OperationClass::DivideF64, ValueType::f64, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) {
                      const ValueId x = p.invariant(copy);
                      add_sum(p, [&] { return p.call("/", {x, p.w()}); });
                    }},
    ThroughputProbe{OperationClass::RootF32, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) {
                      const ValueId x = p.invariant(copy);
                      add_sum(p, [&] { return p.call("sqrt", {p.call("*", {x, p.w()})}); });
                    }},
    ThroughputProbe{OperationClass::RootF64, ValueType::f64, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) {
                      const ValueId x = p.invariant(copy);
                      add_sum(p, [&] { return p.call("sqrt", {p.call("*", {x, p.w()})}); });
                    }},
    ThroughputProbe{OperationClass::DivideScalar, ValueType::f32, Probe::Lanes::one,
                    [](Probe& p, std::int64_t copy) {
                      const ValueId x = p.invariant(copy);
                      add_sum(p, [&] { return p.call("/", {x, p.w()}); });
                    }},
    ThroughputProbe{OperationClass::Load, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) { add_sum(p, [&] { return p.load(copy); }); }},
    ThroughputProbe{OperationClass::MaskedLoad, ValueType::f32, Probe::Lanes::partial,
                    [](Probe& p, std::int64_t copy) { add_sum(p, [&] { return p.load(copy); }); }},
    ThroughputProbe{OperationClass::Store, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) { p.store(copy, p.invariant(copy)); }},
    ThroughputProbe{OperationClass::MaskedStore, ValueType::f32, Probe::Lanes::partial,
                    [](Probe& p, std::int64_t copy) { p.store(copy, p.invariant(copy)); }},
    ThroughputProbe{OperationClass::Gather, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) { add_sum(p, [&] { return p.gather(copy); }); }},
    ThroughputProbe{OperationClass::Scatter, ValueType::f32, Probe::Lanes::whole,
                    [](Probe& p, std::int64_t copy) { p.scatter(copy, p.invariant(copy)); }},
};

/// What the other classes leave of the probe's time on the class's port is the class's own.
void measure_throughput(const ThroughputProbe& probe, Machine& machine) {
  Probe program(probe.type, probe.lanes, machine);
  for (std::int64_t copy = 0; copy < Probe::kMaxCopies; ++copy) probe.add(program, copy);
  const LoweredKernel kernel = program.kernel();
  const double cycles = launch_seconds(kernel, kProbeDims) * machine.gigahertz * 1e9;
  const Cost cost = estimate(kernel, kProbeDims, machine);
  OperationCycles& figure = machine.operations.at(static_cast<std::size_t>(probe.operation));
  const double own = cost.count(probe.operation);
  const double others = cost.ports.at(static_cast<std::size_t>(figure.port)) - own * figure.cycles;
  // A probe that waits for another port shows only that the class is no slower than this.
  constexpr double kFaster = 0.25, kSlower = 8;
  figure.cycles = std::clamp((cycles - others) / own, kFaster * figure.cycles, kSlower * figure.cycles);
}

/// Cycles of each iteration of a loop that carries one value.
double cycles_of_chain(const Machine& machine, Probe::Lanes lanes, const std::function<ValueId(Probe&, ValueId)>& next,
                       bool in_scratch = false) {
  Probe probe(ValueType::f32, lanes, machine);
  const auto step = [&](ValueId sum) { return next(probe, sum); };
  if (in_scratch)
    probe.carry_in_scratch(step);
  else
    probe.carry(step);
  return launch_seconds(probe.kernel(), kProbeDims) * machine.gigahertz * 1e9 / (kRepetitions * Probe::kRow);
}

void measure_latencies(Machine& machine) {
  const auto add = [](Probe& p, ValueId sum) { return p.call("+", {sum, p.w()}); };
  machine.arithmetic_latency = cycles_of_chain(machine, Probe::Lanes::whole, add);
  machine.divide_latency =
      cycles_of_chain(machine, Probe::Lanes::whole, [](Probe& p, ValueId sum) { return p.call("/", {p.w(), sum}); });
  const double with_exp = cycles_of_chain(machine, Probe::Lanes::whole, [](Probe& p, ValueId sum) {
    return p.call("exp", {p.call("*", {p.call("neg", {sum}), p.w()})});
  });
  const double occupied = 10 * machine.of(OperationClass::Function).cycles;  // its multiply-adds
  machine.function_latency = std::max(1.0, with_exp - machine.arithmetic_latency - occupied);
  const double through_memory = cycles_of_chain(machine, Probe::Lanes::whole, add, /*in_scratch=*/true);
  machine.forward_latency = std::max(machine.load_latency, through_memory - machine.arithmetic_latency);
}

/// A number of this processor's cache `index` as Linux tells it, with a K for 1024; 0 where there is none.
double read_cache_number(int index, const char* name) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/{}", index, name));
  double number = 0;
  char unit = ' ';
  if (file >> number) file >> unit;
  return unit == 'K' ? 1024 * number : number;
}

/// Sizes that the system knows; of the last level, which other cores use too, three quarters.
void read_cache_sizes(Machine& machine) {
  constexpr double kUsable = 0.75;
  constexpr std::array kIndices = {0, 2, 3};  // Linux lists the one for instructions between the first two
  for (std::size_t k = 0; k < std::min(kIndices.size(), machine.levels.size()); ++k) {
    CacheLevel& level = machine.levels[k];
    const double size = read_cache_number(kIndices.at(k), "size");
    const double ways = read_cache_number(kIndices.at(k), "ways_of_associativity");
    if (size <= 0) continue;
    level.bytes = k + 1 == machine.levels.size() ? kUsable * size : size;
    if (level.way_bytes > 0 && ways > 0) level.way_bytes = size / ways;
  }
}

/// y = x, again and again, of this many bytes in all.
LoweredKernel copy_kernel() {
  LoweredKernel kernel;
  LoopProgram& program = kernel.program;
  program.name = "copy";
  program.arguments = {"N", "repetitions"};
  const Symbol n = Symbol::bound(0), repetition = Symbol::bound(1);
  program.buffers = {{"x", DType::f32, {Symbol::dim("N")}, {0}, false},
                     {"y", DType::f32, {Symbol::dim("N")}, {0}, true}};
  program.values = {{ValueType::f32, true, op::Load{0, {n}, {}}}};
  const stmt::For row{n, Range::extent(Symbol::dim("N")), true, {stmt::Let{0}, stmt::Store{1, {n}, 0}}};
  program.body = {stmt::For{repetition, Range::extent(Symbol::dim("repetitions")), false, {row}}};
  return kernel;
}

void measure_bandwidths(Machine& machine) {
  constexpr double kEnough = 32 << 20;  // bytes to move in one launch
  const LoweredKernel copy = copy_kernel();
  for (std::size_t k = 0; k < machine.levels.size(); ++k) {
    CacheLevel& level = machine.levels[k];
    const bool last = k + 1 == machine.levels.size();
    const double bytes = last ? 4 * level.bytes : std::min(machine.levels[k + 1].bytes / 2, 8 * level.bytes);
    const DimValues dims = {{"N", static_cast<std::int64_t>(bytes / 8)},
                            {"repetitions", static_cast<std::int64_t>(std::ceil(kEnough / bytes))}};
    const double cycles = launch_seconds(copy, dims) * machine.gigahertz * 1e9;
    const double scale = estimate(copy, dims, machine).traffic.at(k).bytes / cycles / level.bytes_per_cycle;
    level.bytes_per_cycle *= scale;
    level.shared_bytes_per_cycle *= scale;
  }
}

}  // namespace

Machine calibrate(Machine machine) {
  machine.gigahertz = measure_gigahertz();
  read_cache_sizes(machine);
  for (const ThroughputProbe& probe : kThroughput) measure_throughput(probe, machine);
  measure_latencies(machine);
  measure_bandwidths(machine);
  return machine;
}

std::string comparison_table(const Machine& before, const Machine& after) {
  std::string text = fmt::format("{:32} {:>12} {:>12}\n", "figure", "default", "measured");
  const auto line = [&](const std::string& name, double was, double is) {
    if (was != is) text += fmt::format("{:32} {:12.4g} {:12.4g}\n", name, was, is);
  };
  for (const MachineFigure& figure : machine_figures())
    line(std::string(figure.name), before.*figure.value, after.*figure.value);
  for (std::size_t k = 0; k < kOperationClasses; ++k)
    line(fmt::format("cycles of {}", to_string(static_cast<OperationClass>(k))), before.operations[k].cycles,
         after.operations[k].cycles);
  for (std::size_t k = 0; k < std::min(before.levels.size(), after.levels.size()); ++k) {
    line("bytes of " + after.levels[k].name, before.levels[k].bytes, after.levels[k].bytes);
    line("bytes per cycle beyond " + after.levels[k].name, before.levels[k].bytes_per_cycle,
         after.levels[k].bytes_per_cycle);
  }
  return text;
}

}  // namespace moxie
