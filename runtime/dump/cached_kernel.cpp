#include "runtime/dump/cached_kernel.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "runtime/cache_file.h"
#include "runtime/cuda/resource_report.h"
#include "runtime/dump/code_stages.h"
#include "runtime/plan_cache.h"
#include "runtime/private_file.h"

namespace moxie {
namespace {

CacheEntry read_entry(const std::filesystem::path& file) {
  const auto bytes = read_regular_file(file);
  if (!bytes) throw DataError(fmt::format("cannot read {}: there is no such file", file.string()));
  try {
    return decode_entry(file.stem().string(), *bytes);
  } catch (const CacheError& error) {
    throw DataError(fmt::format("{} is no entry of a kernel cache: {}", file.string(), error.what()));
  }
}

/// What stands between two marks.
std::string between(const std::string& text, std::string_view before, std::string_view after) {
  const std::size_t at = text.find(before);
  if (at == text.npos) return {};
  const std::size_t begin = at + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

KernelDump gpu_kernel(const CacheEntry& entry, KernelCache& cache) {
  KernelDump kernel;
  for (const auto& [name, resources] : cuda::resource_report(entry.log)) {
    if (kernel.name.empty()) kernel.name = name, kernel.figures.resources = resources;
  }
  if (kernel.name.empty()) kernel.name = between(entry.source, "MOXIE_ENTRY(", ")");
  StageText source{"cuda", "cuda", ".cu"};
  source.text = entry.source;
  kernel.stages.push_back(std::move(source));
  kernel.stages.push_back(sass_stage(entry.object, 0, cache));
  return kernel;
}

}  // namespace

Dump dump_of_cached_kernel(const std::filesystem::path& file) {
  const CacheEntry entry = read_entry(file);
  KernelCache cache(default_cache_dir());
  Dump dump;
  dump.name = file.stem().string();
  dump.gpu = DumpOptions{}.gpu.name;
  if (entry.source.starts_with("; kernel ")) {
    dump.kernels.push_back({between(entry.source, "; kernel ", ","), {}, {}});
    dump.kernels[0].stages = cpu_stages(dump.kernels[0].name, {entry.source, {}}, cache, {});
  } else if (entry.source.find("__global__") != entry.source.npos) {
    dump.kernels.push_back(gpu_kernel(entry, cache));
  } else if (entry.source.starts_with(kPlanMark)) {
    StageText plan{"schedule", "schedule", ".txt"};
    plan.text = entry.source;
    dump.program.push_back(std::move(plan));
  } else {
    throw DataError(
        fmt::format("{} holds no kernel: it keeps measurements, or what a dump had compiled", file.string()));
  }
  return dump;
}

}  // namespace moxie
