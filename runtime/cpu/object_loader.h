#pragma once
// Loads an ELF64 relocatable object into executable memory, so that a warm start needs no LLVM.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

/// The ELF number of the processor that this program runs on.
std::uint16_t host_elf_machine();

/// Pages that are written first and executed afterwards, never both at once.
class ExecutablePages {
 public:
  explicit ExecutablePages(std::size_t size);
  ~ExecutablePages();
  ExecutablePages(const ExecutablePages&) = delete;
  ExecutablePages& operator=(const ExecutablePages&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  void make_executable();

 private:
  std::span<std::byte> bytes_;
};

/// Code in memory. It refers to nothing outside of itself; objects that do, or that are damaged, are refused.
class LoadedObject {
 public:
  /// Throws CacheError for bytes that are no object of `machine` such as moxie makes, DeviceError where memory cannot
  /// be had.
  explicit LoadedObject(std::string_view object, std::uint16_t machine = host_elf_machine());

  /// The address of a global symbol. Throws CacheError where there is none.
  void* symbol(std::string_view name) const;
  std::size_t size() const { return pages_.bytes().size(); }

  struct Function {
    std::string name;
    const void* address;
    std::uint64_t size;
  };
  /// All functions of the object that this was loaded from, local ones included.
  std::vector<Function> functions(std::string_view object) const;
  /// That object with the addresses of its sections in memory, as debuggers want it.
  std::string with_addresses(std::string_view object) const;

 private:
  ExecutablePages pages_;
  std::uint16_t machine_;
  std::map<std::string, std::uint64_t, std::less<>> symbols_;  // offsets in the pages
};

}  // namespace moxie
