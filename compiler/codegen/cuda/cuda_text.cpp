#include "compiler/codegen/cuda/cuda_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen_templates/templates.h"
#include "compiler/codegen/cuda/cuda_writer.h"

namespace moxie {
namespace {

using cuda_text::CudaWriter;
using Kind = CudaParameter::Kind;

/// "// " and the text, broken into lines.
std::string comment(const std::string& text) {
  constexpr std::size_t kWidth = 150;
  std::string result;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.size();
    if (end - begin > kWidth) {
      end = text.rfind(' ', begin + kWidth);
      if (end == std::string::npos || end <= begin) end = std::min(text.size(), begin + kWidth);
    }
    result += (begin == 0 ? "// " : "//     ") + text.substr(begin, end - begin) + "\n";
    begin = end < text.size() && text[end] == ' ' ? end + 1 : end;
  }
  return result;
}

/// Whether the fragment elements.cuh knows the elements.
bool has_own_elements(DType dtype) { return !is_stored_as_computed(dtype) && dtype != DType::i32; }

bool is_own_argument(const std::string& name) {
  constexpr const char* kOwn[] = {argument::kChunk,    argument::kChunks,    argument::kTileLow, argument::kTileHigh,
                                  argument::kChunkLow, argument::kChunkHigh, argument::kSeed,    argument::kStep};
  return std::ranges::find(kOwn, name) != std::end(kOwn);
}

std::vector<CudaParameter> parameters(const LoopProgram& program, const CudaSchedule& schedule, bool draws_random) {
  std::vector<CudaParameter> result;
  for (std::size_t b = 0; b < program.buffers.size(); ++b) result.push_back({Kind::buffer, b});
  for (const std::string& name : program.arguments) {
    if (!is_own_argument(name)) result.push_back({Kind::argument, 0, name});
  }
  if (!schedule.workspace.is_empty()) result.push_back({Kind::workspace});
  if (draws_random) result.push_back({Kind::random});
  if (!program.checks.empty()) result.insert(result.end(), {{Kind::status}, {Kind::first_check}});
  return result;
}

std::string spelled(const CudaParameter& parameter, const LoopProgram& program, const cuda_text::Names& names) {
  switch (parameter.kind) {
    case Kind::buffer: {
      const BufferDecl& buffer = program.buffers[parameter.index];
      return fmt::format("Global<{}{}> {}", buffer.written ? "" : "const ", cuda_text::type_name(buffer.dtype),
                         names.buffer(static_cast<BufferId>(parameter.index)));
    }
    case Kind::argument:
      return "const Index " + names.symbol(Symbol::dim(parameter.name));
    case Kind::workspace:
      return "Global<unsigned char> workspace";
    case Kind::random:
      return "Global<const RandomState> random";
    case Kind::status:
      return "Global<Status> status";
    case Kind::first_check:
      return "const long long first_check";
  }
  return {};
}

template <class Range, class Spell>
std::string joined(const Range& range, const Spell& spell) {
  std::string text;
  for (const auto& item : range) text += (text.empty() ? "" : ",\n    ") + spell(item);
  return text;
}

std::string entry_point(const CudaKernel& kernel, const LoopProgram& program, const CudaSchedule& schedule,
                        CudaWriter& writer, const std::string& body) {
  static constexpr const char* kPrecisions[] = {"STRICT_PRECISION", "FAST_PRECISION", "ACCURATE_PRECISION"};
  std::string text = fmt::format("#define {}\n", kPrecisions[static_cast<int>(program.precision)]);
  for (const std::string& definition : program.comments) text += comment(definition);
  text += comment(print(schedule));
  text += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}, 1)\n{}(\n    {}) {{\n", schedule.lanes * schedule.rows,
      kernel.entry,
      joined(kernel.parameters, [&](const CudaParameter& p) { return spelled(p, program, writer.names()); }));
  return text + body + "}\n";
}

/// A tensor with its partial results, by their names.
struct Combined {
  std::string result, parts, count;
};
/// Of tensors that one piece of code combines.
using Combination = std::pair<ReduceKind, DType>;

