// moxie doctor: what this machine offers, what is missing and how to get it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include <filesystem>
#include "runtime/cache_file.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/onednn.h"
#include "runtime/cpu/plugin.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/cusolver.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/nvidia_driver.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/kernel_cache.h"
#include "runtime/machine_file.h"
#include "runtime/mpi/mpi_library.h"
#include "runtime/private_file.h"
#include "runtime/session.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"
#include "tools/commands/doctor_calibrate.h"
#include "tools/commands/doctor_estimates.h"

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
    const bool calibrated = host_table() != default_machine(level.name);
    finding.state = fmt::format("{}, {}-bit vectors, {} threads{}", level.name, level.machine.vector_bits, threads,
                                calibrated ? ", costs calibrated" : "");
    finding.details = {{"level", level.name},
                       {"vector_bits", level.machine.vector_bits},
                       {"features", level.machine.features},
                       {"threads", threads},
                       {"calibrated", calibrated}};
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
    prepare_blas();
    const std::string kernels = blas_kernels();
    return {"OpenBLAS", true, kernels.empty() ? "loaded" : "loaded, with kernels for " + kernels, "", {}};
  } catch (const Error& error) {
    return {"OpenBLAS", false, error.what(), "install it (Debian: libopenblas0-pthread)", {}};
  }
}

Finding find_onednn() {
  if (onednn::prepare()) return {"oneDNN", true, "version " + onednn::version(), "", {}};
  return {"oneDNN",
          false,
          "not found, or not for the vectors of this processor: OpenBLAS computes all products",
          "for faster products in single precision install it (Debian: libdnnl2)",
          {}};
}

Finding find_mpi() {
  try {
    const std::string library = mpi_library().library();
    return {"MPI plugin", true, library.substr(0, library.find('\n')), "", {{"library", library}}};
  } catch (const Error& error) {
    return {"MPI plugin",
            false,
            error.what(),
            "for training by several ranks install it (Debian: libopenmpi-dev, openmpi-bin) and build moxie again",
            {}};
  }
}

Finding find_gpu() {
  try {
    const cuda::Gpu gpu(cuda::nvidia_driver(), "cuda");
    int count = 0;
    gpu.check(gpu.driver().DeviceGetCount(&count), "counting the GPUs");
    return {"CUDA driver",
            true,
            count == 1 ? gpu.describe() : fmt::format("{}, the first of {} GPUs", gpu.describe(), count),
            "",
            {{"architecture", gpu.architecture()}, {"multiprocessors", gpu.multiprocessors()}, {"gpus", count}}};
  } catch (const Error& error) {
    return {"CUDA driver", false, error.what(), "", {}};
  }
}

Finding find_nvrtc() {
  try {
    const cuda::Nvrtc nvrtc;
    return {"NVRTC",
            true,
            fmt::format("{}, {}, for sm_{}", nvrtc.version(), nvrtc.file(), fmt::join(nvrtc.architectures(), ", sm_")),
            "",
            {{"version", nvrtc.version()}, {"path", nvrtc.file()}, {"architectures", nvrtc.architectures()}}};
  } catch (const Error& error) {
    return {"NVRTC", false, error.what(), "", {}};
  }
}

Finding find_cublas() {
  try {
    const std::string version = cuda::cublas_version();
    return {"cuBLAS", true, version, "", {{"version", version}}};
  } catch (const Error& error) {
    return {"cuBLAS", false, error.what(), "", {}};
  }
}

/// Nothing else needs it: kernels factor matrices where it is missing.
Finding find_cusolver() {
  try {
    const std::string version = cuda::cusolver_version();
    return {"cuSOLVER", true, version, "", {{"version", version}}};
  } catch (const Error& error) {
    return {"cuSOLVER", false, error.what(), "", {}};
  }
}

