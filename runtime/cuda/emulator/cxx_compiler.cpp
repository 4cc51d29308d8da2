#include "runtime/cuda/emulator/cxx_compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <cstdlib>
#include <optional>
#include <sstream>
#include <vector>

#include "codegen_templates/templates.h"
#include "compiler/support/error.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/cuda/emulator/module.h"
#include "runtime/process.h"
#include "runtime/temporary_folder.h"

namespace moxie::cuda::emulator {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* kHeaders[] = {"machine.h", "pointer.h", "math.h", "vectors.h", "warp.h", "emulation.h"};

/// -Og: kernels of tests are compiled more often than they run, in half the time of -O1. CUDA's functions leave errno
/// alone, which lets sqrt() be one instruction. As GPUs do, a*b + c is rounded once, where the processor can.
Words make_options() {
  Words words = {"-x",
                 "c++",
                 "-std=c++20",
                 "-pedantic-errors",
                 "-Og",
                 "-ffp-contract=fast",
                 "-fno-math-errno",
                 "-fvisibility=hidden",
                 "-w",
                 "-shared",
                 "-fPIC"};
  if (host_supports("x86-64-v3")) words.push_back("-mfma");
  return words;
}

const Words& options() {
  static const Words words = make_options();
  return words;
}

std::string_view header_text(const char* name) { return template_text(std::string("cuda_emu/") + name); }

/// $CXX, which may hold options, then the usual names.
std::vector<Words> compilers() {
  std::vector<Words> all;
  if (const char* chosen = std::getenv("CXX")) {
    std::istringstream text(chosen);
    Words words;
    for (std::string word; text >> word;) words.push_back(word);
    if (!words.empty()) all.push_back(words);
  }
  for (const char* name : {"c++", "g++", "clang++"}) all.push_back({name});
  return all;
}

/// Writes what the compiler reads; gives its arguments.
Words prepare(const fs::path& folder, const std::string& text, std::span<const std::string> entries) {
  for (const char* header : kHeaders) write_text_file(folder / header, header_text(header));
  std::string source = text + "\n";
  for (const std::string& entry : entries) source += fmt::format("MOXIE_ENTRY({})\n", entry);
  write_text_file(folder / "kernel.cu", source);
  Words words = options();
  for (const fs::path& path :
       {fs::path("-include"), folder / "emulation.h", folder / "kernel.cu", fs::path("-o"), folder / "kernel.so"}) {
    words.push_back(path.string());
  }
  return words;
}

}  // namespace

CacheEntry compile_module(const std::string& text, std::span<const std::string> entries) {
  const TemporaryFolder folder;
  const Words arguments = prepare(folder.path(), text, entries);
  const fs::path log = folder.path() / "log";
  for (Words words : compilers()) {
    words.insert(words.end(), arguments.begin(), arguments.end());
    const auto status = run_process(words, log);
    if (!status) continue;
    const std::string messages = read_text_file(log);
    if (*status != 0)
      throw CompileError(fmt::format("{} does not accept the text of {} for cuda-emu:\n{}", words[0],
                                     fmt::join(entries, ", "), messages));
    return {module_image(read_text_file(folder.path() / "kernel.so")), text, messages};
  }
  throw DeviceError(
      "device cuda-emu compiles its kernels with a C++ compiler, and none is found as $CXX, c++, g++ or clang++; "
      "install one (Debian: g++)");
}

std::string module_version() {
  std::string all = fmt::format("{} {}", host_elf_machine(), fmt::join(options(), " "));
  for (const char* header : kHeaders) all += header_text(header);
  return fmt::format("emulation {:016x}", XXH3_64bits(all.data(), all.size()));
}

}  // namespace moxie::cuda::emulator
