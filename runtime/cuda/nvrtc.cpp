#include "runtime/cuda/nvrtc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "compiler/support/error.h"
#include "runtime/cache_key.h"

namespace moxie::cuda {

using NvrtcResult = int;  // 0: success
using NvrtcProgram = struct NvrtcProgram_*;

struct Nvrtc::Functions {
  SharedLibrary library;
  NvrtcResult (*version)(int* major, int* minor) = nullptr;
  NvrtcResult (*architecture_count)(int* count) = nullptr;
  NvrtcResult (*architectures)(int* list) = nullptr;
  const char* (*error_text)(NvrtcResult error) = nullptr;
  NvrtcResult (*create)(NvrtcProgram* program, const char* text, const char* name, int headers,
                        const char* const* header_texts, const char* const* header_names) = nullptr;
  NvrtcResult (*destroy)(NvrtcProgram* program) = nullptr;
  NvrtcResult (*compile)(NvrtcProgram program, int options, const char* const* texts) = nullptr;
  NvrtcResult (*log_size)(NvrtcProgram program, std::size_t* size) = nullptr;
  NvrtcResult (*log)(NvrtcProgram program, char* text) = nullptr;
  NvrtcResult (*cubin_size)(NvrtcProgram program, std::size_t* size) = nullptr;
  NvrtcResult (*cubin)(NvrtcProgram program, char* bytes) = nullptr;
  NvrtcResult (*ptx_size)(NvrtcProgram program, std::size_t* size) = nullptr;
  NvrtcResult (*ptx)(NvrtcProgram program, char* bytes) = nullptr;

  explicit Functions(std::vector<std::filesystem::path> directories)
      : library({"NVRTC, NVIDIA's run-time compiler,",
                 {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                 std::move(directories),
                 "Install the CUDA toolkit (12 or later; its package cuda-nvrtc is enough) and set CUDA_PATH to its "
                 "folder, or use another device, such as --device cpu"}) {
    library.resolve(version, "nvrtcVersion");
    library.resolve(architecture_count, "nvrtcGetNumSupportedArchs");
    library.resolve(architectures, "nvrtcGetSupportedArchs");
    library.resolve(error_text, "nvrtcGetErrorString");
    library.resolve(create, "nvrtcCreateProgram");
    library.resolve(destroy, "nvrtcDestroyProgram");
    library.resolve(compile, "nvrtcCompileProgram");
    library.resolve(log_size, "nvrtcGetProgramLogSize");
    library.resolve(log, "nvrtcGetProgramLog");
    library.resolve(cubin_size, "nvrtcGetCUBINSize");
    library.resolve(cubin, "nvrtcGetCUBIN");
    library.resolve(ptx_size, "nvrtcGetPTXSize");
    library.resolve(ptx, "nvrtcGetPTX");
  }
};

namespace {

std::atomic<std::int64_t> compilation_count = 0;

/// Strict arithmetic is the default of NVRTC. --minimal leaves out declarations that no kernel here needs (textures,
/// the CUDA runtime), with which even an empty kernel takes 28 ms instead of 20 (NVRTC 13.0); not every NVRTC 12 has
/// it.
std::vector<std::string> common_options(int major) {
  std::vector<std::string> options = {"--std=c++17", "--generate-line-info", "--ptxas-options=-v"};
  if (major >= 13) options.emplace_back("--minimal");
  return options;
}

/// The bytes that a pair of functions gives: their number, and themselves.
template <class Size, class Copy>
std::string take_bytes(NvrtcProgram program, Size size, Copy copy) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != 0) return {};
  std::string result(bytes, '\0');
  if (copy(program, result.data()) != 0) return {};
  return result;
}

}  // namespace

Nvrtc::Nvrtc(std::vector<std::filesystem::path> directories)
    : functions_(std::make_unique<const Functions>(std::move(directories))) {
  int major = 0;
  int minor = 0;
  functions_->version(&major, &minor);
  version_ = fmt::format("NVRTC {}.{}", major, minor);
  options_ = common_options(major);
  int count = 0;
  functions_->architecture_count(&count);
  architectures_.resize(static_cast<std::size_t>(count));
  functions_->architectures(architectures_.data());
  std::ranges::sort(architectures_);
}

