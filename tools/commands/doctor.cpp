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
  Json details = Json::object();
};

Finding find_processor() {
  Finding finding{"processor", true, "", "", {}};
  for (const MachineLevel& level : machine_levels()) {
    if (!host_supports(level.name)) continue;
    const unsigned threads = std::thread::hardware_concurrency();
    finding.state = fmt::format("{}, {}-bit vectors, {} threads", level.name, level.machine.vector_bits, threads);
    finding.details = {{"level", level.name}, {"vector_bits", level.machine.vector_bits}, {"features", level.machine.features}, {"threads", threads}};
    return finding;
  }
  return {"processor", false, "moxie compiles for x86-64 and aarch64 only; this processor is neither", "use --device interp", {}};
}

Finding find_llvm() {
  try {
    const std::string version = llvm_version();
    return {"LLVM plugin", true, version, "", {{"version", version}}};
  } catch (const Error& error) {
    return {"LLVM plugin", false, error.what(), "install LLVM 19 (Debian: llvm-19-dev) and build moxie again, or set MOXIE_PLUGIN_DIR", {}};
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

/// Reads every entry as a hit would, without deleting any.
Finding inspect_cache() {
  const std::filesystem::path directory = default_cache_dir();
  if (directory.empty()) return {"kernel cache", true, "in memory only", "set MOXIE_CACHE_DIR to a folder to keep compiled kernels", {}};
  const KernelCache cache(directory);
  const std::string problem = cache.stats().problem;
  if (!problem.empty()) return {"kernel cache", false, problem, "correct the folder, or set MOXIE_CACHE_DIR", {}};
  const CacheUsage usage = cache.usage();
  const std::int64_t damaged = count_damaged(directory);
  return {"kernel cache", true,
          fmt::format("{}: {} entries, {:.1f} MiB, {} damaged{}", directory.string(), usage.entries, static_cast<double>(usage.bytes) / (1 << 20),
                      damaged, damaged ? " (compiled again when they are needed)" : ""),
          "", {{"directory", directory.string()}, {"entries", usage.entries}, {"bytes", usage.bytes}, {"damaged", damaged}}};
}

/// Compiles and runs a small formula on every device.
Finding try_devices() {
  const Program program = parse("dim N\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n", "doctor");
  const std::vector<double> zeros(4);
  try {
    for (const char* name : {"interp", "cpu"}) {
      Session session(program, {{"N", 4}}, open_device(name, {1, {}}));
      session.set("x", make_host_tensor(DType::f32, {4}, zeros));
      session.run();
      if (to_doubles(session.get("y")) != std::vector<double>(4, 1.0)) throw DeviceError(fmt::format("device {} computes exp(0) wrongly", name));
    }
    const std::int64_t compilations = llvm_compilations();
    return {"self-test", true, fmt::format("devices interp and cpu agree; LLVM compilations in this process: {}", compilations), "",
            {{"llvm_compilations", compilations}}};
  } catch (const Error& error) {
    return {"self-test", false, error.what(), "see the parts above", {}};
  }
}

}  // namespace
}  // namespace moxie
