#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "compiler/rewrite/algebra.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

bool same_content(const Definition& a, const Definition& b) {
  const auto same_axis = [](const AxisDecl& x, const AxisDecl& y) { return x.extent == y.extent && x.range == y.range; };
  return a.body == b.body && a.dtype == b.dtype && std::ranges::equal(a.axes, b.axes, same_axis);
}

/// Axis k of a definition is axis order[k] of another.
using AxisOrder = std::vector<std::uint32_t>;

AxisOrder same_order(std::size_t rank) {
  AxisOrder order(rank);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

/// A definition that stands for another: x[i,j] is tensor[j,i] for the order {1, 0}.
struct Twin {
  std::string tensor;
  AxisOrder order;

  Expr access_at(const std::vector<Affine>& subscripts) const {
    std::vector<Affine> ordered(subscripts.size());
    for (std::size_t k = 0; k < order.size(); ++k) ordered[order[k]] = subscripts[k];
    return tensor_access(tensor, std::move(ordered));
  }
};

Expr rename_accesses(const Expr& expr, const std::map<std::string, Twin>& twins) {
  return rewrite_bottom_up(expr, {}, [&](const Expr& e, const Scope&) {
    if (e->kind != NodeKind::Access) return e;
    const auto it = twins.find(e->tensor);
    return it == twins.end() ? e : it->second.access_at(e->subscripts);
  });
}

/// Finds sums that are equal up to the order of their axes, such as those over a symmetric body that two gradients need.
class SumTwins {
 public:
  explicit SumTwins(const Program& program) : program_(program) {}

  std::optional<Twin> find(const Definition& definition) {
    if (definition.body->kind != NodeKind::Reduce || definition.scan || definition.axes.size() > kMostAxes) return std::nullopt;
    const Expr form = resolved(definition.body);
    const std::uint64_t shape = shape_of(form);
    AxisOrder order = same_order(definition.axes.size());
    do {
      const Expr reordered = in_order(form, order);
      for (const Candidate& c : candidates_) {
        if (c.shape == shape && fits(definition, *c.definition, order) && normal(reordered, *c.definition) == c.form) return Twin{c.definition->name, order};
      }
    } while (std::ranges::next_permutation(order).found);
    return std::nullopt;
  }

  /// `definition` must stay where it is.
  void add(const Definition& definition) {
    if (definition.scan) return;
    if (definition.body->kind == NodeKind::Reduce) {
      const Expr form = resolved(definition.body);
      candidates_.push_back({&definition, normal(form, definition), shape_of(form)});
    } else if (is_element_wise(definition.body)) {
      element_wise_.emplace(definition.name, resolved(definition.body));
    }
  }

 private:
  static constexpr std::size_t kMostAxes = 4;
  struct Candidate {
    const Definition* definition;
    Expr form;
    std::uint64_t shape;
  };

  static bool is_element_wise(const Expr& body) {
    bool result = true;
    visit(body, [&](const Expr& e) { result &= e->kind != NodeKind::Reduce && e->kind != NodeKind::LinearAlgebra && e->kind != NodeKind::Random; });
    return result;
  }

  /// Element-wise definitions are read as what they stand for.
  Expr resolved(const Expr& body) const {
    return rewrite_bottom_up(body, {}, [&](const Expr& e, const Scope&) {
      const auto it = e->kind == NodeKind::Access ? element_wise_.find(e->tensor) : element_wise_.end();
      if (it == element_wise_.end()) return e;
      Replacement replacement;
      for (std::uint32_t k = 0; k < e->subscripts.size(); ++k) replacement.emplace_back(Symbol::axis(k), e->subscripts[k]);
      return substitute(it->second, replacement);
    });
  }

  static Expr in_order(const Expr& form, const AxisOrder& order) {
    Replacement replacement;
    for (std::uint32_t k = 0; k < order.size(); ++k) replacement.emplace_back(Symbol::axis(k), Symbol::axis(order[k]));
    return substitute(form, replacement);
  }

  Expr normal(const Expr& form, const Definition& where) const {
    Surroundings around{program_, IndexDomain({})};
    for (std::uint32_t k = 0; k < where.axes.size(); ++k) around.domain.add_range(Symbol::axis(k), where.axes[k].range);
    return normalise(form, &around);
  }

  static bool fits(const Definition& a, const Definition& b, const AxisOrder& order) {
    if (a.dtype != b.dtype || a.axes.size() != b.axes.size()) return false;
    std::vector<Affine> axes(order.begin(), order.end());
    for (std::size_t k = 0; k < order.size(); ++k) axes[k] = Affine(Symbol::axis(order[k]));
    const auto renamed = [&](Symbol symbol) { return symbol.kind() == Symbol::Kind::Axis ? &axes.at(symbol.number()) : nullptr; };
    for (std::size_t k = 0; k < order.size(); ++k) {
      const AxisDecl& other = b.axes[order[k]];
      if (a.axes[k].extent != other.extent || a.axes[k].range.substitute(renamed) != other.range) return false;
    }
    return true;
  }

  /// Equal for forms that differ in the order of axes and operands only.
  static std::uint64_t shape_of(const Expr& expr) {
    std::uint64_t nodes = 0, accesses = 0;
    visit(expr, [&](const Expr& e) {
      ++nodes;
      if (e->kind == NodeKind::Access) accesses += std::hash<std::string>()(e->tensor);
    });
    return nodes * 0x9E3779B97F4A7C15u + accesses;
  }

  const Program& program_;
  std::vector<Candidate> candidates_;
  std::map<std::string, Expr> element_wise_;
};

}  // namespace

Program share_definitions(const Program& program) {
  Program result = program;
  result.definitions.clear();
  result.definitions.reserve(program.definitions.size());  // SumTwins points at them
  std::map<std::string, Twin> twins;
  SumTwins sums(program);
  for (Definition definition : program.definitions) {
    definition.body = rename_accesses(definition.body, twins);
    const bool is_copy = definition.output && definition.body->kind == NodeKind::Access;
    const auto equal = std::ranges::find_if(result.definitions, [&](const Definition& d) { return same_content(d, definition); });
    std::optional<Twin> twin = sums.find(definition);
    if (equal != result.definitions.end()) twin = Twin{equal->name, same_order(definition.axes.size())};
    if (twin && !is_copy) {
      twins[definition.name] = *twin;
      if (!definition.output) continue;
      std::vector<Affine> subscripts;
      for (std::uint32_t k = 0; k < definition.axes.size(); ++k) subscripts.emplace_back(Symbol::axis(k));
      definition.body = twin->access_at(subscripts);
    }
    result.definitions.push_back(std::move(definition));
    sums.add(result.definitions.back());
  }
  // In a scan, definitions read those below them too.
  for (Definition& definition : result.definitions) definition.body = rename_accesses(definition.body, twins);
  return result;
}

}  // namespace moxie
