#include "tests/aot/c_caller.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "runtime/aot/interface.h"

namespace moxie::test {
namespace {

namespace fs = std::filesystem;

aot::Interface interface_of(const CCall& call, const DimValues& dims) {
  return aot::interface_of(make_plan(specialise(call.program, dims), {}, {.products = Products::kernels}),
                           call.function);
}

constexpr const char* kHead = R"(#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static FILE *in, *out;
static int64_t read_word(void) {
  int64_t word;
  if (fread(&word, sizeof word, 1, in) != 1) exit(2);
  return word;
}
static void *read_block(int64_t count, size_t size) {
  void *block = malloc((size_t)count * size + 1);
  if (fread(block, size, (size_t)count, in) != (size_t)count) exit(3);
  return block;
}
static void *unset_block(int64_t count, size_t size) {
  void *block = malloc((size_t)count * size + 1);
  memset(block, 0x7B, (size_t)count * size + 1);
  return block;
}
)";

std::string caller(const aot::Interface& interface, std::size_t number) {
  const std::string& name = interface.name;
  std::string text = fmt::format(
      "static void call_{}(void) {{\n  {}_arguments a;\n  moxie_message message;\n  int64_t bytes = 0, status;\n"
      "  char *workspace;\n  memset(&a, 0, sizeof a);\n",
      number, name);
  for (const auto& dim : interface.dims) text += fmt::format("  a.{} = read_word();\n", dim.field);
  if (interface.random) text += "  a.seed = (uint64_t)read_word();\n  a.step = (uint64_t)read_word();\n";
  for (const auto& tensor : interface.tensors)
    text += fmt::format("  a.{0}.count = read_word();\n  a.{0}.data = {1}_block(a.{0}.count, sizeof *a.{0}.data);\n",
                        tensor.field, tensor.output ? "unset" : "read");
  // A workspace need not be aligned; what lies behind it is not touched.
  text += fmt::format(
      "  if ({0}_workspace(&a, &bytes, &message) != moxie_ok) exit(4);\n"
      "  workspace = (char *)malloc((size_t)bytes + 16) + 8;\n  memset(workspace, 0x7B, (size_t)bytes + 8);\n"
      "  status = {0}(&a, workspace, bytes, &message);\n  if (workspace[bytes] != 0x7B) exit(5);\n"
      "  fwrite(&status, sizeof status, 1, out);\n  fwrite(&message, sizeof message, 1, out);\n",
      name);
  for (const auto& tensor : interface.tensors) {
    if (tensor.output)
      text += fmt::format("  fwrite(a.{0}.data, sizeof *a.{0}.data, (size_t)a.{0}.count, out);\n", tensor.field);
  }
  return text + "}\n";
}

std::string program_text(const std::string& library, const std::vector<aot::Interface>& interfaces) {
  std::string text = fmt::format("#include \"{}.h\"\n", library) + kHead;
  std::string body;
  for (std::size_t k = 0; k < interfaces.size(); ++k) {
    text += caller(interfaces[k], k);
    body += fmt::format("  call_{}();\n", k);
  }
  return text + "int main(void) {\n  in = fopen(\"in.bin\", \"rb\");\n  out = fopen(\"out.bin\", \"wb\");\n" + body +
         "  return fclose(out);\n}\n";
}

void write_word(std::ostream& out, std::int64_t word) { out.write(reinterpret_cast<const char*>(&word), sizeof word); }

void write_inputs(std::ostream& out, const CCall& call, const aot::Interface& interface) {
  for (const auto& dim : interface.dims) write_word(out, call.dims.at(dim.name));
  if (interface.random) write_word(out, static_cast<std::int64_t>(call.seed));
  if (interface.random) write_word(out, static_cast<std::int64_t>(call.step));
  for (const auto& tensor : interface.tensors) {
    write_word(out, element_count(extents_of(call.program, tensor.name, call.dims)));
    if (tensor.output) continue;
    const HostTensor& value = call.inputs.at(tensor.name);
    out.write(reinterpret_cast<const char*>(value.data.data()), static_cast<std::streamsize>(value.data.size()));
  }
}

CResult read_result(std::istream& in, const CCall& call, const aot::Interface& interface) {
  CResult result;
  std::int64_t status = -1;
  std::array<char, 512> message{};
  in.read(reinterpret_cast<char*>(&status), sizeof status);
  in.read(message.data(), message.size());
  result.status = static_cast<int>(status);
  result.message = message.data();
  for (const auto& tensor : interface.tensors) {
    if (!tensor.output) continue;
    HostTensor value{tensor.dtype, extents_of(call.program, tensor.name, call.dims), {}};
    value.data.resize(static_cast<std::size_t>(element_count(value.shape)) * size_of(tensor.dtype));
    in.read(reinterpret_cast<char*>(value.data.data()), static_cast<std::streamsize>(value.data.size()));
    result.outputs.emplace(tensor.name, std::move(value));
  }
  return result;
}

}  // namespace

std::string shell(const std::string& command) {
  FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("no shell for: " + command);
  std::string output;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = fread(block.data(), 1, block.size(), pipe)) > 0;) output.append(block.data(), n);
  if (pclose(pipe) != 0) throw std::runtime_error(command + "\n" + output);
  return output;
}

std::vector<CResult> call_from_c(const fs::path& folder, const aot::LibraryRequest& request,
                                 const std::vector<CCall>& calls, const Toolchain& toolchain) {
  aot::write_library(aot::make_library(request), folder);
  std::vector<aot::Interface> interfaces;
  for (const CCall& call : calls) interfaces.push_back(interface_of(call, request.dims));
  std::ofstream(folder / "main.c") << program_text(request.name, interfaces);
  {
    std::ofstream in(folder / "in.bin", std::ios::binary);
    for (std::size_t k = 0; k < calls.size(); ++k) write_inputs(in, calls[k], interfaces[k]);
  }
  shell(
      fmt::format("cd '{}' && {} -std=c99 -Wall -Wextra -Werror -pedantic {} main.c -L. -l{} -o caller && {} ./caller",
                  folder.string(), toolchain.compiler, toolchain.flags, request.name, toolchain.runner));
  std::ifstream out(folder / "out.bin", std::ios::binary);
  std::vector<CResult> results;
  for (std::size_t k = 0; k < calls.size(); ++k) results.push_back(read_result(out, calls[k], interfaces[k]));
  return results;
}

}  // namespace moxie::test
