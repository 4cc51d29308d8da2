#include "runtime/cuda/matrix_kernels.h"

#include <fmt/format.h>

#include <vector>

#include "codegen_templates/templates.h"
#include "compiler/support/error.h"

namespace moxie::cuda {
namespace {

constexpr const char* kMatrixKernelNames[] = {"copy_matrix", "check_pivots",     "check_finite",
                                              "signs_of",    "signs_of_vectors", "determinant_of"};

const char* element_name(DType dtype) { return dtype == DType::f32 ? "float" : "double"; }

/// "copy_matrix_float" and all others.
std::vector<std::string> matrix_kernel_entries() {
  std::vector<std::string> entries;
  for (const char* name : kMatrixKernelNames) {
    for (const DType dtype : {DType::f32, DType::f64})
      entries.push_back(fmt::format("{}_{}", name, element_name(dtype)));
  }
  return entries;
}

std::string matrix_kernels_text() {
  std::string text;
  for (const char* fragment : {"prelude", "status", "matrices"})
    text += template_text(fmt::format("cuda/{}.cuh", fragment));
  return text;
}

}  // namespace

MatrixKernels::MatrixKernels(std::shared_ptr<Gpu> gpu, KernelBuilder& builder) : gpu_(std::move(gpu)) {
  load(builder);
  try {
    find_functions();
  } catch (...) {
    gpu_->driver().ModuleUnload(module_);
    throw;
  }
}

MatrixKernels::~MatrixKernels() { gpu_->driver().ModuleUnload(module_); }

/// Code of the cache that the driver refuses is compiled again, once.
void MatrixKernels::load(KernelBuilder& builder) {
  const std::string text = matrix_kernels_text();
  const std::string key = cuda_cache_key(text, builder.compiler, builder.architecture);
  const auto load_code = [&](const CacheEntry& code) {
    return gpu_->driver().ModuleLoadData(&module_, code.object.data());
  };
  const auto compile_and_load = [&] {
    const CacheEntry code = builder.compiler.compile(text, matrix_kernel_entries(), builder.architecture);
    builder.cache.store(key, code);
    return load_code(code);
  };
  const auto known = builder.cache.find(key);
  Result error = known ? load_code(*known) : compile_and_load();
  if (error != 0 && known) {
    builder.cache.discard(key);
    error = compile_and_load();
  }
  gpu_->check(error, "loading the kernels for matrices");
}

void MatrixKernels::find_functions() {
  for (const std::string& entry : matrix_kernel_entries())
    gpu_->check(gpu_->driver().ModuleGetFunction(&functions_[entry], module_, entry.c_str()),
                "looking for the kernel " + entry);
}

void MatrixKernels::launch(const char* name, DType dtype, std::int64_t blocks,
                           std::initializer_list<std::uint64_t> parameters) const {
  std::vector<std::uint64_t> values = parameters;
  std::vector<void*> addresses;
  for (std::uint64_t& value : values) addresses.push_back(&value);
  const Function function = functions_.at(fmt::format("{}_{}", name, element_name(dtype)));
  const Result error = gpu_->driver().LaunchKernel(function, static_cast<unsigned>(blocks), 1, 1, kBlockThreads, 1, 1,
                                                   0, gpu_->stream(), addresses.data(), nullptr);
  gpu_->check(error, fmt::format("launching the kernel {} for matrices", name));
}

}  // namespace moxie::cuda
