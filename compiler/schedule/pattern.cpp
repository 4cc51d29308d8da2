#include "compiler/schedule/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "compiler/loop/lower.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// How a tensor lies in memory, as text.
std::string storage_text(const FusedProgram& fused, const std::string& tensor) {
  const BufferDecl buffer = declare_buffer(fused, tensor);
  std::string text = to_string(buffer.dtype);
  for (const Affine& extent : buffer.shape) text += fmt::format("[{}]", print(extent));
  for (const std::uint32_t axis : buffer.layout) text += fmt::format(" {}", axis);
  return text;
}

}  // namespace

Pattern pattern_of(const FusedProgram& fused, const Definition& definition) {
  std::map<std::string, std::string> names;       // of the tensors that are read
  std::map<std::string, std::size_t> of_storage;  // how many of them lie in memory alike
  visit(definition.body, [&](const Expr& e) {
    if (e->kind != NodeKind::Access || names.contains(e->tensor)) return;
    const std::string storage = storage_text(fused, e->tensor);
    names[e->tensor] = fmt::format("{} of {}", of_storage[storage]++, storage);
  });
  // Operands stand in the order of their names, which are others now.
  const Expr body = rewrite_bottom_up(definition.body, {}, [&](const Expr& e, const Scope&) {
    if (e->kind == NodeKind::Access) return access_to(names.at(e->tensor), e);
    if (!is_call(e, "+") && !is_call(e, "*")) return e;
    std::vector<Expr> operands = e->args;
    std::ranges::sort(operands, precedes);
    return with_args(e, std::move(operands));
  });
  return {storage_text(fused, definition.name), definition.axes, definition.scan.has_value(), body};
}

}  // namespace moxie
