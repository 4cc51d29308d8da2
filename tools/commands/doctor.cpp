// moxie doctor: what this machine offers, what is missing and how to get it.
#include <dlfcn.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/cache_file.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/plugin.h"
#include "runtime/kernel_cache.h"
#include "runtime/session.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;

/// One line of the report: a part of moxie, whether it can be used, and what is known about it.
struct Finding {
  std::string part;
  bool usable = true;
  std::string state;   // version and place, or the reason why not
  std::string remedy;  // empty if nothing is to be done
  Json details;
};

Finding find_processor() {
  Finding finding{"processor", true, "", "", {}};
  for (const MachineLevel& level : machine_levels()) {
    if (!host_supports(level.name)) continue;
    const unsigned threads = std::thread::hardware_concurrency();
    finding.state = fmt::format("{}, {}-bit vectors, {} threads", level.name, level.machine.vector_bits, threads);
    finding.details = {{"level", level.name},
                       {"vector_bits", level.machine.vector_bits},
                       {"features", level.machine.features},
                       {"threads", threads}};
    return finding;
  }
  return {"processor",
          false,
          "moxie compiles for x86-64 and aarch64 only; this processor is neither",
          "use --device interp",
          {}};
}

Finding find_llvm() {
  try {
    const std::string version = llvm_version();
    const std::string path = llvm_plugin_path().string();
    return {"LLVM plugin", true, fmt::format("{}, {}", version, path), "", {{"version", version}, {"path", path}}};
  } catch (const Error& error) {
    return {"LLVM plugin",
            false,
            error.what(),
            "install LLVM 19 (Debian: llvm-19-dev) and build moxie again, or set MOXIE_PLUGIN_DIR",
            {}};
  }
}

Finding find_blas() {
  try {
    prepare_blas(1);
    return {"OpenBLAS", true, "loaded", "", {}};
  } catch (const Error& error) {
    return {"OpenBLAS", false, error.what(), "install it (Debian: libopenblas0-pthread)", {}};
  }
}

/// A shared library that the system can or cannot load.
Finding find_library(const char* part, const char* file, const char* remedy) {
  void* library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {part, false, dlerror(), remedy, {}};
  dlclose(library);
  return {part, true, fmt::format("{} is there", file), "", {}};
}

/// Entries that do not check out, of those on disk.
std::int64_t count_damaged(const std::filesystem::path& directory) {
  std::int64_t damaged = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory, ignored)) {
    if (file.path().extension() != ".kernel") continue;
    try {
      const auto bytes = read_file(file.path());
      if (bytes) decode_entry(file.path().stem().string(), *bytes);
    } catch (const std::exception&) {
      ++damaged;
    }
  }
  return damaged;
}

Finding inspect_cache() {
  const std::filesystem::path directory = default_cache_dir();
  if (directory.empty())
    return {"kernel cache", true, "in memory only", "set MOXIE_CACHE_DIR to a folder to keep compiled kernels", {}};
  const KernelCache cache(directory);
  const std::string problem = cache.stats().problem;
  if (!problem.empty()) return {"kernel cache", false, problem, "correct the folder, or set MOXIE_CACHE_DIR", {}};
  const CacheUsage usage = cache.usage();
  const std::int64_t damaged = count_damaged(directory);
  return {"kernel cache",
          true,
          fmt::format("{}: {} entries, {:.1f} MiB, {} damaged, {} damaged and rebuilt so far", directory.string(),
                      usage.entries, static_cast<double>(usage.bytes) / (1 << 20), damaged, usage.rebuilt),
          "",
          {{"directory", directory.string()},
           {"entries", usage.entries},
           {"bytes", usage.bytes},
           {"damaged", damaged},
           {"rebuilt", usage.rebuilt}}};
}

/// Runs a small formula on every device.
Finding try_devices() {
  const Program program = parse("dim N\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n", "doctor");
  const std::vector<double> zeros(4);
  CacheStats cache;
  try {
    for (const char* name : {"interp", "cpu"}) {
      const auto device = open_device(name, {1, {}});
      Session session(program, {{"N", 4}}, device);
      session.set("x", make_host_tensor(DType::f32, {4}, zeros));
      session.run();
      if (to_doubles(session.get("y")) != std::vector<double>(4, 1.0))
        throw DeviceError(fmt::format("device {} computes exp(0) wrongly", name));
      cache = device->cache_stats();
    }
  } catch (const Error& error) {
    return {"self-test", false, error.what(), "see the parts above", {}};
  }
  const std::int64_t compilations = llvm_compilations();
  return {"self-test",
          true,
          fmt::format("interp and cpu agree; {} cache hits, {} misses, {} LLVM compilations", cache.hits, cache.misses,
                      compilations),
          "",
          {{"hits", cache.hits}, {"misses", cache.misses}, {"llvm_compilations", compilations}}};
}

std::vector<Finding> examine() {
  return {find_processor(),
          find_llvm(),
          find_blas(),
          {"CUDA device", false, "not built in this version", "", {}},
          find_library("CUDA driver", "libcuda.so.1", "install NVIDIA's driver for the GPU of this machine"),
          find_library("CUDA compiler", "libnvrtc.so.13",
                       "install the CUDA 13 toolkit, or NVIDIA's nvidia-cuda-nvrtc package"),
          inspect_cache(),
          try_devices()};
}

void print_findings(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{:14} {:8} {}\n", finding.part, finding.usable ? "ok" : "missing", finding.state);
    if (!finding.remedy.empty()) fmt::print("{:23} -> {}\n", "", finding.remedy);
  }
  fmt::print("\n{}", switches_help());
}

Json as_json(const std::vector<Finding>& findings) {
  Json report = Json::array();
  for (const Finding& finding : findings) {
    Json entry = {
        {"part", finding.part}, {"usable", finding.usable}, {"state", finding.state}, {"remedy", finding.remedy}};
    if (!finding.details.is_null()) entry.update(finding.details);
    report.push_back(entry);
  }
  return report;
}

}  // namespace

Work add_doctor(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "the findings as JSON");
  return [json] {
    const std::vector<Finding> findings = examine();
    if (*json)
      fmt::print("{}\n", as_json(findings).dump(1));
    else
      print_findings(findings);
    return findings.back().usable ? 0 : 1;  // the self-test
  };
}

}  // namespace moxie
