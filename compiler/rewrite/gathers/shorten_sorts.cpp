#include <algorithm>
#include <map>
#include <string>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// How many times as long a row must be as what is read of it. A sorting network for 1024 elements compares 0.65 times
/// as many pairs for the first 128 of them as for all, and 0.29 times as many for the first 16.
constexpr std::int64_t kShortened = 8;

/// A sort whose result no caller sees: the axis of its elements, and how many of them some definition reads.
struct Shortened {
  std::uint32_t axis;
  std::int64_t size;
  std::int64_t read = 0;
};
using ShortenedSorts = std::map<std::string, Shortened, std::less<>>;

ShortenedSorts sorts_of(const Program& program) {
  ShortenedSorts sorts;
  for (const Definition& definition : program.definitions) {
    const Expr& body = definition.body;
    const bool is_sort = body->kind == NodeKind::LinearAlgebra && body->algebra == LinearAlgebraKind::ArgSort;
    if (!is_sort || definition.output || !body->size.rows.is_constant()) continue;
    const auto element = body->subscripts[0].as_symbol();
    if (element && element->kind() == Symbol::Kind::Axis)
      sorts[definition.name] = {element->number(), body->size.rows.constant()};
  }
  return sorts;
}

void count_reads(const Definition& reader, ShortenedSorts& sorts) {
  rewrite_bottom_up(reader.body, Scope::of(reader), [&](const Expr& expr, const Scope& scope) {
    const auto found = expr->kind == NodeKind::Access ? sorts.find(expr->tensor) : sorts.end();
    if (found == sorts.end()) return expr;
    Shortened& sort = found->second;
    const auto last = largest_value(expr->subscripts[sort.axis], scope);
    sort.read = std::max(sort.read, last ? *last + 1 : sort.size);
    return expr;
  });
}

}  // namespace

Program shorten_sorts(const Program& program) {
  ShortenedSorts sorts = sorts_of(program);
  if (sorts.empty()) return program;
  for (const Definition& definition : program.definitions) count_reads(definition, sorts);
  Program result = program;
  for (Definition& definition : result.definitions) {
    const auto found = sorts.find(definition.name);
    if (found == sorts.end() || found->second.read < 1 || found->second.read > found->second.size / kShortened)
      continue;
    AxisDecl& axis = definition.axes[found->second.axis];
    axis.extent = found->second.read;
    axis.range = Range::extent(axis.extent);
  }
  return result;
}

}  // namespace moxie
