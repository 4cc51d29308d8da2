#include "tests/ptx_emulator/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tests/ptx_emulator/fault.h"

namespace moxie::ptx {
namespace {

/// So that a processor's widest loads do not cross lines of its cache.
constexpr std::uint64_t kRegisterAlignment = 64;

struct SpecialName {
  std::string_view name;
  Special which;
};
constexpr SpecialName kSpecials[] = {
    {"%tid", Special::tid},       {"%ntid", Special::ntid},     {"%ctaid", Special::ctaid},
    {"%nctaid", Special::nctaid}, {"%laneid", Special::laneid}, {"%warpid", Special::warpid},
};

}  // namespace

std::uint64_t lay_out(std::uint64_t& end, std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t address = (end + alignment - 1) / alignment * alignment;
  end = address + bytes;
  return address;
}

void Names::open_function(Places parameters) { scopes_.push_back({true, {}, {}, std::move(parameters)}); }
void Names::close_function() {
  while (!scopes_.back().is_function) scopes_.pop_back();
  scopes_.pop_back();
}

void Names::declare(const Declaration& declaration) {
  Scope& scope = scopes_.back();
  const auto place = [&](Space space, std::uint64_t& end) {
    scope.places[declaration.name] = {space, lay_out(end, declaration.bytes(), declaration.alignment)};
  };
  if (declaration.space == ".reg") {
    const Register first = make_register(declaration.type.bytes);
    for (std::uint64_t k = 1; declaration.is_family && k < declaration.count; ++k) make_register(first.bytes);
    if (declaration.is_family)
      scope.families[declaration.name] = {first.slot, first.bytes, declaration.count};
    else
      scope.registers[declaration.name] = first;
  } else if (declaration.space == ".shared") {
    place(Space::shared, kernel_.shared_bytes);
  } else if (declaration.space == ".local" || declaration.space == ".param") {
    place(Space::local, kernel_.local_bytes);
  } else {
    throw Fault(Reason::invalid_ptx, fmt::format("{} {} within a function", declaration.space, declaration.name));
  }
}

template <class F>
auto Names::find(const F& look) const -> decltype(look(std::declval<const Scope&>())) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto found = look(*scope)) return found;
    if (scope->is_function) break;
  }
  return std::nullopt;
}

std::optional<Register> Names::find_register(std::string_view name) const {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string_view prefix = name.substr(0, digits);
  std::uint64_t number = 0;
  std::from_chars(name.data() + digits, name.data() + name.size(), number);
  return find([&](const Scope& scope) -> std::optional<Register> {
    if (const auto found = scope.registers.find(name); found != scope.registers.end()) return found->second;
    const auto family = scope.families.find(prefix);
    if (family == scope.families.end() || digits == name.size() || number >= family->second.count) return std::nullopt;
    const auto& [first, bytes, count] = family->second;
    const std::uint64_t stride = (kLanes * bytes + kRegisterAlignment - 1) / kRegisterAlignment * kRegisterAlignment;
    return Register{static_cast<Slot>(first + number * stride), bytes};
  });
}

std::optional<Place> Names::find_place(std::string_view name) const {
  const auto here = find([&](const Scope& scope) -> std::optional<Place> {
    const auto found = scope.places.find(name);
    return found == scope.places.end() ? std::nullopt : std::optional(found->second);
  });
  if (here) return here;
  const auto global = globals_.find(name);
  return global == globals_.end() ? std::nullopt : std::optional(global->second);
}

Register Names::make_register(unsigned bytes) {
  return {static_cast<Slot>(lay_out(kernel_.register_bytes, std::uint64_t{kLanes} * bytes, kRegisterAlignment)), bytes};
}

Slot Names::constant(unsigned bytes, std::uint64_t bits) {
  if (bytes < 8) bits &= (std::uint64_t{1} << 8 * bytes) - 1;
  const auto [known, is_new] = constants_.try_emplace({bytes, bits}, 0);
  if (is_new) {
    known->second = make_register(bytes).slot;
    kernel_.constants.push_back({known->second, bytes, bits});
  }
  return known->second;
}

std::optional<Register> Names::special(std::string_view name) {
  if (const auto known = specials_.find(name); known != specials_.end()) return known->second;
  const std::size_t dot = name.find('.');
  const auto* row = std::ranges::find(kSpecials, name.substr(0, dot), &SpecialName::name);
  if (row == std::end(kSpecials)) return std::nullopt;
  const std::string_view axis = dot == std::string_view::npos ? "x" : name.substr(dot + 1);
  if (axis != "x" && axis != "y" && axis != "z") return std::nullopt;
  const Register made = make_register(sizeof(std::uint32_t));
  kernel_.specials.push_back({made.slot, row->which, static_cast<std::uint8_t>(axis[0] - 'x')});
  specials_.emplace(name, made);
  return made;
}

}  // namespace moxie::ptx
