#include "runtime/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"

namespace moxie {

namespace {

/// The tensor that a library computes, or the sums that kernels outside of scans leave in parts: their final values are
/// stored by no kernel.
std::vector<std::string> tensors_to_inspect(const PlanStep& step) {
  if (const auto* product = std::get_if<MatrixProduct>(&step)) return {product->definition.name};
  std::vector<std::string> names;
  if (const auto* kernel = std::get_if<LoweredKernel>(&step)) {
    for (const BufferUse& use : kernel->uses) {
      if (use.partial) names.push_back(use.tensor);
    }
  }
  return names;
}

void add_checks(PlanStep& step, const Program& program, const Checks& checks) {
  if (auto* kernel = std::get_if<LoweredKernel>(&step)) *kernel = instrument(std::move(*kernel), program, checks);
  if (auto* scan = std::get_if<LoweredScan>(&step)) {
    for (LoweredKernel& kernel : scan->kernels) kernel = instrument(std::move(kernel), program, checks);
  }
}

/// Inputs are checked first, every other tensor as soon as it is complete: the first failure is where bad values come
/// from.
void add_checks(Plan& plan, const Checks& checks) {
  std::vector<PlanStep> steps;
  const auto inspect_tensor = [&](const std::string& name) {
    if (LoweredKernel kernel = inspect(plan.fused, name, checks); !kernel.program.checks.empty())
      steps.emplace_back(std::move(kernel));
  };
  for (const InputDecl& input : plan.fused.program.inputs) inspect_tensor(input.name);
  for (PlanStep& step : plan.steps) {
    add_checks(step, plan.fused.program, checks);
    const std::vector<std::string> left = tensors_to_inspect(step);
    steps.push_back(std::move(step));
    for (const std::string& name : left) inspect_tensor(name);
  }
  plan.steps = std::move(steps);
}

}  // namespace

Plan make_plan(const Program& program, const Checks& checks) {
  verify(program);
  Plan plan{program, fuse(optimise(program)), {}};
  for (const Step& step : plan.fused.steps) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) plan.steps.emplace_back(lower(plan.fused, *kernel));
    else if (const auto* scan = std::get_if<ScanLoop>(&step)) plan.steps.emplace_back(lower(plan.fused, *scan));
    else plan.steps.emplace_back(std::get<MatrixProduct>(step));
  }
  if (checks.any()) add_checks(plan, checks);
  return plan;
}

std::span<const LoweredKernel> kernels_of(const PlanStep& step) {
  if (const auto* kernel = std::get_if<LoweredKernel>(&step)) return {kernel, 1};
  if (const auto* scan = std::get_if<LoweredScan>(&step)) return scan->kernels;
  return {};
}

bool lies_transposed(const Plan& plan, const std::string& tensor) {
  const auto it = plan.fused.layouts.find(tensor);
  return it != plan.fused.layouts.end() && it->second == std::vector<std::uint32_t>{1, 0};
}

std::int64_t evaluate(const Affine& affine, const DimValues& dims) {
  return affine.evaluate([&](Symbol symbol) {
    const auto it = dims.find(symbol.name());
    if (it == dims.end()) throw ShapeError("dim " + symbol.name() + " has no value: no input shows it; give it (--dim " + symbol.name() + "=...)");
    return it->second;
  });
}

std::vector<std::int64_t> extents_of(const Program& program, std::string_view tensor, const DimValues& dims) {
  std::vector<std::int64_t> extents;
  for (const Affine& extent : program.shape_of(tensor)) extents.push_back(std::max<std::int64_t>(evaluate(extent, dims), 0));
  return extents;
}

// ---- Dims ----

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

