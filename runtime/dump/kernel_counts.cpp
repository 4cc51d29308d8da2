#include "runtime/dump/kernel_counts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "compiler/expression/functions.h"
#include "compiler/loop/operands.h"
#include "runtime/host_tensor.h"
#include "runtime/launch.h"

namespace moxie {
namespace {

/// Functions that are one instruction of a multiply-add unit, or of the one beside it.
constexpr std::array<std::string_view, 18> kSimple = {"+",  "-", "*",  "neg", "abs", "min", "max", "where", "<",
                                                      "<=", ">", ">=", "==",  "!=",  "and", "or",  "not",   "sign"};
/// Rounds of a loop that are counted one by one where they differ; of longer loops so many are sampled. In a nest
/// kMostNestedRounds are sampled altogether: with kMostRounds for each loop, a masked convolution's gradient took 20 s.
constexpr std::int64_t kMostRounds = 256;
constexpr double kMostNestedRounds = 65536;

bool is_simple(std::string_view name) { return std::ranges::find(kSimple, name) != kSimple.end(); }

class Counter {
 public:
  Counter(const LoopProgram& program, std::vector<std::int64_t> arguments)
      : program_(program), uses_(program.values.size()), added_(program.values.size()) {
    for (std::size_t k = 0; k < program.arguments.size(); ++k)
      symbols_[Symbol::dim(program.arguments[k])] = arguments[k];
    find_uses(program.body);
  }

  KernelCounts run() {
    count(program_.body, 1, kMostNestedRounds);
    return counts_;
  }

 private:
  void find_uses(const Block& block) {
    for (const Statement& statement : block) {
      const auto* let = std::get_if<stmt::Let>(&statement);
      const auto* call = let ? std::get_if<op::Call>(&program_.values.at(let->id).operation) : nullptr;
      for (const ValueId id : operands(program_, statement)) {
        ++uses_[id];
        added_[id] = call && call->function->name == "+";
      }
      if (const auto* loop = std::get_if<stmt::For>(&statement)) find_uses(loop->body);
    }
  }

  std::int64_t value(const Affine& affine) const {
    // Nothing is known of values that are read from tensors.
    return affine.evaluate([&](Symbol symbol) { return symbol.is_value() ? 0 : symbols_.at(symbol); });
  }

  std::int64_t low(const Range& range) const {
    std::int64_t first = std::numeric_limits<std::int64_t>::min();
    for (const Bound& bound : range.lows) first = std::max(first, ceil_div(value(bound.value), bound.divisor));
    return first;
  }

  std::int64_t high(const Range& range) const {
    std::int64_t last = std::numeric_limits<std::int64_t>::max();
    for (const Bound& bound : range.highs) last = std::min(last, floor_div(value(bound.value), bound.divisor));
    return last;
  }

  static bool mentions(const Range& range, Symbol variable) {
    const auto has = [&](const Bound& bound) { return bound.value.mentions(variable); };
    return std::ranges::any_of(range.lows, has) || std::ranges::any_of(range.highs, has);
  }

  /// Whether the number of operations differs from round to round.
  static bool shapes(const Block& block, Symbol variable) {
    return std::ranges::any_of(block, [&](const Statement& statement) {
      const auto* loop = std::get_if<stmt::For>(&statement);
      return loop && (mentions(loop->range, variable) || shapes(loop->body, variable));
    });
  }

  /// The depth of the nest of loops whose rounds differ.
  int nested_shapes(const stmt::For& loop) {
    const auto [known, is_new] = nested_shapes_.try_emplace(&loop, 0);
    if (!is_new) return known->second;
    int inside = 0;
    for (const Statement& statement : loop.body) {
      if (const auto* inner = std::get_if<stmt::For>(&statement)) inside = std::max(inside, nested_shapes(*inner));
    }
    return nested_shapes_[&loop] = inside + (shapes(loop.body, loop.variable) ? 1 : 0);
  }

