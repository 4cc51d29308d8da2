// Names of kernels for profilers and debuggers.
#include <doctest/doctest.h>
#include <elf.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler/program/program.h"
#include "runtime/cpu/code_symbols.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host.h"
#include "runtime/plan.h"
#include "runtime/temporary_folder.h"

using namespace moxie;

// As debuggers know them.
extern "C" {
struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};
struct jit_descriptor {
  std::uint32_t version, action_flag;
  jit_code_entry *relevant_entry, *first_entry;
};
extern jit_descriptor __jit_debug_descriptor;  // NOLINT(bugprone-reserved-identifier)
}

namespace {

/// With MOXIE_SYMBOLS set, as long as it lives.
struct Wanted {
  explicit Wanted(const char* value) { setenv("MOXIE_SYMBOLS", value, 1); }
  ~Wanted() { unsetenv("MOXIE_SYMBOLS"); }
};

CpuKernel::Ptr build_kernel() {
  const Plan plan = make_plan(specialise(parse("dim N\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n"), {{"N", 8}}));
  return CpuKernel::build(kernels_of(plan.steps.front()).front()->program, host_machine(), nullptr);
}

int registered() {
  int count = 0;
  for (const jit_code_entry* entry = __jit_debug_descriptor.first_entry; entry; entry = entry->next_entry) ++count;
  return count;
}

}  // namespace

TEST_CASE("nobody is told unless somebody asks") {
  const auto kernel = build_kernel();
  CHECK(registered() == 0);
}

TEST_CASE("perf finds names and addresses in its file") {
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  const Wanted wanted("perf");
  const auto kernel = build_kernel();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  CHECK(text.str().find(" k_y\n") != std::string::npos);
  CHECK(text.str().find(" k_y.body\n") != std::string::npos);
}

TEST_CASE("perf's file is not written through links, nor into files of others") {
  const std::filesystem::path path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  const moxie::TemporaryFolder folder;
  const std::filesystem::path victim = folder.path() / "victim";
  std::ofstream(victim) << "precious";
  const Wanted wanted("perf");
  const auto keeps = [&] {
    CHECK(build_kernel() != nullptr);
    CHECK(std::filesystem::file_size(victim) == 8);
    std::filesystem::remove(path);
  };
  std::filesystem::create_symlink(victim, path), keeps();
  std::filesystem::create_symlink(folder.path() / "new", path), keeps();
  CHECK_FALSE(std::filesystem::exists(folder.path() / "new"));
  std::error_code other_disk;
  std::filesystem::create_hard_link(victim, path, other_disk), keeps();
}

TEST_CASE("debuggers are given objects with addresses and lines, as long as the code lives") {
  const Wanted wanted("gdb");
  {
    const auto first = build_kernel();
    const auto second = build_kernel();
    REQUIRE(registered() == 2);
    const jit_code_entry& entry = *__jit_debug_descriptor.first_entry;
    const std::string image(entry.symfile_addr, entry.symfile_size);
    CHECK(image.find(".debug_line") != std::string::npos);
    Elf64_Ehdr header;
    std::memcpy(&header, image.data(), sizeof header);
    bool has_address = false;
    for (int k = 0; k < header.e_shnum; ++k) {
      Elf64_Shdr section;
      std::memcpy(&section, image.data() + header.e_shoff + static_cast<std::size_t>(k) * sizeof section,
                  sizeof section);
      has_address = has_address || ((section.sh_flags & SHF_EXECINSTR) != 0 && section.sh_addr != 0);
    }
    CHECK(has_address);
  }
  CHECK(registered() == 0);
}
