#include "tests/emulator/emulated_kernel.h"

#include <doctest/doctest.h>

using namespace moxie::cuda;

const Platform& emulated() {
  static const Platform platform = moxie::cuda::emulated_platform();
  return platform;
}

std::string message(Result result) {
  const char* text = nullptr;
  emulated().driver.GetErrorString(result, &text);
  return result == 0 ? "" : text;
}

EmulatedKernel::EmulatedKernel(const std::string& text) {
  const std::string entries[] = {"f"};
  const moxie::CacheEntry compiled = emulated().compiler.compile("extern \"C\" __global__ void f" + text, entries, 90);
  REQUIRE(message(emulated().driver.ModuleLoadData(&module_, compiled.object.data())) == "");
  REQUIRE(message(emulated().driver.ModuleGetFunction(&function_, module_, "f")) == "");
}

EmulatedKernel::~EmulatedKernel() { emulated().driver.ModuleUnload(module_); }

std::string EmulatedKernel::launch(Shape shape, void** parameters, Stream stream) const {
  return message(emulated().driver.LaunchKernel(function_, shape.blocks, 1, 1, shape.threads, shape.block_rows, 1,
                                                shape.shared_bytes, stream, parameters, nullptr));
}
