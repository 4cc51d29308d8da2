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

std::string matrix_kernels_text() {
  std::string text;
  for (const char* fragment : {"prelude", "status", "matrices"})
    text += template_text(fmt::format("cuda/{}.cuh", fragment));
  return text;
}

}  // namespace

MatrixKernels::MatrixKernels(std::shared_ptr<Gpu> gpu, KernelBuilder& builder) : gpu_(std::move(gpu)) {
  const std::string text = matrix_kernels_text();
  const std::string key = cuda_cache_key(text, builder.compiler, builder.architecture);
  const auto known = builder.cache.find(key);
  const auto load = [&](const CacheEntry& code) { return gpu_->driver().ModuleLoadData(&module_, code.object.data()); };
  Result error = load(known ? *known : compile(text, builder));
  if (error != 0 && known) {  // damaged, or of another driver
    builder.cache.discard(key);
    error = load(compile(text, builder));
  }
  gpu_->check(error, "loading the kernels for matrices");
  for (const char* name : kMatrixKernelNames) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::string entry = fmt::format("{}_{}", name, element_name(dtype));
      gpu_->check(gpu_->driver().ModuleGetFunction(&functions_[entry], module_, entry.c_str()),
                  "looking for the kernel " + entry);
    }
  }
}

MatrixKernels::~MatrixKernels() { gpu_->driver().ModuleUnload(module_); }

CacheEntry MatrixKernels::compile(const std::string& text, KernelBuilder& builder) const {
  std::vector<std::string> entries;
  for (const char* name : kMatrixKernelNames) {
    for (const DType dtype : {DType::f32, DType::f64})
      entries.push_back(fmt::format("{}_{}", name, element_name(dtype)));
  }
  CacheEntry code = builder.compiler.compile(text, entries, builder.architecture);
  builder.cache.store(cuda_cache_key(text, builder.compiler, builder.architecture), code);
  return code;
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
