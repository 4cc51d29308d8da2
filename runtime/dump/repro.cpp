#include "runtime/dump/repro.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen_templates/templates.h"
#include "compiler/support/error.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/plugin.h"
#include "runtime/dump/text_folder.h"
#include "runtime/host_tensor.h"

namespace moxie {
namespace {

std::string bytes_at(const void* memory, std::size_t count) { return {static_cast<const char*>(memory), count}; }

/// The argument's greatest value over all calls.
std::int64_t greatest(const LoopProgram& program, std::span<const std::int64_t> arguments, std::string_view name) {
  const auto place = static_cast<std::size_t>(std::ranges::find(program.arguments, name) - program.arguments.begin());
  std::int64_t most = 0;
  for (std::size_t k = place; k < arguments.size(); k += program.arguments.size()) most = std::max(most, arguments[k]);
  return most;
}

std::size_t size_in_bytes(const BufferDecl& buffer, const DimValues& symbols) {
  std::int64_t elements = 1;
  for (const Affine& extent : buffer.shape) elements *= std::max<std::int64_t>(evaluate(extent, symbols), 0);
  return static_cast<std::size_t>(elements) * size_of(buffer.dtype);
}

std::string buffer_rows(const CapturedLaunch& launch) {
  std::string rows;
  for (std::size_t k = 0; k < launch.buffers.size(); ++k) {
    const CapturedLaunch::Memory& memory = launch.buffers[k];
    rows += fmt::format("  {{\"{}\", \"buffer{}\", {}, {}, {}}},\n", memory.name, k, memory.before.size(),
                        memory.written ? 1 : 0, static_cast<int>(memory.dtype));
  }
  return rows;
}

std::string argument_rows(const CapturedLaunch& launch) {
  std::string rows;
  const std::size_t count = launch.program.arguments.size();
  for (std::size_t begin = 0; begin < launch.arguments.size(); begin += count) {
    std::string row;
    for (std::size_t k = 0; k < count; ++k) row += fmt::format("{}{}LL", k ? ", " : "", launch.arguments[begin + k]);
    rows += fmt::format("  {{{}}},\n", row);
  }
  return rows;
}

/// What main.c needs to know of the launch.
std::string header(const CapturedLaunch& launch) {
  const LoopProgram& program = launch.program;
  const std::int64_t scratch = scratch_size(program, host_machine()).bytes([&](Symbol dim) {
    return greatest(program, launch.arguments, dim.name());
  });
  return fmt::format(
      "/* {} as it was launched. */\n#define KERNEL {}\n#define SCRATCH_BYTES {}\n#define ARGUMENTS {}\n"
      "static const struct buffer buffers[] = {{\n{}}};\nstatic const long long arguments[][ARGUMENTS] = {{\n{}}};\n",
      program.name, program.name, std::max<std::int64_t>(scratch, 1), program.arguments.size(), buffer_rows(launch),
      argument_rows(launch));
}

/// Other programs may call the kernel.
std::string visible(std::string llvm) {
  constexpr std::string_view kHidden = "define hidden ";
  if (const std::size_t at = llvm.find(kHidden); at != llvm.npos) llvm.replace(at, kHidden.size(), "define ");
  return llvm;
}

}  // namespace

void LaunchCapture::before(const LoweredKernel& kernel, const Plan&, std::span<void* const> buffers,
                           std::span<const std::int64_t> arguments) {
  is_open_ = !launch_ && kernel.program.name == kernel_;
  if (!is_open_) return;
  DimValues symbols;
  for (const std::string& name : kernel.program.arguments) symbols[name] = greatest(kernel.program, arguments, name);
  addresses_.assign(buffers.begin(), buffers.end());
  launch_ = {kernel.program, {}, {arguments.begin(), arguments.end()}};
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    const BufferDecl& buffer = kernel.program.buffers[k];
    launch_->buffers.push_back(
        {buffer.name, buffer.written, buffer.dtype, bytes_at(buffers[k], size_in_bytes(buffer, symbols)), {}});
  }
}

void LaunchCapture::after(const LoweredKernel&) {
  if (!is_open_) return;
  is_open_ = false;
  for (std::size_t k = 0; k < addresses_.size(); ++k)
    launch_->buffers[k].after = bytes_at(addresses_[k], launch_->buffers[k].before.size());
}

void write_repro(const CapturedLaunch& launch, const std::string& cuda, const std::filesystem::path& folder) {
  const std::string llvm = visible(llvm_text(launch.program, host_machine()));
  const std::string object = compile_llvm(llvm, host_machine(), LlvmOutput::object);
  write_folder(folder, {"repro", {"repro"}}, [&](const std::filesystem::path& unfinished) {
    write_text(unfinished / "kernel.ll", llvm);
    write_text(unfinished / "kernel.o", object);
    write_text(unfinished / "kernel.cu", cuda);
    write_text(unfinished / "kernel.loop.txt", print(launch.program));
    write_text(unfinished / "launch.h", header(launch));
    write_text(unfinished / "main.c", template_text("dump/repro.c"));
    write_text(unfinished / "build.sh", template_text("dump/repro.sh"));
    for (std::size_t k = 0; k < launch.buffers.size(); ++k) {
      write_text(unfinished / fmt::format("buffer{}.before", k), launch.buffers[k].before);
      if (launch.buffers[k].written) write_text(unfinished / fmt::format("buffer{}.after", k), launch.buffers[k].after);
    }
  });
}

}  // namespace moxie
