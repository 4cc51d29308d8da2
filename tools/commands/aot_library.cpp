#include "tools/commands/aot_library.h"
#include "ops/formula_file.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "compiler/support/error.h"
#include "runtime/cpu/host.h"
#include "runtime/domain_check.h"
#include "runtime/file_name.h"
#include "runtime/plan.h"
#include "runtime/process.h"
#include "runtime/switches.h"
#include "runtime/temporary_folder.h"
#include "tools/commands/command.h"
#include "tools/commands/program_choice.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

/// The manifest in a folder, or the file itself.
fs::path described_file(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_directory(file, ignored)) return file;
  for (const auto& entry : fs::directory_iterator(file)) {
    if (entry.path().extension() == ".json") return entry.path();
  }
  throw DataError(file.string() + ": the folder holds no library made by `moxie aot`: there is no manifest in it");
}

void require_host(const aot::Manifest& manifest, const std::string& file) {
  for (const std::string& target : manifest.targets) {
    if (target.starts_with("cpu:") && machine_level(target.substr(4)).triple == host_machine().triple) return;
  }
  throw DataError(
      fmt::format("{}: a library for {}, which this machine cannot run", file, fmt::join(manifest.targets, ", ")));
}

/// All of the static library as one that can be loaded.
void link(const fs::path& archive, const fs::path& shared, const fs::path& log) {
  const char* chosen = std::getenv("CC");
  const std::vector<std::string> words = {
      chosen ? chosen : "cc",  "-shared", "-o", shared.string(), "-Wl,--whole-archive", archive.string(),
      "-Wl,--no-whole-archive"};
  const auto status = run_process(words, log);
  if (!status)
    throw DeviceError(
        fmt::format("a C compiler links the library, and {} is not found; install one (Debian: gcc), or "
                    "name it in CC",
                    words[0]));
  if (*status != 0)
    throw DeviceError(fmt::format("{} cannot be linked:\n{}", archive.string(), read_text(log.string())));
}

}  // namespace

aot::Manifest manifest_of(const fs::path& file) {
  const std::string path = described_file(file).string();
  return aot::read_manifest(read_text(path), path);
}

AotLibrary::AotLibrary(const fs::path& file) : manifest_(manifest_of(file)) {
  const fs::path described = described_file(file);
  require_host(manifest_, described.string());
  const TemporaryFolder folder;
  const fs::path shared = folder.path() / "library.so";
  const bool beside = described.extension() == ".json";
  const fs::path archive =
      beside ? path_inside(described.parent_path(), "lib" + manifest_.library + ".a", described.string()) : described;
  link(archive, shared, folder.path() / "log");
  const auto start = std::chrono::steady_clock::now();
  handle_ = dlopen(shared.c_str(), RTLD_NOW | RTLD_LOCAL);
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (handle_ == nullptr) throw DeviceError(fmt::format("{} cannot be loaded: {}", file.string(), dlerror()));
}

AotLibrary::~AotLibrary() { dlclose(handle_); }

const aot::FunctionEntry& AotLibrary::function(const std::string& name) const {
  std::vector<std::string> names;
  for (const aot::FunctionEntry& entry : manifest_.functions) {
    if (name.empty() || entry.interface.name == name) return entry;
    names.push_back(entry.interface.name);
  }
  throw UsageError(
      fmt::format("library {} has no function '{}'; it has {}", manifest_.library, name, fmt::join(names, ", ")));
}

AotCall::AotCall(const AotLibrary& library, const aot::FunctionEntry& function, Tensors inputs, std::uint64_t seed,
                 std::uint64_t step)
    : inputs_(std::move(inputs)) {
  const std::string& name = function.interface.name;
  run_ = reinterpret_cast<Run*>(dlsym(library.handle_, name.c_str()));
  auto* workspace = reinterpret_cast<Workspace*>(dlsym(library.handle_, (name + "_workspace").c_str()));
  if (run_ == nullptr || workspace == nullptr)
    throw DataError(fmt::format("library {} has no function {}, which its manifest names; make it anew",
                                library.manifest_.library, name));
  bind(function.interface, parse(function.formula, name), seed, step);
  std::int64_t bytes = 0;
  std::array<char, 512> message{};
  if (workspace(arguments_.data(), &bytes, message.data()) != 0) throw DeviceError(message.data());
  workspace_.resize(static_cast<std::size_t>(bytes));
}

void AotCall::bind(const aot::Interface& interface, const Program& program, std::uint64_t seed, std::uint64_t step) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& [name, tensor] : inputs_) shapes[name] = tensor.shape;
  const DimValues dims = dims_from_shapes(program, shapes);
  for (const aot::DimArgument& dim : interface.dims) arguments_.push_back(evaluate(Symbol::dim(dim.name), dims));
  for (const aot::TensorArgument& tensor : interface.tensors) {
    const auto shape = extents_of(program, tensor.name, dims);
    HostTensor& value = (tensor.output ? outputs_ : inputs_)[tensor.name];
    if (tensor.output)
      value = {tensor.dtype, shape,
               std::vector<std::byte>(static_cast<std::size_t>(element_count(shape)) * size_of(tensor.dtype))};
    else if (value.dtype != tensor.dtype)
      value = make_host_tensor(tensor.dtype, shape, to_doubles(value));
    if (!tensor.output && checks_inputs()) check_domain(*program.find_input(tensor.name), shape, value.data);
    arguments_.insert(arguments_.end(), {reinterpret_cast<std::int64_t>(value.data.data()), element_count(shape)});
  }
  arguments_.insert(arguments_.end(), {static_cast<std::int64_t>(seed), static_cast<std::int64_t>(step)});
}

void AotCall::run() {
  std::array<char, 512> message{};
  const int status = run_(arguments_.data(), workspace_.data(), workspace_bytes(), message.data());
  if (status != 0) throw DeviceError(message.data());
}

}  // namespace moxie
