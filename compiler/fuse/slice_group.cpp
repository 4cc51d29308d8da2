#include "compiler/fuse/slice_group.h"

#include <algorithm>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// Adds the accesses of expressions, those below reductions with the indices of these opened.
class ReadCollector {
 public:
  explicit ReadCollector(OpenedReads& reads) : reads_(reads) {}

  void collect(const Expr& expr) {
    if (!seen_.insert(expr.get()).second) return;
    if (expr->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(expr);
      collect_opened(opened.body);
      if (opened.position) collect_opened(opened.position);
    } else if (expr->kind == NodeKind::LinearAlgebra) {
      const OpenedLinearAlgebra opened = open_algebra(expr);
      collect_opened(opened.matrix);
      if (opened.rhs) collect_opened(opened.rhs);
    } else {
      if (expr->kind == NodeKind::Access) reads_.accesses.push_back(expr);
      for (const Expr& arg : expr->args) collect(arg);
    }
  }

 private:
  void collect_opened(const Expr& expr) {
    kept_.push_back(expr);
    collect(expr);
  }

  OpenedReads& reads_;
  std::set<const Node*> seen_;
  std::vector<Expr> kept_;  // whose nodes seen_ knows: another node could take the address of a dead one
};

/// What stands inside the sums of the expression, if it is a sum or that times a number.
Expr open_sums(const Expr& expr, std::vector<Symbol>& summed) {
  if (expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum) {
    const OpenedReduce opened = open(expr);
    summed.push_back(opened.index);
    return open_sums(opened.body, summed);
  }
  const bool is_scaled =
      summed.empty() && is_call(expr, "*") && expr->args.size() == 2 && expr->args[0]->kind == NodeKind::Constant;
  return is_scaled ? open_sums(expr->args[1], summed) : expr;
}

OpenedReads opened_reads(const Definition& definition) {
  OpenedReads reads;
  const bool is_rounded_once = !is_stored_as_computed(definition.dtype);
  const Expr body = is_rounded_once ? definition.body : open_sums(definition.body, reads.summed);
  ReadCollector(reads).collect(body);
  return reads;
}

/// The axes of the definition that reads `access`, given those of what it reads.
std::optional<SlicedAxes> axes_of_reader(const Expr& access, const SlicedAxes& of_tensor, const OpenedReads& reads) {
  SlicedAxes axes;
  for (const auto& axis : of_tensor) {
    const auto symbol = axis ? access->subscripts[*axis].as_symbol() : std::nullopt;
    if (!symbol) return std::nullopt;
    if (symbol->kind() == Symbol::Kind::Axis)
      axes.emplace_back(symbol->number());
    else if (is_among(reads.summed, *symbol))
      axes.emplace_back(std::nullopt);
    else
      return std::nullopt;
  }
  return axes;
}

/// The axes of the tensor of `access`, given those of the definition that reads it.
std::optional<SlicedAxes> axes_of_tensor(const Expr& access, const SlicedAxes& of_reader) {
  SlicedAxes axes;
  for (const auto& axis : of_reader) {
    if (!axis) return std::nullopt;
    const auto place = std::ranges::find(access->subscripts, Affine(Symbol::axis(*axis)));
    if (place == access->subscripts.end()) return std::nullopt;
    axes.emplace_back(static_cast<std::uint32_t>(place - access->subscripts.begin()));
  }
  return axes;
}

/// Erases those of the tensors, which belong to no scan, that no definition reads.
void erase_unread(Program& program, const std::set<std::string>& tensors) {
  std::set<std::string> read;
  std::vector<Definition> kept;
  for (auto definition = program.definitions.rbegin(); definition != program.definitions.rend(); ++definition) {
    if (tensors.contains(definition->name) && !read.contains(definition->name)) continue;
    visit(definition->body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access) read.insert(e->tensor);
    });
    kept.push_back(std::move(*definition));
  }
  program.definitions.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

bool sums(const SlicedAxes& axes) {
  return std::ranges::any_of(axes, [](const auto& axis) { return !axis; });
}

}  // namespace

double typical_extent(const Affine& extent, const DimValues& extents) {
  return static_cast<double>(extent.evaluate([&](Symbol dim) { return extents.find(dim.name())->second; }));
}

double typical_bytes(const Definition& definition, const DimValues& extents) {
  auto bytes = static_cast<double>(bytes_of(definition.dtype));
  for (const AxisDecl& axis : definition.axes) bytes *= typical_extent(axis.extent, extents);
  return bytes;
}

SliceSearch::SliceSearch(const Program& program, const DimValues& extents) : program_(program), extents_(extents) {
  for (const Definition& definition : program.definitions) {
    reads_[definition.name] = opened_reads(definition);
    definitions_[definition.name] = &definition;
  }
}

const Definition* SliceSearch::find(const std::string& tensor) const {
  const auto found = definitions_.find(tensor);
  return found == definitions_.end() ? nullptr : found->second;
}

