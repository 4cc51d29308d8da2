#include "compiler/diff/ranged_elements.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "compiler/analysis/value_range.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

/// Nodes of a body that is written out where it is read, and reads of it.
constexpr std::size_t kMaxBodyNodes = 100, kMaxReadsOfIt = 8;

std::size_t reads_of(const Expr& body, const std::string& tensor) {
  std::size_t count = 0;
  visit(body, [&](const Expr& e) { count += e->kind == NodeKind::Access && e->tensor == tensor ? 1 : 0; });
  return count;
}

bool can_be_computed_again(const Definition& definition) {
  if (definition.output || definition.scan || definition.domain != ValueDomain{} || definition.axes.size() < 2 ||
      !is_stored_as_computed(definition.dtype))
    return false;
  std::size_t nodes = 0;
  bool possible = true;
  visit(definition.body, [&](const Expr& e) {
    ++nodes;
    possible &= e->kind != NodeKind::LinearAlgebra && e->kind != NodeKind::Random;
  });
  return possible && nodes <= kMaxBodyNodes;
}

/// Whether the body compares elements, or reads several: computed twice, an element may differ in its last bit.
bool needs_equal_elements(const Expr& body, const std::string& tensor) {
  bool compares = false;
  visit(body, [&](const Expr& e) {
    const bool is_truth = e->kind == NodeKind::Call && e->function->result == ResultType::Truth;
    compares |= is_truth && reads_of(e, tensor) > 0;
  });
  return compares || reads_of(body, tensor) > 1;
}

/// The bodies of readers with the elements of one definition in the place of reads in ranges by data.
class ElementsInRanges {
 public:
  ElementsInRanges(const Program& program, const Definition& definition) : program_(program), definition_(definition) {}

  Expr run(const Expr& body, DType dtype) {
    dtype_ = computed_dtype(dtype);
    return walk(body);
  }

 private:
  Expr walk(const Expr& expr) {
    if (expr->height == 0 || expr->kind == NodeKind::LinearAlgebra) return expr;
    if (expr->kind != NodeKind::Reduce) return map_children(expr, [&](const Expr& child) { return walk(child); });
    const OpenedReduce opened = open(expr);
    const std::vector<Expr> ends = ends_by_value(program_, opened);
    std::unordered_map<const Node*, Expr> done;
    return map_opened(expr, opened, [&](const Expr& child) {
      return ends.empty() ? walk(child) : with_elements(child, opened.index, ends, done);
    });
  }

  Expr with_elements(const Expr& expr, Symbol index, const std::vector<Expr>& ends,
                     std::unordered_map<const Node*, Expr>& done) const {
    if (const auto known = done.find(expr.get()); known != done.end()) return known->second;
    const bool is_read = expr->kind == NodeKind::Access && expr->tensor == definition_.name && expr->args.empty();
    Expr result = is_read && is_of_data_range(expr, index, ends)
                      ? element(expr)
                      : map_children(expr, [&](const Expr& child) { return with_elements(child, index, ends, done); });
    return done[expr.get()] = std::move(result);
  }

  Expr element(const Expr& access) const {
    const Expr body = substitute(definition_.body, axes_by_subscripts(access));
    return definition_.dtype == dtype_ ? body : call(to_string(definition_.dtype), {body});
  }

  const Program& program_;
  const Definition& definition_;
  DType dtype_ = DType::f32;
};

/// The Program without the definition, if ranges by data are all that reads it.
std::optional<Program> without(const Program& program, const Definition& definition) {
  std::size_t reads = 0;
  for (const Definition& reader : program.definitions) {
    reads += reads_of(reader.body, definition.name);
    if (program.precision != Precision::Fast && needs_equal_elements(reader.body, definition.name)) return std::nullopt;
  }
  if (reads == 0 || reads > kMaxReadsOfIt) return std::nullopt;
  Program result = program;
  std::erase_if(result.definitions, [&](const Definition& other) { return other.name == definition.name; });
  ElementsInRanges elements(program, definition);
  for (Definition& reader : result.definitions) {
    if (reads_of(reader.body, definition.name) == 0) continue;
    reader.body = elements.run(reader.body, reader.dtype);
    if (reader.scan || reads_of(reader.body, definition.name) > 0) return std::nullopt;
  }
  return result;
}

}  // namespace

Program compute_ranged_elements(const Program& program) {
  if (!has_integers(program)) return program;
  Program result = program;
  for (auto definition = program.definitions.rbegin(); definition != program.definitions.rend(); ++definition) {
    const Definition* now = result.find_definition(definition->name);
    if (auto shorter = now && can_be_computed_again(*now) ? without(result, *now) : std::nullopt)
      result = std::move(*shorter);
  }
  return result;
}

}  // namespace moxie
