// Hand-edited kernels in place of generated ones.
#include "runtime/kernel_override.h"

#include <doctest/doctest.h>

#include <fstream>

#include "compiler/support/error.h"
#include "runtime/cpu/plugin.h"
#include "runtime/temporary_folder.h"
#include "tests/loop/sample_programs.h"
#include "tests/runtime/kernel_harness.h"

using namespace moxie;
namespace fs = std::filesystem;

namespace {

/// A folder that holds a text for column_squares().
struct Folder : TemporaryFolder {
  fs::path file() const { return path() / cpu_kernel_file("column_squares", generated(), host_machine()); }
  static std::string generated() { return llvm_text(samples::column_squares(), host_machine()); }
  void write(const std::string& text) const { std::ofstream(file()) << text; }
};

/// Everywhere: a loop may be written more than once.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string failure(const Folder& folder) {
  KernelOverrides overrides(folder.path());
  try {
    CpuKernel::build(samples::column_squares(), host_machine(), nullptr, &overrides);
  } catch (const CompileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a file replaces the kernel that it is named after, and no other") {
  const Folder folder;
  folder.write(replaced(Folder::generated(), " fmul ", " fadd "));
  KernelOverrides overrides(folder.path());
  KernelCache cache{fs::path()};
  samples::Buffers data = {{1, 2, 3}, {-1}};  // x[3,1], y[1]
  const LoopProgram program = samples::column_squares();
  for (int i = 0; i < 2; ++i) {
    const auto kernel = CpuKernel::build(program, host_machine(), &cache, &overrides);
    samples::run_kernel(*kernel, program, data, {1, 0, 1});
    CHECK(data[1][0] == 12);  // sums of x + x
  }
  CHECK(overrides.count() == 1);
  CHECK(cache.stats().hits == 1);

  LoopProgram other = program;
  other.name = "other";
  CHECK(CpuKernel::build(other, host_machine(), nullptr, &overrides)->source().find(" fmul ") != std::string::npos);
  CHECK(overrides.count() == 1);
  samples::run_kernel(*CpuKernel::build(program, host_machine(), &cache), program, data, {1, 0, 1});
  CHECK(data[1][0] == 14);
}

TEST_CASE("a broken file is named with what is wrong in it") {
  const Folder folder;
  const std::string file = folder.file().string();
  folder.write(replaced(Folder::generated(), "define hidden void", "define hidden vod"));
  CHECK(failure(folder).starts_with(file + ": LLVM refused this kernel: kernel:"));
  CHECK(failure(folder).ends_with("^. Correct or remove the file."));
  folder.write(replaced(Folder::generated(), "@\"column_squares\"", "@\"renamed\""));
  CHECK(failure(folder) == file +
                               ": object code has no symbol 'column_squares'. A kernel defines @column_squares and "
                               "refers to nothing outside of its module.");
  folder.write("");
  CHECK(failure(folder).starts_with(file + ": object code"));
}

TEST_CASE("a file that cannot be read is a failure") {
  const Folder folder;
  fs::create_directory(folder.file());
  KernelOverrides overrides(folder.path());
  CHECK_THROWS_AS(CpuKernel::build(samples::column_squares(), host_machine(), nullptr, &overrides), DataError);
}