/// Entries that do not check out, of those on disk.
std::int64_t count_damaged(const std::filesystem::path& directory) {
  std::int64_t damaged = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory, ignored)) {
    if (file.path().extension() != ".kernel") continue;
    try {
      const auto bytes = read_regular_file(file.path());
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

/// Throws unless a small formula gives the right values.
CacheStats try_device(const std::string& name) {
  const Program program = parse("dim N\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n", "doctor");
  const auto device = open_device(name, {1, {}});
  Session session(program, {{"N", 4}}, device);
  session.set("x", make_host_tensor(DType::f32, {4}, std::vector<double>(4)));
  session.run();
  if (to_doubles(session.get("y")) != std::vector<double>(4, 1.0))
    throw DeviceError(fmt::format("device {} computes exp(0) wrongly", name));
  return device->cache_stats();
}

Finding try_devices(const std::vector<std::string>& names) {
  CacheStats cache;
  try {
    for (const std::string& name : names) cache = try_device(name);
  } catch (const Error& error) {
    return {"self-test", false, error.what(), "see the parts above", {}};
  }
  const std::int64_t compilations = llvm_compilations();
  return {"self-test",
          true,
          fmt::format("{} agree; {} cache hits, {} misses, {} LLVM compilations", fmt::join(names, " and "), cache.hits,
                      cache.misses, compilations),
          "",
          {{"hits", cache.hits}, {"misses", cache.misses}, {"llvm_compilations", compilations}}};
}

std::vector<Finding> examine() {
  std::vector<Finding> findings = {find_processor(), find_llvm(),  find_blas(),   find_onednn(),   find_mpi(),
                                   find_gpu(),       find_nvrtc(), find_cublas(), find_cusolver(), inspect_cache()};
  const auto is_usable = [&](std::string_view part) {
    return std::ranges::find(findings, part, &Finding::part)->usable;
  };
  std::vector<std::string> devices = {"interp", "cpu"};
  if (is_usable("CUDA driver") && is_usable("NVRTC")) devices.emplace_back("cuda");
  findings.push_back(try_devices(devices));
  return findings;
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

int report_estimates(const EstimateOptions& options, bool json) {
  Machine machine = host_table();
  machine.cores = 1;
  const std::vector<EstimatedKernel> kernels = compare_estimates(options, machine);
  fmt::print("{}", json ? estimates_json(kernels, machine) : estimates_table(kernels, machine));
  return 0;
}

/// Measures the table of this processor and keeps it beside the kernel cache, where there is one.
int report_calibration(bool json) {
  const Machine& known = default_machine(host_level());
  const Machine measured = calibrate(known);
  const std::filesystem::path folder = default_cache_dir();
  if (!folder.empty()) save_machine(measured, folder);
  if (json) {
    fmt::print("{}", to_json(measured));
    return 0;
  }
  fmt::print("{}", comparison_table(known, measured));
  fmt::print("{}\n", folder.empty() ? "not kept: there is no cache folder (set MOXIE_CACHE_DIR)"
                                    : "kept in " + machine_file(folder, measured.name).string());
  return 0;
}

}  // namespace

Work add_doctor(OptionParser& parser) {
  auto json = std::make_shared<bool>(false);
  auto calibrates = std::make_shared<bool>(false);
  auto estimates = std::make_shared<EstimateOptions>();
  parser.add_flag("--json", *json, "the findings as JSON");
  parser.add_flag(
      "--calibrate", *calibrates,
      "instead, measure the figures of this processor that the costs of kernels are computed with, and keep "
      "them beside the kernel cache");
  parser
      .add_option("--estimates", estimates->sources,
                  "instead, compare estimated with measured times of the kernels of these .mox files, folders of them "
                  "and built-in formulas, on one thread")
      .comma_separated();
  parser
      .add_option("--extents", estimates->extents,
                  "with --estimates: the extents of all dims that a formula leaves open")
      .comma_separated();
  return [json, calibrates, estimates] {
    if (*calibrates) return report_calibration(*json);
    if (!estimates->sources.empty()) return report_estimates(*estimates, *json);
    const std::vector<Finding> findings = examine();
    if (*json)
      fmt::print("{}\n", as_json(findings).dump(1));
    else
      print_findings(findings);
    return findings.back().usable ? 0 : 1;  // the self-test
  };
}

}  // namespace moxie