/// Learns the dim of an extent such as `S` or `2*S+1`; extents of several dims are checked afterwards.
void learn_dim(const Affine& extent, std::int64_t value, const std::string& tensor, std::size_t axis, DimValues& dims) {
  if (extent.terms().size() != 1) return;
  const auto& [symbol, coefficient] = extent.terms()[0];
  const std::int64_t rest = value - extent.constant();
  if (rest % coefficient != 0) {
    throw ShapeError(fmt::format("axis {} of {} has {} elements, which {} can not be for any {}", axis, tensor, value, print(extent), symbol.name()));
  }
  const auto [known, is_new] = dims.emplace(symbol.name(), rest / coefficient);
  if (!is_new && known->second != rest / coefficient) {
    throw ShapeError(fmt::format("axis {} of {} has {} elements, so {} = {}, but {} = {} from the tensors before it", axis, tensor, value,
                                 symbol.name(), rest / coefficient, symbol.name(), known->second));
  }
}

}  // namespace

DimValues dims_from_shapes(const Program& program, const std::map<std::string, std::vector<std::int64_t>>& shapes, DimValues known) {
  for (const DimDecl& dim : program.dims) {
    if (dim.value) known.emplace(dim.name, *dim.value);
  }
  for (const InputDecl& input : program.inputs) {
    const auto given = shapes.find(input.name);
    if (given == shapes.end()) throw ShapeError("input " + input.name + " is missing");
    if (given->second.size() != input.shape.size()) {
      throw ShapeError(fmt::format("input {} has shape {}, but {} axes are wanted", input.name, shape_text(given->second), input.shape.size()));
    }
    for (std::size_t k = 0; k < input.shape.size(); ++k) learn_dim(input.shape[k], given->second[k], input.name, k, known);
  }
  for (const InputDecl& input : program.inputs) {
    const auto wanted = extents_of(program, input.name, known);
    if (wanted != shapes.at(input.name)) {
      throw ShapeError(fmt::format("input {} has shape {}, but {} is wanted", input.name, shape_text(shapes.at(input.name)), shape_text(wanted)));
    }
  }
  return known;
}

// ---- Schedules ----

namespace {

/// Rows that a chunk should at least hold, and the most chunks: enough for any number of cores of one machine, few enough that partial results stay small.
constexpr std::int64_t kRowsPerChunk = 64;
constexpr std::int64_t kMostChunks = 16;
constexpr std::int64_t kMostTiles = 64;

/// Shared loops run from 0.
std::int64_t extent_of(const SplitLoop& loop, const DimValues& dims) {
  std::int64_t end = evaluate(loop.range.highs.front().value, dims) + 1;
  for (const Bound& bound : loop.range.highs) end = std::min(end, floor_div(evaluate(bound.value, dims), bound.divisor) + 1);
  return std::max<std::int64_t>(end, 0);
}

std::int64_t rounds_of(const SplitLoop& loop, const DimValues& dims, int lanes) {
  return ceil_div(extent_of(loop, dims), loop.over_lanes ? lanes : 1);
}

}  // namespace

Schedule choose_schedule(const LoweredKernel& kernel, const DimValues& dims, int lanes) {
  Schedule schedule;
  if (kernel.tiles) schedule.tiles = std::clamp<std::int64_t>(rounds_of(*kernel.tiles, dims, lanes), 1, kMostTiles);
  if (kernel.chunks && !kernel.in_scan) {
    const std::int64_t rows = extent_of(*kernel.chunks, dims);
    schedule.chunks = std::clamp<std::int64_t>(rows / kRowsPerChunk, 1, kMostChunks);
    schedule.reason = fmt::format("{} rows in chunks of at least {}", rows, kRowsPerChunk);
  }
  return schedule;
}

Piece piece_of(const SplitLoop& loop, const DimValues& dims, std::int64_t index, std::int64_t count, int lanes) {
  const std::int64_t rounds = rounds_of(loop, dims, lanes);
  const std::int64_t unit = loop.over_lanes ? lanes : 1;
  const auto boundary = [&](std::int64_t k) { return std::min(rounds * k / count * unit, extent_of(loop, dims)); };
  return {boundary(index), boundary(index + 1)};
}

// ---- Memory ----

