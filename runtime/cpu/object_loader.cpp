#include "runtime/cpu/object_loader.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cpu/relocation.h"

namespace moxie {
namespace {

[[noreturn]] void damaged(const std::string& reason) { throw CacheError("object code is damaged: " + reason); }

/// An ELF file, every read of which is checked.
class ElfFile {
 public:
  ElfFile(std::string_view bytes, std::uint16_t machine) : bytes_(bytes) {
    const auto header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) damaged("it does not begin like an ELF file");
    const bool expected =
        header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_type == ET_REL;
    if (!expected) damaged("it is no 64-bit relocatable object");
    if (header.e_machine != machine)
      damaged(fmt::format("it is for ELF machine {}, not {}", header.e_machine, machine));
    if (header.e_shentsize != sizeof(Elf64_Shdr))
      damaged(fmt::format("section headers of {} bytes", header.e_shentsize));
    sections = read_all<Elf64_Shdr>(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr));
  }

  std::string_view range(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      damaged(fmt::format("bytes {} + {} of {}", offset, size, bytes_.size()));
    return bytes_.substr(offset, size);
  }
  template <class T>
  T read(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, range(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> read_all(std::uint64_t offset, std::uint64_t size) const {
    const std::string_view bytes = range(offset, size);  // before memory is had for a length that may be absurd
    std::vector<T> values(size / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

  const Elf64_Shdr& section(std::uint64_t index) const {
    if (index >= sections.size()) damaged(fmt::format("section {} of {}", index, sections.size()));
    return sections[index];
  }
  std::string_view content(const Elf64_Shdr& section) const { return range(section.sh_offset, section.sh_size); }
  template <class T>
  std::vector<T> table(const Elf64_Shdr& section) const {
    return read_all<T>(section.sh_offset, section.sh_size);
  }
  std::string_view name(const Elf64_Shdr& strings, std::uint32_t offset) const {
    const std::string_view text = content(strings);
    const std::size_t end = text.find('\0', offset);
    if (offset >= text.size() || end == std::string_view::npos) damaged("a name outside the table of names");
    return text.substr(offset, end - offset);
  }

  std::vector<Elf64_Shdr> sections;

 private:
  std::string_view bytes_;
};

constexpr std::uint64_t kLargestAlignment = 4096;

/// Where every section that takes part in execution lies, one behind the other.
struct Placement {
  std::vector<std::optional<std::uint64_t>> offsets;  // per section
  std::uint64_t size = 0;
};

Placement place(const ElfFile& file) {
  Placement result;
  for (const Elf64_Shdr& section : file.sections) {
    result.offsets.emplace_back();
    if ((section.sh_flags & SHF_ALLOC) == 0 || section.sh_size == 0) continue;
    if ((section.sh_flags & (SHF_WRITE | SHF_TLS)) != 0 || section.sh_type == SHT_NOBITS)
      damaged("it has variables; kernels have none");
    const std::uint64_t alignment = std::max<std::uint64_t>(section.sh_addralign, 1);
    if (!std::has_single_bit(alignment) || alignment > kLargestAlignment)
      damaged(fmt::format("an alignment of {}", alignment));
    result.offsets.back() = (result.size + alignment - 1) / alignment * alignment;
    result.size = *result.offsets.back() + file.content(section).size();
  }
  if (result.size == 0) damaged("it holds no code");
  return result;
}

/// The symbol's address relative to the loaded code.
std::uint64_t offset_of(const ElfFile& file, const Placement& placement, const Elf64_Sym& symbol,
                        std::string_view name) {
  if (symbol.st_shndx == SHN_UNDEF) damaged(fmt::format("it needs the outside symbol '{}'", name));
  const Elf64_Shdr& section = file.section(symbol.st_shndx);
  const auto& start = placement.offsets[symbol.st_shndx];
  if (!start || symbol.st_value > section.sh_size) damaged(fmt::format("symbol '{}' lies outside the code", name));
  return *start + symbol.st_value;
}

void relocate_section(const ElfFile& file, const Placement& placement, const Elf64_Shdr& table, std::uint16_t machine,
                      std::span<std::byte> memory) {
  const auto &target_start = file.section(table.sh_info), &symbol_table = file.section(table.sh_link);
  const auto& start = placement.offsets[table.sh_info];
  if (!start) return;  // debug information and the like
  const Elf64_Shdr& names = file.section(symbol_table.sh_link);
  const auto symbols = file.table<Elf64_Sym>(symbol_table);
  const auto base = reinterpret_cast<std::uint64_t>(memory.data());
  for (const Elf64_Rela& entry : file.table<Elf64_Rela>(table)) {
    const std::uint64_t index = ELF64_R_SYM(entry.r_info);
    if (index >= symbols.size() || entry.r_offset > target_start.sh_size) damaged("a relocation outside its tables");
    const std::string_view name = symbols[index].st_name == 0 ? "" : file.name(names, symbols[index].st_name);
    const std::uint64_t target =
        base + offset_of(file, placement, symbols[index], name) + static_cast<std::uint64_t>(entry.r_addend);
    const std::uint64_t at = *start + entry.r_offset;
    apply_relocation(machine, static_cast<std::uint32_t>(ELF64_R_TYPE(entry.r_info)),
                     memory.subspan(at, target_start.sh_size - entry.r_offset), target, base + at);
  }
}

void load(const ElfFile& file, const Placement& placement, std::uint16_t machine, std::span<std::byte> memory) {
  for (std::size_t i = 0; i < file.sections.size(); ++i) {
    if (!placement.offsets[i]) continue;
    const std::string_view content = file.content(file.sections[i]);
    std::memcpy(memory.data() + *placement.offsets[i], content.data(), content.size());
  }
  for (const Elf64_Shdr& section : file.sections) {
    if (section.sh_type == SHT_REL) damaged("relocations without addends");
    if (section.sh_type == SHT_RELA) relocate_section(file, placement, section, machine, memory);
  }
}

std::map<std::string, std::uint64_t, std::less<>> global_symbols(const ElfFile& file, const Placement& placement) {
  std::map<std::string, std::uint64_t, std::less<>> result;
  for (const Elf64_Shdr& section : file.sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    for (const Elf64_Sym& symbol : file.table<Elf64_Sym>(section)) {
      if (ELF64_ST_BIND(symbol.st_info) != STB_GLOBAL) continue;
      const std::string_view name = file.name(file.section(section.sh_link), symbol.st_name);
      result.emplace(name, offset_of(file, placement, symbol, name));
    }
  }
  return result;
}

}  // namespace

std::uint16_t host_elf_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
  return EM_NONE;
#endif
}

ExecutablePages::ExecutablePages(std::size_t size) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t rounded = (size + page - 1) / page * page;
  void* memory = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw DeviceError(fmt::format("{} bytes of memory for code cannot be had: {}", rounded, std::strerror(errno)));
  bytes_ = {static_cast<std::byte*>(memory), rounded};
}

ExecutablePages::~ExecutablePages() { munmap(bytes_.data(), bytes_.size()); }

void ExecutablePages::make_executable() {
  if (mprotect(bytes_.data(), bytes_.size(), PROT_READ | PROT_EXEC) != 0) {
    throw DeviceError(
        fmt::format("memory cannot be made executable: {}; a security policy may forbid it", std::strerror(errno)));
  }
  auto* begin = reinterpret_cast<char*>(bytes_.data());
  __builtin___clear_cache(begin, begin + bytes_.size());
}

LoadedObject::LoadedObject(std::string_view object, std::uint16_t machine)
    : pages_(place(ElfFile(object, machine)).size), machine_(machine) {
  const ElfFile file(object, machine);
  const Placement placement = place(file);
  load(file, placement, machine, pages_.bytes());
  symbols_ = global_symbols(file, placement);
  pages_.make_executable();
}

void* LoadedObject::symbol(std::string_view name) const {
  const auto found = symbols_.find(name);
  if (found == symbols_.end()) throw CacheError(fmt::format("object code has no symbol '{}'", name));
  return pages_.bytes().data() + found->second;
}

std::vector<LoadedObject::Function> LoadedObject::functions(std::string_view object) const {
  const ElfFile file(object, machine_);
  const Placement placement = place(file);
  std::vector<Function> functions;
  for (const Elf64_Shdr& section : file.sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    for (const Elf64_Sym& symbol : file.table<Elf64_Sym>(section)) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      const std::string_view name = file.name(file.section(section.sh_link), symbol.st_name);
      functions.push_back(
          {std::string(name), pages_.bytes().data() + offset_of(file, placement, symbol, name), symbol.st_size});
    }
  }
  return functions;
}

std::string LoadedObject::with_addresses(std::string_view object) const {
  const ElfFile file(object, machine_);
  const Placement placement = place(file);
  const auto headers = file.read<Elf64_Ehdr>(0).e_shoff;
  std::string image(object);
  for (std::size_t k = 0; k < file.sections.size(); ++k) {
    if (!placement.offsets[k]) continue;
    Elf64_Shdr section = file.sections[k];
    section.sh_addr = reinterpret_cast<std::uint64_t>(pages_.bytes().data()) + *placement.offsets[k];
    std::memcpy(image.data() + headers + k * sizeof section, &section, sizeof section);
  }
  return image;
}

}  // namespace moxie
