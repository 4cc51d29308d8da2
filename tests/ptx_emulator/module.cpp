#include "tests/ptx_emulator/module.h"

#include <algorithm>
#include <cstring>

#include "tests/ptx_emulator/syntax.h"

namespace moxie::ptx {
namespace {

/// Zeros where nothing else is said.
void write_values(std::uint64_t address, const Declaration& variable) {
  auto* memory = reinterpret_cast<std::byte*>(address);
  std::memset(memory, 0, variable.bytes());
  for (std::size_t k = 0; k < variable.values.size(); ++k)
    std::memcpy(memory + k * variable.type.bytes, &variable.values[k], variable.type.bytes);
}

}  // namespace

Module::Module(std::string text, DeviceMemory& memory) : text_(std::move(text)), memory_(memory) {
  const std::vector<Token> tokens = tokenize(text_);
  const Syntax syntax = parse(tokens);
  Places globals;
  for (const Declaration& variable : syntax.variables) {
    variables_.push_back(memory_.allocate(std::max<std::uint64_t>(variable.bytes(), 1)));
    write_values(variables_.back(), variable);
    globals[variable.name] = {Space::global, variables_.back()};
  }
  for (const auto& [name, function] : syntax.functions) {
    if (function.is_entry) kernels_.emplace(name, decode(syntax, function, globals));
  }
}

Module::~Module() {
  for (const std::uint64_t variable : variables_) memory_.release(variable);
}

const Kernel* Module::find(const std::string& name) const {
  const auto kernel = kernels_.find(name);
  return kernel == kernels_.end() ? nullptr : &kernel->second;
}

}  // namespace moxie::ptx