namespace {

std::int64_t bytes_of(const Program& program, const std::string& tensor, const DimValues& dims) {
  std::int64_t count = 1;
  for (const std::int64_t extent : extents_of(program, tensor, dims)) count = checked_mul(count, extent);
  return checked_mul(count, program.dtype_of(tensor) == DType::f32 ? 4 : 8);
}

/// A scan uses all its tensors from its first step to its last.
std::vector<std::string> tensors_of(const PlanStep& step) {
  if (const auto* product = std::get_if<MatrixProduct>(&step)) return {product->left, product->right, product->definition.name};
  std::vector<std::string> names;
  for (const LoweredKernel& kernel : kernels_of(step)) {
    for (const BufferUse& use : kernel.uses) names.push_back(use.tensor);
  }
  return names;
}

/// Memory that is in use over a range of steps.
struct Lifetime {
  std::size_t first, last;
  std::int64_t bytes;
  MemoryPlan::Slot* slot;
};

/// Greedy by size: each block goes to the lowest place where nothing alive at the same time lies.
std::int64_t place_all(std::vector<Lifetime> blocks) {
  constexpr std::int64_t kAlignment = 64;
  std::ranges::stable_sort(blocks, std::greater<>(), &Lifetime::bytes);
  std::int64_t end = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::vector<const MemoryPlan::Slot*> neighbours;
    for (std::size_t j = 0; j < i; ++j) {
      if (blocks[j].first <= blocks[i].last && blocks[i].first <= blocks[j].last) neighbours.push_back(blocks[j].slot);
    }
    std::ranges::sort(neighbours, {}, &MemoryPlan::Slot::offset);
    std::int64_t offset = 0;
    for (const MemoryPlan::Slot* other : neighbours) {
      if (offset + blocks[i].bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    const std::int64_t bytes = ceil_div(blocks[i].bytes, kAlignment) * kAlignment;
    *blocks[i].slot = {offset, bytes};
    end = std::max(end, offset + bytes);
  }
  return end;
}

}  // namespace

MemoryPlan plan_memory(const Plan& plan, const DimValues& dims, std::span<const std::int64_t> chunks) {
  MemoryPlan memory;
  memory.partials.resize(plan.steps.size());
  const Program& program = plan.fused.program;
  std::map<std::string, std::pair<std::size_t, std::size_t>> spans;
  std::vector<Lifetime> blocks;
  for (std::size_t k = 0; k < plan.steps.size(); ++k) {
    for (const std::string& name : tensors_of(plan.steps[k])) {
      const Definition* definition = program.find_definition(name);
      if (!definition || definition->output) continue;
      const auto [span, is_new] = spans.emplace(name, std::pair(k, k));
      if (!is_new) span->second.second = k;
    }
    if (chunks[k] == 1) continue;
    for (const LoweredKernel& kernel : kernels_of(plan.steps[k])) {
      for (const BufferUse& use : kernel.uses) {
        if (!use.partial) continue;
        const std::int64_t bytes = checked_mul(chunks[k], bytes_of(program, use.tensor, dims));
        blocks.push_back({k, k, bytes, &memory.partials[k][use.tensor]});
      }
    }
  }
  for (const auto& [name, span] : spans) blocks.push_back({span.first, span.second, bytes_of(program, name, dims), &memory.tensors[name]});
  memory.bytes = place_all(std::move(blocks));
  return memory;
}

std::string print(const Plan& plan) {
  std::string text;
  int number = 0;
  for (const PlanStep& step : plan.steps) {
    if (const auto* product = std::get_if<MatrixProduct>(&step)) {
      text += fmt::format("{:3} matrix product {} = {} x {}\n", number++, product->definition.name, product->left, product->right);
    }
    if (const auto* scan = std::get_if<LoweredScan>(&step)) {
      text += fmt::format("    scan {} over {}{}:\n", scan->name, print(scan->extent), scan->backwards ? ", backwards" : "");
    }
    for (const LoweredKernel& kernel : kernels_of(step)) {
      text += fmt::format("{:3} kernel {}\n", number++, kernel.program.name);
      for (const std::string& comment : kernel.program.comments) text += "      " + comment + "\n";
    }
  }
  return text;
}

}  // namespace moxie
