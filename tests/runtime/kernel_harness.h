#pragma once
// Runs LoopPrograms as machine code of every level that this processor has, and compares them with the interpreter.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "compiler/loop/interpreter.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host.h"

namespace moxie::samples {

using Buffers = std::vector<std::vector<double>>;

struct TestMachine {
  std::string name;
  VectorMachine machine;
};

/// All levels that run here, and one whose vectors have a single lane.
inline std::vector<TestMachine> test_machines() {
  std::vector<TestMachine> machines;
  for (const MachineLevel& level : machine_levels()) {
    if (host_supports(level.name)) machines.push_back({std::string(level.name), level.machine});
  }
  machines.push_back({"one lane", machines.back().machine});
  machines.back().machine.vector_bits = 32;
  return machines;
}

/// A buffer in the form that a kernel reads. What lies just behind it is not mapped to zero, so that a read beyond its
/// end shows up as a wrong number, and a write is noticed.
class RawBuffer {
 public:
  RawBuffer(DType dtype, const std::vector<double>& values)
      : dtype_(dtype), size_(values.size()), bytes_((size_ + kGuard) * width(), std::byte{0xA5}) {
    for (std::size_t i = 0; i < size_; ++i) {
      const auto single = static_cast<float>(values[i]);
      std::memcpy(at(i), dtype == DType::f32 ? static_cast<const void*>(&single) : &values[i], width());
    }
  }
  void* data() { return bytes_.data(); }
  std::vector<double> values() {
    std::vector<double> result(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      float single = 0;
      if (dtype_ == DType::f32) {
        std::memcpy(&single, at(i), sizeof(single));
        result[i] = single;
      } else {
        std::memcpy(&result[i], at(i), sizeof(double));
      }
    }
    return result;
  }
  bool guard_intact() const {
    return std::all_of(bytes_.begin() + static_cast<std::ptrdiff_t>(size_ * width()), bytes_.end(),
                       [](std::byte b) { return b == std::byte{0xA5}; });
  }

 private:
  static constexpr std::size_t kGuard = 64;
  std::size_t width() const { return dtype_ == DType::f32 ? 4 : 8; }
  std::byte* at(std::size_t i) { return bytes_.data() + i * width(); }
  DType dtype_;
  std::size_t size_;
  std::vector<std::byte> bytes_;
};

struct ScratchMemory {
  explicit ScratchMemory(std::int64_t bytes)
      : data(std::aligned_alloc(64, static_cast<std::size_t>(bytes) + 64), &std::free) {}
  std::unique_ptr<void, void (*)(void*)> data;
};

/// Runs a kernel on values in double; `buffers` are replaced by what it leaves in them.
inline KernelStatus run_kernel(const CpuKernel& kernel, const LoopProgram& program, Buffers& buffers,
                               const std::vector<std::int64_t>& arguments) {
  std::vector<RawBuffer> raw;
  for (std::size_t i = 0; i < buffers.size(); ++i) raw.emplace_back(program.buffers[i].dtype, buffers[i]);
  std::vector<void*> pointers;
  for (RawBuffer& buffer : raw) pointers.push_back(buffer.data());
  const ScratchMemory scratch(kernel.scratch_bytes(arguments));
  KernelStatus status;
  kernel.run(pointers.data(), arguments.data(), scratch.data.get(), &status);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    CHECK(raw[i].guard_intact());
    buffers[i] = raw[i].values();
  }
  return status;
}

inline KernelStatus run_interpreter(const LoopProgram& program, Buffers& buffers,
                                    const std::vector<std::int64_t>& arguments) {
  const std::vector<std::span<double>> spans(buffers.begin(), buffers.end());
  return interpret(program, spans, arguments);
}

/// Checks all buffers on all machines: |kernel - interpreter| <= tolerance * max(1, |interpreter|).
inline void check_against_interpreter(const LoopProgram& program, const Buffers& data,
                                      const std::vector<std::int64_t>& arguments, double tolerance) {
  Buffers expected = data;
  const KernelStatus wanted = run_interpreter(program, expected, arguments);
  for (const TestMachine& test : test_machines()) {
    CAPTURE(test.name);
    Buffers got = data;
    const auto kernel = CpuKernel::build(program, test.machine, nullptr);
    const KernelStatus status = run_kernel(*kernel, program, got, arguments);
    CHECK(status.failed == wanted.failed);
    CHECK(std::ranges::equal(status.coordinates, wanted.coordinates));
    for (std::size_t b = 0; b < data.size(); ++b) {
      CAPTURE(program.buffers[b].name);
      for (std::size_t i = 0; i < data[b].size(); ++i) {
        CAPTURE(i);
        const double scale = std::max(1.0, std::abs(expected[b][i]));
        const bool same = got[b][i] == expected[b][i] || std::abs(got[b][i] - expected[b][i]) <= tolerance * scale;
        if (!same) CHECK(got[b][i] == expected[b][i]);
      }
    }
  }
}

/// Reproducible numbers in [low, high), rounded to single precision so that all dtypes hold them exactly.
inline std::vector<double> numbers(std::size_t count, double low = -1, double high = 1) {
  std::vector<double> result;
  std::uint64_t state = 12345;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    result.push_back(static_cast<float>(low + (high - low) * static_cast<double>(state >> 11) * 0x1p-53));
  }
  return result;
}

}  // namespace moxie::samples