/// Finds the tensor of the element first, so that the code of the combination stands there once. Barriers are in it: a
/// thread whose element another piece combines takes part.
std::string combine_one_of(const std::vector<Combined>& tensors, const Combination& combination) {
  std::string text;
  for (const auto& [result, parts, count] : tensors)
    text += fmt::format("    EXTENT({1}, chunks * {2});\n    EXTENT({0}, {2});\n", result, parts, count);
  const auto& [result, parts, count] = tensors.front();
  text += fmt::format("    auto parts = {1};\n    auto combined = {0};\n    long long count = {2}, place = element;\n",
                      result, parts, count);
  for (std::size_t k = 1; k < tensors.size(); ++k) {
    text += fmt::format(
        "    if (place >= count) {{\n      place -= count;\n      parts = {1};\n      combined = {0};\n      count = "
        "{2};\n    }}\n",
        tensors[k].result, tensors[k].parts, tensors[k].count);
  }
  const std::string type = cuda_text::type_name(combination.second);
  return text + fmt::format(
                    "    const bool active = place >= 0 && place < count;\n"
                    "    const {1} value = combine_chunks<{0}, {2}>(parts, place, count, chunks, active, scratch);\n"
                    "    if (active && threadIdx.y == 0) combined[place] = value;\n",
                    cuda_text::combination_name(combination.first), type, kCombineRows);
}

/// The threads of a lane combine the partial results of one element, in double.
std::string combine_entry_point(const CudaKernel& kernel, const LoweredKernel& lowered, cuda_text::Names& names) {
  std::map<Combination, std::vector<Combined>> combinations;
  std::string signature,
      body = fmt::format("  SHARED(double, scratch, {});\n  long long element = blockIdx.x * {}ll + threadIdx.x;\n",
                         kWarp * kCombineRows, kWarp);
  for (const BufferId b : kernel.combined) {
    const DType dtype = lowered.program.buffers[b].dtype;
    const std::string name = names.buffer(b);
    const Combined tensor{name, names.fresh(name + "_parts"), names.fresh(name + "_count")};
    signature += fmt::format("Global<const {0}> {1}, Global<{0}> {2}, const long long {3},\n    ",
                             cuda_text::type_name(dtype), tensor.parts, tensor.result, tensor.count);
    combinations[{*lowered.uses[b].partial, dtype}].push_back(tensor);
  }
  for (const auto& [combination, tensors] : combinations) {
    const bool more = combination != combinations.rbegin()->first;
    body += "  {\n" + combine_one_of(tensors, combination) +
            (more ? "    element = active ? -1 : place - count;\n    __syncthreads();\n" : "") + "  }\n";
  }
  return fmt::format(
      "\n// The parts that the blocks along gridDim.y left are combined.\nextern \"C\" __global__ void "
      "__launch_bounds__({})\n{}(\n    {}const long long chunks) {{\n{}}}\n",
      kWarp * kCombineRows, kernel.combine_entry, signature, body);
}

}  // namespace

CudaKernel cuda_kernel(const LoweredKernel& processors, const CudaSchedule& schedule) {
  const LoweredKernel lowered = for_threads(processors);
  CudaWriter writer(lowered, schedule);
  CudaKernel kernel;
  kernel.entry = lowered.program.name;
  kernel.parameters = parameters(lowered.program, schedule, writer.shape().draws_random);
  if (lowered.chunks) {
    for (BufferId b = 0; b < lowered.uses.size(); ++b) {
      if (lowered.uses[b].partial) kernel.combined.push_back(b);
    }
  }
  kernel.text = fmt::format("typedef {} Index;\n", schedule.wide_index ? "long long" : "int");
  for (const char* fragment : {"prelude", "integers", "math", "reduce", "wide", "philox", "status"}) {
    kernel.text += template_text(fmt::format("cuda/{}.cuh", fragment));
  }
  if (std::ranges::any_of(lowered.program.buffers, [](const BufferDecl& b) { return has_own_elements(b.dtype); }))
    kernel.text += template_text("cuda/elements.cuh");
  kernel.text += "\n";
  kernel.own_begin = kernel.text.size();
  const std::string body = writer.write();
  kernel.text += entry_point(kernel, lowered.program, schedule, writer, body);
  const std::size_t body_begin = kernel.text.rfind(body);
  if (!kernel.combined.empty()) {
    kernel.combine_entry = kernel.entry + "_combine";
    kernel.text += combine_entry_point(kernel, lowered, writer.names());
  }
  kernel.lines = writer.marks().table(kernel.text, body_begin);
  return kernel;
}

}  // namespace moxie
