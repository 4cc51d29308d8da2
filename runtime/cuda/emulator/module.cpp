#include "runtime/cuda/emulator/module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "runtime/cuda/emulator/driver_error.h"
#include "runtime/temporary_folder.h"

namespace moxie::cuda::emulator {
namespace {

struct ImageHeader {
  char magic[8];
  std::uint64_t bytes;  // that follow
};
constexpr char kMagic[9] = "moxieEMU";

std::string_view shared_object(const void* image) {
  ImageHeader header;
  if (image == nullptr || std::memcmp(image, kMagic, sizeof header.magic) != 0)
    throw DriverError(kInvalidImage, "the image is no module of the emulated device");
  std::memcpy(&header, image, sizeof header);
  return {static_cast<const char*>(image) + sizeof header, header.bytes};
}

}  // namespace

std::string module_image(const std::string& shared_object) {
  ImageHeader header;
  std::memcpy(header.magic, kMagic, sizeof header.magic);
  header.bytes = shared_object.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + shared_object;
}

void LoadedModule::Close::operator()(void* library) const { dlclose(library); }

LoadedModule::LoadedModule(const void* image, moxie_emulation::Machine& machine) {
  // The loader takes files only, and by the name of a file it knows whether it has loaded it: names must not come again
  // while modules live. Those of temporary folders do, since mkdtemp takes them from the clock.
  static std::atomic<std::uint64_t> count{0};
  const TemporaryFolder folder;
  const auto path = folder.path() / fmt::format("module-{}.so", count++);
  write_text_file(path, shared_object(image));
  library_.reset(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library_) throw DriverError(kInvalidImage, dlerror());
  auto* attach = reinterpret_cast<moxie_emulation::Attach*>(dlsym(library_.get(), "moxie_attach"));
  if (attach == nullptr) throw DriverError(kInvalidImage, "the module has no function moxie_attach");
  attach(&machine);
}

const moxie_emulation::EntryPoint& LoadedModule::entry(const std::string& name) const {
  const auto* point =
      static_cast<const moxie_emulation::EntryPoint*>(dlsym(library_.get(), ("moxie_entry_" + name).c_str()));
  if (point == nullptr) throw DriverError(kNotFound, fmt::format("the module has no kernel '{}'", name));
  return *point;
}

}  // namespace moxie::cuda::emulator
