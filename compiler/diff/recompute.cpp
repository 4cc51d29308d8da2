#include "compiler/diff/recompute.h"

#include <algorithm>
#include <map>

#include "compiler/diff/program_builder.h"
#include "compiler/program/scans.h"

namespace moxie {
namespace {

/// Copies that stand at one place, and their names by those of the originals.
struct Copies {
  std::vector<Definition> definitions;
  std::map<std::string, std::string> names;
};

class Copying {
 public:
  explicit Copying(const Program& program) : program_(program), names_(program) {}

  Program run() {
    std::vector<std::vector<Definition>> groups;
    for (const std::span<const Definition> group : groups_of(program_)) groups.push_back(with_copies(group));
    Program result = program_;
    result.definitions.clear();
    for (std::vector<Definition>& group : groups) {
      const std::optional<Scan> scan = group[0].scan;
      std::ranges::move(group, std::back_inserter(result.definitions));
      if (scan) std::ranges::move(behind_[scan->number].definitions, std::back_inserter(result.definitions));
    }
    return result;
  }

 private:
  std::vector<Definition> with_copies(std::span<const Definition> group) {
    Copies copies;
    std::vector<Definition> members(group.begin(), group.end());
    for (Definition& member : members) member.body = reading_copies(member.body, member.scan, copies);
    std::ranges::move(members, std::back_inserter(copies.definitions));
    return std::move(copies.definitions);
  }

  /// What `reader` reads, which is in the scan of the copies `here`, or in none.
  Expr reading_copies(const Expr& expr, const std::optional<Scan>& reader, Copies& here) {
    const Definition* original = expr->kind == NodeKind::Access ? program_.find_definition(expr->tensor) : nullptr;
    if (!original || !original->recomputed || original->scan == reader)
      return map_children(expr, [&](const Expr& child) { return reading_copies(child, reader, here); });
    const bool at_step = reader && expr->subscripts[0] == Affine(Symbol::axis(0));
    const std::string& name =
        at_step ? copy(*original, reader, here) : copy(*original, {}, behind_[original->scan->number]);
    return access_to(name, map_children(expr, [&](const Expr& value) { return reading_copies(value, reader, here); }));
  }

  const std::string& copy(const Definition& original, const std::optional<Scan>& scan, Copies& place) {
    const auto [it, is_new] = place.names.emplace(original.name, "");
    if (!is_new) return it->second;
    it->second = names_.free_name("again." + original.name);
    names_.reserve(it->second);
    Definition again = original;
    again.name = it->second;
    again.scan = scan;
    again.recomputed = scan.has_value();
    again.body = reading_copies(original.body, scan, place);
    place.definitions.push_back(std::move(again));
    return it->second;
  }

  const Program& program_;
  ProgramBuilder names_;
  std::map<std::uint32_t, Copies> behind_;  // by the number of the originals' scan
};

}  // namespace

Program with_recomputed_copies(const Program& program) { return Copying(program).run(); }

}  // namespace moxie