  /// Visits no more than about `most` rounds of loops whose rounds differ.
  void count(const Block& block, double times, double most) {
    for (const Statement& statement : block) {
      if (const auto* let = std::get_if<stmt::Let>(&statement)) count_value(let->id, times);
      if (const auto* loop = std::get_if<stmt::For>(&statement)) count_loop(*loop, times, most);
    }
  }

  /// Rounds of the loop that are visited: all if they differ and these are few, or one.
  std::int64_t samples_of(const stmt::For& loop, std::int64_t rounds, double most) {
    if (!shapes(loop.body, loop.variable)) return 1;
    const auto share = static_cast<std::int64_t>(std::pow(most, 1.0 / nested_shapes(loop)));
    return std::min({rounds, kMostRounds, std::max<std::int64_t>(share, 2)});
  }

  void count_loop(const stmt::For& loop, double times, double most) {
    const std::int64_t first = low(loop.range), last = high(loop.range),
                       rounds = std::max<std::int64_t>(last - first + 1, 0);
    if (rounds == 0) return;
    counts_.integer_ops += 2 * times * static_cast<double>(rounds);
    const std::int64_t samples = samples_of(loop, rounds, most);
    for (std::int64_t k = 0; k < samples; ++k) {
      symbols_[loop.variable] = first + (samples == 1 ? 0 : k * (rounds - 1) / (samples - 1));
      count(loop.body, times * static_cast<double>(rounds) / static_cast<double>(samples),
            most / static_cast<double>(samples));
    }
  }

  void count_subscripts(const std::vector<Affine>& subscripts, double times) {
    if (subscripts.size() > 1) counts_.integer_ops += 2 * times * static_cast<double>(subscripts.size() - 1);
  }

  void count_value(ValueId id, double times) {
    const Value& value = program_.values.at(id);
    if (const auto* load = std::get_if<op::Load>(&value.operation)) count_subscripts(load->subscripts, times);
    if (const auto* load = std::get_if<op::LoadArray>(&value.operation)) count_subscripts(load->subscripts, times);
    if (std::holds_alternative<op::Random>(value.operation)) counts_.special_ops += times;
    if (const auto* call = std::get_if<op::Call>(&value.operation)) count_call(id, *call, times);
  }

  void count_call(ValueId id, const op::Call& call, double times) {
    const std::string_view name = call.function->name;
    // x^n with a small whole n is multiplications.
    const bool is_power =
        name == "pow" && std::holds_alternative<op::Constant>(program_.values.at(call.args.at(1)).operation);
    const double exponent = is_power ? std::get<op::Constant>(program_.values.at(call.args[1]).operation).value : 0;
    const bool few_products = is_power && (exponent == 2 || exponent == 3 || exponent == 4);
    if (!is_simple(name) && !few_products) {
      counts_.special_ops += times;
      return;
    }
    const double each =
        few_products ? exponent > 2 ? 2 : 1 : std::max<double>(1, static_cast<double>(call.args.size()) - 1);
    const bool is_double = program_.values.at(call.args.back()).type == ValueType::f64;
    (is_double ? counts_.f64_ops : counts_.f32_ops) += each * times;
    if (name == "*" && uses_[id] == 1 && added_[id]) counts_.fused += times;
  }

  const LoopProgram& program_;
  std::vector<int> uses_;
  std::vector<bool> added_;
  std::map<Symbol, std::int64_t> symbols_;
  std::map<const stmt::For*, int> nested_shapes_;
  KernelCounts counts_;
};

}  // namespace

KernelCounts count_operations(const LoweredKernel& kernel, const DimValues& dims) {
  Counter counter(kernel.program, launch_arguments(kernel, dims, {}, 1, 0, 0));
  KernelCounts counts = counter.run();
  DimValues symbols = at_first_step(kernel, dims);
  symbols[argument::kChunks] = 1;
  for (const BufferDecl& buffer : kernel.program.buffers) {
    double bytes = static_cast<double>(size_of(buffer.dtype));
    for (const Affine& extent : buffer.shape)
      bytes *= static_cast<double>(std::max<std::int64_t>(evaluate(extent, symbols), 0));
    (buffer.written ? counts.bytes_written : counts.bytes_read) += bytes;
  }
  return counts;
}

}  // namespace moxie