bool SliceSearch::reads(const std::string& definition, const std::string& tensor) const {
  const std::vector<Expr>& accesses = reads_.at(definition).accesses;
  return std::ranges::any_of(accesses, [&](const Expr& access) { return access->tensor == tensor; });
}

double SliceSearch::bytes_of(const std::string& tensor) const { return typical_bytes(*find(tensor), extents_); }

double SliceSearch::multiply_adds(const std::string& definition) const {
  const OpenedReads& reads = reads_.at(definition);
  double count = bytes_of(definition) / static_cast<double>(moxie::bytes_of(program_.dtype_of(definition)));
  for (const Symbol symbol : reads.summed) {
    double extent = 1;
    for (const Expr& access : reads.accesses) {
      const auto place = std::ranges::find(access->subscripts, Affine(symbol));
      if (place == access->subscripts.end()) continue;
      const auto axis = static_cast<std::size_t>(place - access->subscripts.begin());
      extent = std::max(extent, typical_extent(program_.shape_of(access->tensor)[axis], extents_));
    }
    count *= extent;
  }
  return count;
}

double SliceSearch::bytes_in_use(const SliceGroup& group) const {
  std::map<std::string, const Definition*> last_reader;
  for (const Definition& definition : program_.definitions) {
    for (const Expr& access : reads_.at(definition.name).accesses) {
      if (group.inside.contains(access->tensor)) last_reader[access->tensor] = &definition;
    }
  }
  double most = 0, now = 0;
  for (const Definition& definition : program_.definitions) {
    if (group.inside.contains(definition.name)) now += bytes_of(definition.name);
    most = std::max(most, now);
    for (const auto& [name, reader] : last_reader) {
      if (reader == &definition) now -= bytes_of(name);
    }
  }
  return most;
}

bool SliceSearch::is_large(const Definition& definition, double least) const {
  return !definition.output && !definition.scan && bytes_of(definition.name) >= least;
}

/// False where the definition has to be a member and cannot be.
bool SliceSearch::add_reader(SliceGroup& group, const Definition& definition, const Expr& access, bool& changed) const {
  const auto axes = axes_of_reader(access, group.members.at(access->tensor), reads_.at(definition.name));
  if (!axes || definition.scan) return false;
  const auto [known, is_new] = group.members.emplace(definition.name, *axes);
  changed |= is_new;
  return known->second == *axes;
}

/// Adds the readers of large members, and what is large of what members read. False where one of the readers can be no
/// member.
bool SliceSearch::grow(SliceGroup& group, double least, bool& changed) const {
  for (const Definition& definition : program_.definitions) {
    for (const Expr& access : reads_.at(definition.name).accesses) {
      const Definition* read = find(access->tensor);
      if (!read || !is_large(*read, least)) continue;
      if (group.members.contains(read->name)) {
        const bool is_sum = sums(group.members.at(read->name));
        if (!is_sum && !add_reader(group, definition, access, changed)) return false;
      } else if (const auto member = group.members.find(definition.name); member != group.members.end()) {
        const auto axes = axes_of_tensor(access, member->second);
        changed |= axes && group.members.emplace(read->name, *axes).second;
      }
    }
  }
  return true;
}

std::set<std::string> SliceSearch::before(const SliceGroup& group) const {
  std::set<std::string> names;
  std::set<std::uint32_t> scans;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto definition = program_.definitions.rbegin(); definition != program_.definitions.rend(); ++definition) {
      const bool is_member = group.members.contains(definition->name);
      const bool steps_along = definition->scan && scans.contains(definition->scan->number);
      if (steps_along && !is_member) changed |= names.insert(definition->name).second;
      if (!is_member && !names.contains(definition->name)) continue;
      if (definition->scan) changed |= scans.insert(definition->scan->number).second;
      for (const Expr& access : reads_.at(definition->name).accesses) {
        const bool is_other = find(access->tensor) && !group.members.contains(access->tensor);
        if (is_other) changed |= names.insert(access->tensor).second;
      }
    }
  }
  return names;
}

std::set<std::string> SliceSearch::after(const SliceGroup& group) const {
  std::set<std::string> names;
  for (bool changed = true; changed;) {
    changed = false;
    std::set<std::uint32_t> scans;
    for (const Definition& definition : program_.definitions) {
      if (definition.scan && names.contains(definition.name)) scans.insert(definition.scan->number);
    }
    for (const Definition& definition : program_.definitions) {
      if (group.members.contains(definition.name) || names.contains(definition.name)) continue;
      const bool follows = std::ranges::any_of(reads_.at(definition.name).accesses, [&](const Expr& access) {
        return group.members.contains(access->tensor) || names.contains(access->tensor);
      });
      if (follows || (definition.scan && scans.contains(definition.scan->number)))
        changed |= names.insert(definition.name).second;
    }
  }
  return names;
}

