#include "ops/slice.h"

#include <algorithm>
#include <unordered_map>

namespace moxie {
namespace {

class TensorRenaming {
 public:
  explicit TensorRenaming(const TensorNames& names) : names_(names) {}

  Expr operator()(const Expr& expr) {
    if (const auto it = done_.find(expr.get()); it != done_.end()) return it->second;
    return done_[expr.get()] = rebuild(expr);
  }

 private:
  Expr rebuild(const Expr& expr) {
    std::vector<Expr> args;
    for (const Expr& arg : expr->args) args.push_back((*this)(arg));
    if (expr->kind == NodeKind::Access) {
      const auto name = names_.find(expr->tensor);
      return tensor_access(name == names_.end() ? expr->tensor : name->second, expr->subscripts, std::move(args));
    }
    return args.empty() ? expr : with_args(expr, std::move(args));
  }

  const TensorNames& names_;
  std::unordered_map<const Node*, Expr> done_;
};

}  // namespace

std::set<std::string, std::less<>> sources_of(const Program& program, const std::vector<std::string>& tensors) {
  std::set<std::string, std::less<>> found(tensors.begin(), tensors.end());
  std::vector<std::string> open = tensors;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    const Definition* definition = program.find_definition(name);
    if (!definition) continue;
    visit(definition->body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access && found.insert(e->tensor).second) open.push_back(e->tensor);
    });
  }
  return found;
}

Program slice(const Program& program, const std::vector<std::string>& outputs) {
  const auto needed = sources_of(program, outputs);
  const auto is_idle = [&](const auto& tensor) { return !needed.contains(tensor.name); };
  Program result = program;
  std::erase_if(result.inputs, is_idle);
  std::erase_if(result.definitions, is_idle);
  for (InputDecl& input : result.inputs) input.role = InputRole::Data;
  for (InputDecl& input : result.inputs) input.start = {};
  for (Definition& definition : result.definitions) {
    definition.output = std::ranges::find(outputs, definition.name) != outputs.end();
    definition.role = OutputRole::Value;
  }
  return result;
}

Program renamed(Program program, const TensorNames& names) {
  TensorRenaming rename(names);
  for (Definition& definition : program.definitions) {
    if (const auto name = names.find(definition.name); name != names.end()) definition.name = name->second;
    definition.body = rename(definition.body);
  }
  return program;
}

}  // namespace moxie
