#include "compiler/schedule/operations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "compiler/expression/functions.h"
#include "compiler/loop/accumulations.h"
#include "compiler/loop/lane_count.h"
#include "compiler/loop/lane_runs.h"
#include "compiler/loop/operands.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/schedule/traffic.h"

namespace moxie {
namespace {

double multiply_adds(const ScalarFunction& function, ValueType type) {
  if (!function.register_cost) return function.cost;
  return type == ValueType::f64 ? function.register_cost->f64 : function.register_cost->f32;
}

/// A normal number takes the logarithm, the root and the cosine of two uniform ones.
constexpr double kNormal = 2;

/// Averages of trip counts are rounded to this fraction, which takes away what dividing them by pieces added.
constexpr double kTripFractions = 1024;
/// Powers up to this one are multiplied out, and up to the other beside a square root.
constexpr double kMaxMultiplied = 16, kMaxBesideRoot = 7.5;
/// Shuffles that take elements from two registers: with AVX2 a shuffle of halves and a permutation.
constexpr double kShuffles = 2;
/// Registers from here on come with masks for every operation.
constexpr double kBitsWithMasks = 512;
/// A comparison, a choice and a sign beside the root: see half_power() of codegen/llvm/vector_math_pow.cpp.
constexpr double kBesideRoot = 3;

/// Multiplications of x^n by squaring.
double squarings(double exponent) {
  const auto n = static_cast<unsigned>(exponent);
  return n < 2 ? 0 : std::bit_width(n) - 1 + std::popcount(n) - 1;
}

bool has_fraction(double number) { return number != std::floor(number); }

bool is_multiplied_out(double exponent) {
  return !has_fraction(2 * exponent) &&
         std::abs(exponent) <= (has_fraction(exponent) ? kMaxBesideRoot : kMaxMultiplied);
}

double bits_of(ValueType type) { return type == ValueType::f64 || type == ValueType::index ? 64 : 32; }

}  // namespace

Operations::Operations(const LoopTree& tree, const Machine& machine)
    : tree_(tree),
      program_(tree.program()),
      machine_(machine),
      fused_(program_.values.size()),
      only_compared_(program_.values.size()),
      latencies_(program_.values.size()) {
  for (const BufferDecl& buffer : program_.buffers) strides_.push_back(strides_of(tree, buffer));
  find_fused(program_.body);
  count(program_.body);
}

/// Indices that are compared are integers, and no numbers are made of them; see compared_indices() of codegen/llvm.
bool Operations::compares_indices(const op::Call& call) const {
  return call.function->result == ResultType::Truth && call.args.size() == 2 &&
         std::ranges::all_of(call.args, [this](ValueId arg) { return index_in(program_.values.at(arg)).has_value(); });
}

/// Each addition of a sum takes in one factor pair: a product that nothing else reads. So does an addition under a
/// mask, and with AVX-512 the mask is part of it, too.
void Operations::find_fused(const Block& block) {
  std::vector<int> uses(program_.values.size()), compared(program_.values.size());
  std::vector<const op::Call*> sums;
  const auto visit = [&](const auto& self, const Block& statements) -> void {
    for (const Statement& statement : statements) {
      for (const ValueId id : operands(program_, statement)) ++uses[id];
      if (const auto* loop = std::get_if<stmt::For>(&statement)) self(self, loop->body);
      const auto* let = std::get_if<stmt::Let>(&statement);
      const auto* call = let ? std::get_if<op::Call>(&program_.values.at(let->id).operation) : nullptr;
      if (call && call->function->name == "+") sums.push_back(call);
      if (!call || !compares_indices(*call)) continue;
      for (const ValueId arg : call->args) ++compared[arg];
    }
  };
  visit(visit, block);
  for (ValueId id = 0; id < uses.size(); ++id) only_compared_[id] = uses[id] > 0 && uses[id] == compared[id];
  for (const op::Call* sum : sums) {
    auto additions = static_cast<double>(sum->args.size()) - 1;
    for (const ValueId arg : sum->args) {
      const auto* product = std::get_if<op::Call>(&program_.values.at(arg).operation);
      const bool fuses =
          product && uses[arg] == 1 && (product->function->name == "*" || product->function->name == "pow");
      if (fuses && additions-- > 0) fused_[arg] = 1;
    }
    const auto masked = masked_term(program_, *sum);
    if (!masked || uses[masked->where] != 1) continue;
    if (machine_.vector_bits >= kBitsWithMasks) fused_[masked->where] = 1;
    const auto* product = std::get_if<op::Call>(&program_.values.at(masked->term).operation);
    if (product && uses[masked->term] == 1 && product->function->name == "*") fused_[masked->term] = 1;
  }
}

void Operations::count(const Block& block) {
  for (const Statement& statement : block) {
    counts_[&statement] = std::visit([&](const auto& s) { return count(s); }, statement);
    const auto* loop = std::get_if<stmt::For>(&statement);
    if (!loop) continue;
    if (loop->vector) lanes_ = Lanes{loop->variable, masked_fraction(*loop)};
    const std::optional<Lanes> outside = lanes_;
    if (lanes_ && !loop->vector) lanes_->diverge |= mentions(loop->range, lanes_->variable);
    count(loop->body);
    lanes_ = outside;
    if (loop->vector) lanes_.reset();
  }
  if (lanes_ && lanes_->masked < 1 && !lanes_->diverge) count_runs(block);
}

/// Each lane takes one load or store of the run. Vectors shorter than a register are joined, and all are transposed.
void Operations::count_runs(const Block& block) {
  for (const LaneRun& run : lane_runs(program_, block, lanes_->variable, tree_.lanes())) {
    const auto length = static_cast<double>(run.statements.size()), lanes = static_cast<double>(tree_.lanes());
    const double whole = 1 - lanes_->masked, vectors = lanes / length;
    longest_run_ = std::max(longest_run_, run.statements.size());
    for (const std::size_t k : run.statements) {
      const auto* store = std::get_if<stmt::Store>(&block[k]);
      const ValueId value = store ? store->value : std::get<stmt::Let>(block[k]).id;
      const double shuffles = (std::log2(length) + vectors - 1) * registers(program_.values.at(value).type);
      counts_[&block[k]] = {{run.stores ? OperationClass::Store : OperationClass::Load, vectors * whole},
                            {OperationClass::Select, shuffles * whole},
                            {run.stores ? OperationClass::Scatter : OperationClass::Gather, lanes * lanes_->masked}};
    }
  }
}

/// Only the tail of a loop is masked, and only that of the last piece; a loop without a tail of its own is masked
/// throughout.
double Operations::masked_fraction(const stmt::For& loop) const {
  const CountedLoop& counted = tree_.loops()[tree_.index_of(loop)];
  const double trips = std::round(counted.trips * counted.pieces * kTripFractions) / kTripFractions;
  const bool partial = std::fmod(trips, tree_.lanes()) != 0;
  const auto known = loop.range.known_trip_count();
  const bool may_be_partial = partial || !known || !known->is_constant();
  if (may_be_partial && loop.interleave == 1 && count_statements(loop.body) > kMaxStatementsTwice) return 1;
  return partial ? 1 / std::max(1.0, counted.iterations * counted.pieces) : 0;
}

Operations::Counts Operations::access(OperationClass whole, OperationClass masked, double registers) const {
  const double fraction = lanes_ ? lanes_->masked : 0;
  return {{whole, registers * (1 - fraction)}, {masked, registers * fraction}};
}

double Operations::instructions(const Statement& statement) const {
  double sum = 0;
  for (const OperationCount& part : of(statement)) sum += part.count;
  return sum;
}

double Operations::registers(ValueType type) const {
  return std::ceil(tree_.lanes() * bits_of(type) / machine_.vector_bits);
}

double Operations::registers(ValueId id) const {
  const Value& value = program_.values.at(id);
  return value.varying && value.type != ValueType::truth ? registers(value.type) : 0;
}

/// Registers of the result, or one single number.
double Operations::width(const Value& value) const { return value.varying ? registers(value.type) : 1; }

// ---- statements ----

Operations::Counts Operations::count(const stmt::Let& s) {
  const Value& value = program_.values.at(s.id);
  Counts counts = std::visit([&](const auto& o) { return count(value, o); }, value.operation);
  if (only_compared_[s.id]) counts.clear();
  if (fused_[s.id] > 0 && !counts.empty()) counts[0].count -= width(value);
  latencies_[s.id] = latency(value, counts);
  return counts;
}

/// Lanes that have no more iterations keep what they hold: with masks that is part of the operation.
Operations::Counts Operations::count(const stmt::SetVar& s) const {
  const VarDecl& var = program_.vars.at(s.var);
  if (!lanes_ || !lanes_->diverge || !var.varying || machine_.vector_bits >= kBitsWithMasks) return {};
  return {{OperationClass::Select, registers(var.type)}};
}

Operations::Counts Operations::count(const stmt::Store& s) const {
  if (!lanes_ || tree_.lanes() == 1) return {{OperationClass::Store, 1}};
  const double stride = stride_along(s.subscripts, strides_.at(s.buffer), lanes_->variable);
  if (std::abs(stride) != 1) return {{OperationClass::Scatter, static_cast<double>(tree_.lanes())}};
  const double width = registers(value_type(program_.buffers.at(s.buffer).dtype));
  return access(OperationClass::Store, OperationClass::MaskedStore, width);
}

Operations::Counts Operations::count(const stmt::StoreArray& s) const {
  const ArrayDecl& array = program_.arrays.at(s.array);
  const bool in_row =
      lanes_ && std::ranges::any_of(s.subscripts, [&](const Affine& a) { return a.mentions(lanes_->variable); });
  if (!array.varying && !in_row) return {{OperationClass::Store, 1}};
  const double width = registers(value_type(array.dtype));
  if (!in_row) return {{OperationClass::Store, width}};
  return access(OperationClass::Store, OperationClass::MaskedStore, width);
}

Operations::Counts Operations::count(const stmt::Check&) const { return {{OperationClass::Select, 2}}; }

// ---- values ----

Operations::Counts Operations::count(const Value&, const op::Constant&) const { return {}; }
Operations::Counts Operations::count(const Value&, const op::ReadVar&) const { return {}; }

Operations::Counts Operations::count(const Value& value, const op::Number&) const {
  return {{OperationClass::Select, value.varying ? 2 * width(value) : 1}};
}

/// A short stride loads whole vectors and shuffles their elements into lanes. Longer strides and masked lanes gather.
Operations::Counts Operations::strided_load(double stride, double registers, bool guarded) const {
  const auto lanes = static_cast<double>(tree_.lanes());
  const double masked = guarded ? 1 : lanes_->masked, vectors = std::abs(stride);
  if (vectors > kMaxShuffledStride) return {{OperationClass::Gather, lanes}};
  const double shuffles = std::max(1.0, kShuffles * (vectors - 1));
  return {{OperationClass::Load, vectors * registers * (1 - masked)},
          {OperationClass::Select, shuffles * registers * (1 - masked)},
          {OperationClass::Gather, lanes * masked}};
}

Operations::Counts Operations::count(const Value& value, const op::Load& o) const {
  const BufferDecl& buffer = program_.buffers.at(o.buffer);
  const ValueType stored = value_type(buffer.dtype);
  Counts counts;
  const double stride =
      value.varying && lanes_ ? stride_along(o.subscripts, strides_.at(o.buffer), lanes_->variable) : 0;
  const bool gathers =
      std::ranges::any_of(o.subscripts, [&](const Affine& subscript) { return mentions_varying(program_, subscript); });
  if (value.varying && tree_.lanes() > 1 && gathers) {
    counts = {{OperationClass::Gather, static_cast<double>(tree_.lanes())}};
  } else if (!value.varying || tree_.lanes() == 1 || stride == 0) {
    counts = {{OperationClass::Load, 1}};
  } else if (stride == 1) {
    const OperationClass whole = o.guard ? OperationClass::MaskedLoad : OperationClass::Load;
    counts = access(whole, OperationClass::MaskedLoad, registers(stored));
  } else {
    counts = strided_load(stride, registers(stored), o.guard.has_value());
  }
  if (stored != value.type) counts.push_back({OperationClass::Select, width(value)});
  return counts;
}

/// Two comparisons and two selections.
Operations::Counts Operations::count(const Value& value, const op::Subscript&) const {
  return {{OperationClass::Select, 2 * width(value)}};
}

Operations::Counts Operations::count(const Value& value, const op::LoadArray& o) const {
  const ArrayDecl& array = program_.arrays.at(o.array);
  const ValueType stored = value_type(array.dtype);
  Counts counts = {{OperationClass::Load, value.varying ? registers(stored) : 1}};
  if (stored != value.type) counts.push_back({OperationClass::Select, width(value)});
  return counts;
}

Operations::Counts Operations::count(const Value& value, const op::Call& o) const {
  const std::string_view name = o.function->name;
  const auto args = static_cast<double>(o.args.size());
  // A truth value is computed from numbers, whose registers count.
  const double width = value.varying ? registers(program_.values.at(o.args.back()).type) : 1;
  if (compares_indices(o)) return {{OperationClass::Select, 1}};
  if (name == "+" || name == "*") return {{OperationClass::Arithmetic, (args - 1) * width}};
  if (name == "/") return divisions(value, 1);
  if (name == "sqrt") return roots(value);
  if (name == "pow") {
    const auto* exponent = std::get_if<op::Constant>(&program_.values.at(o.args[1]).operation);
    if (exponent && is_multiplied_out(exponent->value)) return power(value, exponent->value);
  }
  if (name == "rsqrt") return power(value, -0.5);
  if (const auto& counted = o.function->register_cost; counted && counted->instructions)
    return {{OperationClass::Select, counted->f32 * std::max(1.0, o.function->arity < 0 ? args - 1 : 1) * width}};
  return {{OperationClass::Function, multiply_adds(*o.function, value.type) * width}};
}

Operations::Counts Operations::power(const Value& value, double exponent) const {
  const double size = std::abs(exponent), products = squarings(size);
  Counts counts = {{OperationClass::Arithmetic, products * width(value)}};
  if (has_fraction(exponent)) counts = roots(value);
  if (has_fraction(exponent) && size > 1) {
    counts.push_back({OperationClass::Arithmetic, (products + 1) * width(value)});
    counts.push_back({OperationClass::Select, kBesideRoot * width(value)});
  }
  if (exponent < 0) counts.push_back(divisions(value, 1).front());
  return counts;
}

Operations::Counts Operations::divisions(const Value& value, double count) const {
  if (!value.varying || tree_.lanes() == 1) return {{OperationClass::DivideScalar, count}};
  const bool single = value.type == ValueType::f32;
  return {{single ? OperationClass::DivideF32 : OperationClass::DivideF64, count * width(value)}};
}

Operations::Counts Operations::roots(const Value& value) const {
  if (!value.varying || tree_.lanes() == 1) return {{OperationClass::DivideScalar, 1}};
  return {{value.type == ValueType::f32 ? OperationClass::RootF32 : OperationClass::RootF64, width(value)}};
}

Operations::Counts Operations::count(const Value& value, const op::Convert& o) const {
  return {{OperationClass::Select, std::max(width(value), width(program_.values.at(o.value)))}};
}

Operations::Counts Operations::count(const Value& value, const op::Random& o) const {
  return {{OperationClass::Random, (o.kind == RandomKind::Normal ? kNormal : 1) * width(value)}};
}

Operations::Counts Operations::count(const Value&, const op::CombineLanes& o) const {
  if (!program_.values.at(o.value).varying) return {};
  return {{OperationClass::Combine, std::log2(static_cast<double>(tree_.lanes()))}};
}

Operations::Counts Operations::count(const Value& value, const op::PrefixLanes&) const {
  const double steps = std::log2(static_cast<double>(tree_.lanes())) * width(value);
  return {{OperationClass::Arithmetic, steps}, {OperationClass::Select, steps}};
}

Operations::Counts Operations::count(const Value&, const op::LastLane&) const {
  return {{OperationClass::Select, tree_.lanes() > 1 ? 2.0 : 0.0}};
}

/// The classes of an operation follow each other; its registers do not.
double Operations::latency(const Value& value, const Counts& counts) const {
  double cycles = 0;
  bool loads = false;
  for (const auto& [operation, count] : counts) {
    switch (operation) {
      case OperationClass::Arithmetic:
        cycles += machine_.arithmetic_latency * std::max(1.0, count / width(value));
        break;
      case OperationClass::Select:
        cycles += count > 0 ? machine_.select_latency : 0;
        break;
      case OperationClass::Function:
        cycles += machine_.function_latency + machine_.of(operation).cycles * count / width(value);
        break;
      case OperationClass::Random:
        cycles += machine_.of(operation).cycles;
        break;
      case OperationClass::Combine:
        cycles += machine_.combine_latency * count;
        break;
      case OperationClass::DivideF32:
      case OperationClass::DivideF64:
      case OperationClass::RootF32:
      case OperationClass::RootF64:
      case OperationClass::DivideScalar:
        cycles += machine_.divide_latency;
        break;
      default:
        loads = true;
        break;
    }
  }
  return loads ? cycles + machine_.load_latency : cycles;
}

}  // namespace moxie