/// Adds what depends on members and is read by others. False where it can be no member.
bool SliceSearch::add_between(SliceGroup& group, bool& changed) const {
  const std::set<std::string> later = after(group);
  std::set<std::string> wanted;
  std::map<std::string, SlicedAxes> found;  // by a reader that does not sum over what is sliced
  for (const auto& [name, axes] : group.members) {
    for (const Expr& access : reads_.at(name).accesses) {
      if (!later.contains(access->tensor)) continue;
      wanted.insert(access->tensor);
      const auto of_tensor = axes_of_tensor(access, axes);
      if (of_tensor && !find(access->tensor)->scan) found.emplace(access->tensor, *of_tensor);
    }
  }
  for (const std::string& name : wanted) {
    if (!found.contains(name)) {
      group.obstacle = name;
      return false;
    }
  }
  changed |= !found.empty();
  group.members.merge(found);
  return true;
}

/// Whether every slice reads its own elements of what slices compute, and all of it is there by then.
bool SliceSearch::is_consistent(SliceGroup& group, const Definition& seed) const {
  const SlicedAxes& whole = group.members.at(seed.name);
  for (const auto& [name, axes] : group.members) {
    const Definition& definition = *find(name);
    std::set<std::uint32_t> different;
    for (std::size_t q = 0; q < axes.size(); ++q) {
      if (!axes[q]) continue;
      if (!different.insert(*axes[q]).second) return false;
      if (definition.axes[*axes[q]].extent != seed.axes[*whole[q]].extent) return false;
    }
    for (const Expr& access : reads_.at(name).accesses) {
      const auto read = group.members.find(access->tensor);
      if (read == group.members.end()) continue;
      const auto wanted = axes_of_reader(access, read->second, reads_.at(name));
      if (wanted == axes) continue;
      group.obstacle = access->tensor;
      return false;
    }
  }
  return true;
}

void SliceSearch::find_inside(SliceGroup& group) const {
  for (const auto& [name, axes] : group.members) {
    if (!sums(axes) && !find(name)->output) group.inside.insert(name);
  }
  for (const auto& [name, reads] : reads_) {
    if (group.members.contains(name)) continue;
    for (const Expr& access : reads.accesses) group.inside.erase(access->tensor);
  }
}

bool SliceSearch::grow_all(SliceGroup& group, const std::string& seed) const {
  // Tensors of half the size are worth as much: masks and parts of the largest one.
  const double least = bytes_of(seed) / 2;
  for (bool changed = true; changed;) {
    changed = false;
    if (!grow(group, least, changed)) return false;
    if (!changed && !add_between(group, changed)) return false;
  }
  return is_consistent(group, *find(seed));
}

std::optional<SliceGroup> SliceSearch::group(const std::string& seed, const std::vector<std::uint32_t>& axes) const {
  SliceGroup group;
  group.members[seed] = SlicedAxes(axes.begin(), axes.end());
  if (!grow_all(group, seed)) return std::nullopt;
  find_inside(group);
  if (!group.inside.contains(seed)) return std::nullopt;
  return group;
}

std::optional<Program> SliceSearch::recomputed(const std::string& seed, const std::vector<std::uint32_t>& axes) const {
  SliceGroup group;
  group.members[seed] = SlicedAxes(axes.begin(), axes.end());
  if (grow_all(group, seed) || group.obstacle.empty()) return std::nullopt;
  SliceGroup alone;
  alone.members[group.obstacle];
  const std::set<std::string> behind = after(alone);
  const double least = bytes_of(seed) / 2;
  std::map<std::string, std::string> copies;
  const auto read_copies = [&](const Expr& body) {
    return rewrite_bottom_up(body, {}, [&](const Expr& e, const Scope&) {
      const auto copy = e->kind == NodeKind::Access ? copies.find(e->tensor) : copies.end();
      return copy == copies.end() ? e : tensor_access(copy->second, e->subscripts, e->args);
    });
  };
  Program result = program_;
  result.definitions.clear();
  for (Definition definition : program_.definitions) {
    const bool is_behind = behind.contains(definition.name);
    if (is_behind) definition.body = read_copies(definition.body);
    result.definitions.push_back(definition);
    if (is_behind || !group.members.contains(definition.name) || !is_large(definition, least)) continue;
    Definition copy = definition;
    copy.name = unused_name(program_, definition.name + ".again");
    copy.body = read_copies(copy.body);
    copies[definition.name] = copy.name;
    result.definitions.push_back(std::move(copy));
  }
  std::set<std::string> tensors;
  for (const auto& [original, copy] : copies) tensors.insert({original, copy});
  erase_unread(result, tensors);
  const bool computes_twice = std::ranges::any_of(copies, [&](const auto& copied) {
    return result.find_definition(copied.first) && result.find_definition(copied.second);
  });
  return computes_twice ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace moxie
