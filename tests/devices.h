#pragma once
// The devices that a test body runs on: one body, every device.
#include <memory>
#include <string_view>
#include <vector>

#include "compiler/reference/evaluate.h"
#include "runtime/device.h"

namespace moxie::test {

/// A device without a cache on disk, but for the one that MOXIE_CACHE_DIR gives to `cuda` and `cuda-emu`. Nothing where
/// this run of the tests leaves it out: TEST_DEVICES=LIST takes those named there, else all take part but the GPU. A
/// GPU that was asked for and is not there is left out with a line.
std::shared_ptr<Device> test_device(std::string_view name, DeviceOptions options = {});
/// All that take part.
std::vector<std::shared_ptr<Device>> test_devices();

/// Sines for every input, each from the same start: values of both signs that are exact in f32.
TensorValues wave_inputs(const Program& program, const DimValues& dims);
/// The values of every output after one run. `dims` may hold more than `program` declares.
TensorValues run_on(const std::shared_ptr<Device>& device, const Program& program, const DimValues& dims,
                    const TensorValues& inputs);

}  // namespace moxie::test
