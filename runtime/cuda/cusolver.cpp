#include "runtime/cuda/cusolver.h"

#include <fmt/format.h>

#include <array>

#include "compiler/support/error.h"
#include "runtime/log.h"

namespace moxie::cuda {
namespace cusolver {
namespace {

// From library_types.h.
constexpr int kMajor = 0;
constexpr int kMinor = 1;

/// cuSOLVER has no function that does this. The names of cusolver_common.h, by their numbers from 0.
constexpr std::array kStatusNames = {
    "CUSOLVER_STATUS_SUCCESS",          "CUSOLVER_STATUS_NOT_INITIALIZED", "CUSOLVER_STATUS_ALLOC_FAILED",
    "CUSOLVER_STATUS_INVALID_VALUE",    "CUSOLVER_STATUS_ARCH_MISMATCH",   "CUSOLVER_STATUS_MAPPING_ERROR",
    "CUSOLVER_STATUS_EXECUTION_FAILED", "CUSOLVER_STATUS_INTERNAL_ERROR",
};

std::string status_name(Status status) {
  const auto known = static_cast<std::size_t>(status);
  return known < kStatusNames.size() ? kStatusNames.at(known) : fmt::format("status {}", status);
}

}  // namespace

Library::Library(std::vector<std::filesystem::path> directories)
    : library_(
          {"cuSOLVER",
           {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"},
           std::move(directories),
           "Install the CUDA toolkit (12 or later; its packages libcusolver, libcusparse and libcublas are enough) "
           "and set CUDA_PATH to its folder; without it, kernels factor large matrices, each in one block"}) {
  library_.resolve(create_, "cusolverDnCreate");
  library_.resolve(destroy_, "cusolverDnDestroy");
  library_.resolve(set_stream_, "cusolverDnSetStream");
  library_.resolve(get_property_, "cusolverGetProperty");
  resolve(f32_, 'S');
  resolve(f64_, 'D');
}

Library::~Library() {
  for (const auto& [stream, handle] : handles_) destroy_(handle);
}

template <class T>
void Library::resolve(Functions<T>& f, char letter) const {
  const auto find = [&](auto& function, const char* name) {
    library_.resolve(function, fmt::format("cusolverDn{}{}", letter, name).c_str());
  };
  find(f.potrf_size, "potrf_bufferSize");
  find(f.potrf, "potrf");
  find(f.potri_size, "potri_bufferSize");
  find(f.potri, "potri");
  find(f.getrf_size, "getrf_bufferSize");
  find(f.getrf, "getrf");
  find(f.getrs, "getrs");
  find(f.geqrf_size, "geqrf_bufferSize");
  find(f.geqrf, "geqrf");
  find(f.orgqr_size, "orgqr_bufferSize");
  find(f.orgqr, "orgqr");
  find(f.syevd_size, "syevd_bufferSize");
  find(f.syevd, "syevd");
  find(f.gesvd_size, "gesvd_bufferSize");
  find(f.gesvd, "gesvd");
}

std::string Library::version() const {
  int major = 0;
  int minor = 0;
  get_property_(kMajor, &major);
  get_property_(kMinor, &minor);
  return fmt::format("cuSOLVER {}.{}", major, minor);
}

Handle Library::handle_of(Stream stream) {
  if (const auto known = handles_.find(stream); known != handles_.end()) return known->second;
  Handle handle = nullptr;
  check(create_(&handle), "no handle can be made");
  handles_.emplace(stream, handle);
  check(set_stream_(handle, stream), "the stream is refused");
  return handle;
}

void Library::check(Status status, const std::string& what) const {
  if (status != 0) throw DeviceError(fmt::format("{}: {}: {}", version(), what, status_name(status)));
}

}  // namespace cusolver

bool Solver::is_available() {
  const std::scoped_lock lock(mutex_);
  if (is_tried_) return library_ != nullptr;
  is_tried_ = true;
  try {
    library_ = std::make_unique<cusolver::Library>(directories_);
  } catch (const DeviceError& error) {
    log_info(LogChannel::Runtime, "{}", error.what());
  }
  return library_ != nullptr;
}

std::string cusolver_version(std::vector<std::filesystem::path> directories) {
  return cusolver::Library(std::move(directories)).version();
}

}  // namespace moxie::cuda
