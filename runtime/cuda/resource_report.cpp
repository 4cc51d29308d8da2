#include "runtime/cuda/resource_report.h"

#include <algorithm>
#include <charconv>

namespace moxie::cuda {
namespace {

/// The number that stands before `unit` in a line such as "Used 40 registers, used 1 barriers, 256 bytes smem".
std::int64_t number_before(std::string_view line, std::string_view unit) {
  const std::size_t end = line.find(unit);
  if (end == line.npos) return 0;
  const std::size_t begin = line.substr(0, end).find_last_not_of("0123456789") + 1;
  std::int64_t value = 0;
  std::from_chars(line.data() + begin, line.data() + end, value);
  return value;
}

/// The name between the first two quotes.
std::string quoted(std::string_view line) {
  const std::size_t begin = line.find('\'') + 1;
  return std::string(line.substr(begin, line.find('\'', begin) - begin));
}

}  // namespace

std::map<std::string, KernelResources> resource_report(std::string_view log) {
  std::map<std::string, KernelResources> report;
  KernelResources* current = nullptr;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(line.size() + 1, log.size()));
    if (line.find("Compiling entry function '") != line.npos) current = &report[quoted(line)];
    if (current == nullptr) continue;
    if (line.find(" bytes stack frame") != line.npos) {
      // A line per function: those that the kernel calls come behind it.
      current->stack_bytes = std::max(current->stack_bytes, number_before(line, " bytes stack frame"));
      current->spill_store_bytes = std::max(current->spill_store_bytes, number_before(line, " bytes spill stores"));
      current->spill_load_bytes = std::max(current->spill_load_bytes, number_before(line, " bytes spill loads"));
    } else if (line.find(" registers") != line.npos) {
      current->registers = number_before(line, " registers");
      current->shared_bytes = number_before(line, " bytes smem");
    }
  }
  return report;
}

}  // namespace moxie::cuda
