#include "compiler/program/scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace moxie {
namespace {

/// The definitions of one scan with all that they depend on, directly or through others of the same scan.
class Dependences {
 public:
  explicit Dependences(std::span<const Definition> members)
      : members_(members), size_(members.size()), depends_(size_ * size_) {
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < size_; ++j) depends_[i * size_ + j] = reads(members[i], members[j].name);
    }
    for (std::size_t k = 0; k < size_; ++k) {
      for (std::size_t i = 0; i < size_; ++i) {
        if (on(i, k)) take_over(i, k);
      }
    }
  }

  bool on(std::size_t user, std::size_t used) const { return depends_[user * size_ + used]; }
  /// Recurrent, or recomputed: what a scan is for.
  bool is_stepwise(std::size_t k) const { return on(k, k) || members_[k].recomputed; }
  bool needs_stepwise(std::size_t k) const {
    return is_stepwise(k) || any([&](std::size_t r) { return is_stepwise(r) && on(k, r); });
  }
  /// Stepwise, or a reader of what is recomputed, or needed by one of these.
  bool stays(std::size_t k) const {
    return is_kept_in(k) || any([&](std::size_t r) { return is_kept_in(r) && on(r, k); });
  }

 private:
  bool is_kept_in(std::size_t k) const {
    return is_stepwise(k) || any([&](std::size_t r) { return members_[r].recomputed && on(k, r); });
  }

  void take_over(std::size_t user, std::size_t used) {
    for (std::size_t j = 0; j < size_; ++j) depends_[user * size_ + j] = on(user, j) || on(used, j);
  }

  template <class Holds>
  bool any(const Holds& holds) const {
    return std::ranges::any_of(std::views::iota(std::size_t{0}, size_), holds);
  }

  std::span<const Definition> members_;
  std::size_t size_;
  std::vector<bool> depends_;
};

/// Without the scan's order of steps, a definition must stand behind all that it reads.
void append_ordered(std::vector<Definition>& out, std::span<const Definition> members, const Dependences& dependences,
                    std::vector<std::size_t> chosen) {
  while (!chosen.empty()) {
    const auto next = std::ranges::find_if(chosen, [&](std::size_t k) {
      return std::ranges::none_of(chosen, [&](std::size_t other) { return dependences.on(k, other); });
    });
    out.push_back(members[*next]);
    out.back().scan.reset();
    chosen.erase(next);
  }
}

/// Returns whether a scan remains.
bool append_trimmed(std::vector<Definition>& out, std::span<const Definition> members, std::uint32_t number) {
  const Dependences dependences(members);
  std::vector<std::size_t> before, within, behind;
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (!dependences.needs_stepwise(k))
      before.push_back(k);
    else if (dependences.stays(k))
      within.push_back(k);
    else
      behind.push_back(k);
  }
  append_ordered(out, members, dependences, before);
  for (const std::size_t k : within) {
    out.push_back(members[k]);
    out.back().scan->number = number;
  }
  append_ordered(out, members, dependences, behind);
  return !within.empty();
}

}  // namespace

std::vector<std::span<const Definition>> groups_of(const Program& program) {
  const std::span<const Definition> all = program.definitions;
  std::vector<std::span<const Definition>> groups;
  for (std::size_t first = 0; first < all.size();) {
    std::size_t last = first + 1;
    while (last < all.size() && all[first].scan && all[last].scan == all[first].scan) ++last;
    groups.push_back(all.subspan(first, last - first));
    first = last;
  }
  return groups;
}

bool reads(const Definition& definition, std::string_view tensor) {
  bool found = false;
  visit(definition.body, [&](const Expr& e) { found = found || (e->kind == NodeKind::Access && e->tensor == tensor); });
  return found;
}

bool reads_scan(const Program& program, const Expr& expr, const Scan& scan) {
  bool found = false;
  visit(expr, [&](const Expr& e) {
    const Definition* read = e->kind == NodeKind::Access && !found ? program.find_definition(e->tensor) : nullptr;
    found |= read && read->scan == scan;
  });
  return found;
}

std::uint32_t last_scan(const Program& program) {
  std::uint32_t last = 0;
  for (const Definition& definition : program.definitions) {
    if (definition.scan) last = std::max(last, definition.scan->number);
  }
  return last;
}

std::string why_kept(const Program& program, const Definition& definition) {
  if (!definition.scan) return "it belongs to no scan";
  if (definition.output) return "it is an output";
  std::string reason;
  for (const Definition& reader : program.definitions) {
    visit(reader.body, [&](const Expr& e) {
      if (e->kind != NodeKind::Access || e->tensor != definition.name || e->subscripts.empty()) return;
      if (reader.scan != definition.scan)
        reason = fmt::format("`{}` reads it outside of the scan", reader.name);
      else if (e->subscripts[0] != Affine(Symbol::axis(0)))
        reason = fmt::format("`{}` reads it at another step", reader.name);
    });
  }
  return reason;
}

std::string spacing_problem(const Program& program, const Affine& every) {
  if (every.is_constant()) return every.constant() < 1 ? fmt::format("{} is none of them", every.constant()) : "";
  for (const auto& [symbol, coefficient] : every.terms()) {
    const DimDecl* dim = symbol.is_dim() ? program.find_dim(symbol.name()) : nullptr;
    if (!dim) return fmt::format("`{}` is no dim", symbol.is_dim() ? symbol.name() : "an index");
    if (dim->dynamic) return fmt::format("`{}` is a dynamic dim, which has no value until a run", dim->name);
  }
  return "";
}

Program leave_scans(const Program& program) {
  Program result = program;
  result.definitions.clear();
  std::uint32_t number = 1;
  for (const std::span<const Definition> group : groups_of(program)) {
    if (!group[0].scan)
      result.definitions.push_back(group[0]);
    else if (append_trimmed(result.definitions, group, number))
      ++number;
  }
  return result;
}

}  // namespace moxie