Nvrtc::~Nvrtc() = default;

/// What a GPU of some architecture runs.
struct Nvrtc::Target {
  int architecture = 0;
  bool machine_code = true;  // else PTX, which the driver translates
};

/// Machine code of one architecture also runs on later ones of the same generation (the tens).
Nvrtc::Target Nvrtc::choose_target(int architecture) const {
  const auto newer = std::ranges::upper_bound(architectures_, architecture);
  if (newer == architectures_.begin()) {
    throw DeviceError(
        fmt::format("{} no longer compiles for this GPU, sm_{}: it knows sm_{}. Install an older CUDA "
                    "toolkit beside it and set CUDA_PATH, or use another device, such as --device cpu",
                    version_, architecture, fmt::join(architectures_, ", sm_")));
  }
  const int target = *std::prev(newer);
  return {target, target / 10 == architecture / 10};
}

const std::string& Nvrtc::file() const { return functions_->library.file(); }

CacheEntry Nvrtc::compile(const std::string& text, int architecture) const {
  return compile_with_ptx(text, architecture).entry;
}

Nvrtc::Compiled Nvrtc::compile_with_ptx(const std::string& text, int architecture) const {
  return compile(text, choose_target(architecture));
}

CacheEntry Nvrtc::compile_ptx(const std::string& text, int architecture) const {
  return compile(text, Target{choose_target(architecture).architecture, false}).entry;
}

Nvrtc::Compiled Nvrtc::compile(const std::string& text, const Target& target) const {
  const Functions& nvrtc = *functions_;
  ++compilation_count;
  NvrtcProgram program = nullptr;
  NvrtcResult error = nvrtc.create(&program, text.c_str(), "kernel.cu", 0, nullptr, nullptr);
  if (error != 0) throw CompileError(fmt::format("{}: {}", version_, nvrtc.error_text(error)));
  const auto destroy = [&](NvrtcProgram made) { nvrtc.destroy(&made); };
  const std::unique_ptr<NvrtcProgram_, decltype(destroy)> owner(program, destroy);

  const char* kind = target.machine_code ? "sm" : "compute";
  const std::string chosen = fmt::format("--gpu-architecture={}_{}", kind, target.architecture);
  std::vector<const char*> options = {chosen.c_str()};
  for (const std::string& option : options_) options.push_back(option.c_str());
  error = nvrtc.compile(program, static_cast<int>(options.size()), options.data());
  CacheEntry entry;
  entry.source = text;
  entry.log = take_bytes(program, nvrtc.log_size, nvrtc.log);
  while (entry.log.ends_with('\0')) entry.log.pop_back();
  if (error != 0) {
    throw CompileError(
        fmt::format("{} refused a kernel for {}_{}: {}\n{}\nThis is a fault of moxie: please report it "
                    "with the kernel's text (MOXIE_DUMP).",
                    version_, kind, target.architecture, nvrtc.error_text(error), entry.log));
  }
  std::string ptx = take_bytes(program, nvrtc.ptx_size, nvrtc.ptx);
  entry.object = target.machine_code ? take_bytes(program, nvrtc.cubin_size, nvrtc.cubin) : ptx;
  if (entry.object.empty()) throw CompileError(fmt::format("{} gave no code for {}", version_, chosen));
  while (ptx.ends_with('\0')) ptx.pop_back();
  return {std::move(entry), std::move(ptx)};
}

Compiler nvrtc_compiler(const std::shared_ptr<const Nvrtc>& nvrtc) {
  return {fmt::format("{} {}", nvrtc->version(), fmt::join(nvrtc->options(), " ")),
          [nvrtc](const std::string& text, std::span<const std::string>, int architecture) {
            return nvrtc->compile(text, architecture);
          },
          file_stamp(nvrtc->file())};
}

std::int64_t nvrtc_compilations() { return compilation_count; }

}  // namespace moxie::cuda
