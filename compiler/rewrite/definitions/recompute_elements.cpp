#include <algorithm>
#include <map>
#include <set>

#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/definitions/recompute_cost.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/library_matrix.h"
#include "compiler/rewrite/patterns/library_product.h"
#include "compiler/rewrite/patterns/ordered_sum.h"
#include "compiler/rewrite/sums/split_pair_sums.h"

namespace moxie {
namespace {

/// Tensors of so many times the elements of what must be in memory are not in a cache when they are read.
constexpr double kUncachedFactor = 4;

using Names = std::set<std::string>;

bool runs_over_all(const AxisDecl& axis) { return has_fixed_extent(axis.range) && is_dense(axis); }

/// Sums over short ranges, such as a squared distance of points in a plane, are as cheap as other arithmetic.
bool has_cheap_elements(const Definition& definition) {
  if (definition.output || definition.scan || !is_stored_as_computed(definition.dtype)) return false;
  if (!std::ranges::all_of(definition.axes, runs_over_all)) return false;
  bool possible = true;
  visit(definition.body, [&](const Expr& e) {
    possible &= e->kind != NodeKind::LinearAlgebra && e->kind != NodeKind::Random && !reads_by_value(e);
    if (e->kind == NodeKind::Reduce) possible &= known_extent(e->range) && !is_long(e->range);
  });
  return possible && cost(definition.body) <= most_recomputed(definition);
}

/// Whether the access is at one index of the surroundings for each axis, no two of them the same, and what it does not
/// mention is short and has no short loop inside that it mentions: the loops over long ranges can stand outside then,
/// and nothing is computed twice.
bool is_read_in_place(const Expr& access, const Scope& scope) {
  if (reads_by_value(access)) return false;
  std::vector<Symbol> indices;
  for (const Affine& subscript : access->subscripts) {
    const auto index = subscript.as_symbol();
    if (!index || !scope.find(*index) || is_among(indices, *index)) return false;
    indices.push_back(*index);
  }
  bool inside_others = false;
  for (const auto& [index, range] : scope.open) {
    const bool is_mentioned = is_among(indices, index);
    if (is_mentioned ? inside_others && !is_long(range) : is_long(range)) return false;
    inside_others |= !is_mentioned;
  }
  return true;
}

/// Tensors that are read from memory: by libraries, as keys that are sorted, and at elements of other loops than those
/// in which they could be computed.
class ReadFromMemory {
 public:
  explicit ReadFromMemory(const Program& program) : algebra_(program) {
    for (const Definition& definition : program.definitions) {
      const bool by_library = has_library_matrix(definition) || library_product(algebra_, program, definition);
      if (by_library || definition.scan || is_sorted(definition))
        add_all(definition.body);
      else
        add_others(definition);
    }
  }
  Names take() { return std::move(names_); }

 private:
  bool is_sorted(const Definition& definition) const {
    bool found = false;
    rewrite_bottom_up(definition.body, Scope::of(definition), [&](const Expr& e, const Scope& scope) {
      found |= e->kind == NodeKind::Reduce && ordered_sum(algebra_, e, scope);
      return e;
    });
    return found;
  }

  void add_all(const Expr& body) {
    visit(body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access) names_.insert(e->tensor);
    });
  }

  void add_others(const Definition& definition) {
    std::map<std::string, Expr> element;
    rewrite_bottom_up(definition.body, Scope::of(definition), [&](const Expr& e, const Scope& scope) {
      if (e->kind == NodeKind::Access && !is_read_in_place(e, scope)) names_.insert(e->tensor);
      return e;
    });
    visit(definition.body, [&](const Expr& e) {
      if (e->kind != NodeKind::Access) return;
      const auto [first, is_new] = element.try_emplace(e->tensor, e);
      if (!is_new && first->second->subscripts != e->subscripts) names_.insert(e->tensor);
    });
  }

  const Algebra algebra_;
  Names names_;
};

/// The body with the elements of the definitions computed in the place of being read, in the normal form for the
/// indices there: the distances of all pairs of points are the same for their first and for their second points.
Expr with_elements(const Algebra& algebra, const Expr& body, const std::map<std::string, const Definition*>& computed,
                   DType dtype) {
  return rewrite_bottom_up(body, {}, [&](const Expr& e, const Scope&) -> Expr {
    const auto found = e->kind == NodeKind::Access ? computed.find(e->tensor) : computed.end();
    if (found == computed.end()) return e;
    const Definition& producer = *found->second;
    const Expr element = algebra.normalise(substitute(producer.body, axes_by_subscripts(e)));
    return producer.dtype == computed_dtype(dtype) ? element : call(to_string(producer.dtype), {element});
  });
}

double room_of(const Program& program, const Names& stored) {
  double largest = largest_tensor(program);
  for (const Definition& definition : program.definitions) {
    if (stored.contains(definition.name)) largest = std::max(largest, assumed_size(definition.axes));
  }
  return kUncachedFactor * largest;
}

/// The definitions as `program` has them, with the elements of those called `names` computed in the place of being
/// read.
Program with_elements(const Program& program, const Names& names) {
  const Algebra algebra(program);
  std::map<std::string, const Definition*> computed;
  Program result = program;
  for (Definition& definition : result.definitions) {
    definition.body = with_elements(algebra, definition.body, computed, definition.dtype);
    if (names.contains(definition.name)) computed.emplace(definition.name, &definition);
  }
  return result;
}

/// Definitions that no reader needs in memory, and whose elements are cheap together with those that they are made of.
Names recomputed(const Program& program) {
  Names stored = ReadFromMemory(program).take();
  for (const Definition& definition : program.definitions) {
    if (!has_cheap_elements(definition)) stored.insert(definition.name);
  }
  const double room = room_of(program, stored);
  const Algebra algebra(program);
  Names names;
  std::map<std::string, const Definition*> computed;
  Program result = program;
  for (Definition& definition : result.definitions) {
    definition.body = with_elements(algebra, definition.body, computed, definition.dtype);
    if (stored.contains(definition.name) || assumed_size(definition.axes) <= room ||
        cost(definition.body) > most_recomputed(definition))
      continue;
    computed.emplace(definition.name, &definition);
    names.insert(definition.name);
  }
  return names;
}

}  // namespace

Program recompute_elements(const Program& program) {
  const Names names = recomputed(program);
  return names.empty() ? program : drop_unused(with_elements(split_pair_sums(program, names), names));
}

}  // namespace moxie
