#include "compiler/program/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/expression/other_nodes.h"
#include "compiler/expression/quotients.h"
#include "compiler/program/declared_extents.h"
#include "compiler/program/scans.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

using TensorNames = std::map<std::string, std::string, std::less<>>;

const std::string& bound_tensor(const Program& op, const InputDecl& input, const Inclusion& how) {
  const auto it = how.inputs.find(input.name);
  if (it == how.inputs.end()) {
    throw TypeError(fmt::format("'{}' cannot be included as '{}': its input '{}' is not bound to a tensor", op.name,
                                how.prefix, input.name));
  }
  return it->second;
}

/// Whether there are quotients, whose divisors are the values that dims have.
bool divides_indices(const Program& op) {
  bool divides = false;
  for (const Definition& definition : op.definitions) {
    visit(definition.body, [&](const Expr& e) { divides |= e->kind == NodeKind::Reduce && as_quotient(e->range); });
  }
  return divides;
}

/// The dims of an included Program as expressions in those of the surrounding one.
class DimMap {
 public:
  DimMap(const Program& op, const Inclusion& how) : op_(op), how_(how), dims_(how.dims) {
    for (const auto& [name, value] : how.dims) {
      if (!op.find_dim(name)) throw TypeError(fmt::format("'{}' has no dim '{}' to be bound", op.name, name));
    }
    for (const DimDecl& dim : op.dims) {
      if (!dim.value) continue;
      const auto [bound, added] = dims_.try_emplace(dim.name, *dim.value);
      if (!added && bound->second != Affine(*dim.value) && divides_indices(op)) {
        throw ShapeError(fmt::format("'{}' divides indices by its dims: {} is {} and cannot be bound to {}", op.name,
                                     dim.name, *dim.value, print(bound->second)));
      }
    }
  }

  /// Matches the shape of an input with that of the tensor it is bound to. An extent that is one unknown dim defines
  /// that dim.
  void match(const InputDecl& input, const std::string& tensor, const std::vector<Affine>& shape) {
    if (shape.size() != input.shape.size()) throw_mismatch(input, tensor, shape);
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const std::optional<Symbol> symbol = input.shape[k].as_symbol();
      if (symbol && !dims_.contains(symbol->name())) dims_.emplace(symbol->name(), shape[k]);
    }
    for (std::size_t k = 0; k < shape.size(); ++k) {
      if (apply(input.shape[k]) != shape[k]) throw_mismatch(input, tensor, shape);
    }
  }

  Replacement replacement() const {
    Replacement result;
    for (const DimDecl& dim : op_.dims) {
      const auto it = dims_.find(dim.name);
      if (it == dims_.end()) {
        throw ShapeError(fmt::format("'{}' cannot be included as '{}': no input shows its dim '{}'; bind it", op_.name,
                                     how_.prefix, dim.name));
      }
      result.emplace_back(Symbol::dim(dim.name), it->second);
    }
    return result;
  }

 private:
  Affine apply(const Affine& extent) const {
    return extent.substitute([&](Symbol symbol) -> const Affine* {
      const auto it = symbol.is_dim() ? dims_.find(symbol.name()) : dims_.end();
      return it == dims_.end() ? nullptr : &it->second;
    });
  }

  [[noreturn]] void throw_mismatch(const InputDecl& input, const std::string& tensor,
                                   const std::vector<Affine>& shape) const {
    std::vector<Affine> wanted;
    for (const Affine& extent : input.shape) wanted.push_back(apply(extent));
    throw ShapeError(fmt::format("input '{}' of '{}' has shape {}, here {}, but tensor '{}' that is bound to it has {}",
                                 input.name, op_.name, shape_text(input.shape), shape_text(wanted), tensor,
                                 shape_text(shape)));
  }

  const Program& op_;
  const Inclusion& how_;
  std::map<std::string, Affine, std::less<>> dims_;
};

Replacement match_dims(const Program& into, const Program& op, const Inclusion& how) {
  DimMap dims(op, how);
  for (const InputDecl& input : op.inputs) {
    const std::string& tensor = bound_tensor(op, input, how);
    dims.match(input, tensor, into.shape_of(tensor));
  }
  return dims.replacement();
}

TensorNames rename_tensors(const Program& into, const Program& op, const Inclusion& how) {
  TensorNames names = how.inputs;
  for (const auto& [name, tensor] : how.inputs) {
    if (!op.find_input(name))
      throw TypeError(fmt::format("'{}' has no input '{}' to be bound to '{}'", op.name, name, tensor));
  }
  for (const auto& [name, output] : how.outputs) {
    if (!op.find_definition(name))
      throw TypeError(fmt::format("'{}' defines no '{}' to become output '{}'", op.name, name, output));
  }
  for (const Definition& definition : op.definitions) {
    const auto output = how.outputs.find(definition.name);
    const std::string name = output == how.outputs.end() ? how.prefix + definition.name : output->second;
    if (into.find_input(name) || into.find_definition(name)) {
      throw TypeError(fmt::format("'{}' cannot be included as '{}': '{}' exists already", op.name, how.prefix, name));
    }
    names[definition.name] = name;
  }
  return names;
}

/// The tensors that the outputs of `op` are made of, and these.
std::set<std::string, std::less<>> needed_tensors(const Program& op, const Inclusion& how) {
  std::set<std::string, std::less<>> needed;
  for (auto definition = op.definitions.rbegin(); definition != op.definitions.rend(); ++definition) {
    if (definition->output || how.outputs.contains(definition->name)) needed.insert(definition->name);
    if (!needed.contains(definition->name)) continue;
    visit(definition->body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access) needed.insert(e->tensor);
    });
  }
  return needed;
}

bool mentions(const Program& op, Symbol dim) {
  const auto in_shape = [&](const Affine& extent) { return extent.mentions(dim); };
  const auto in_definition = [&](const Definition& definition) {
    return std::ranges::any_of(definition.axes, in_shape, &AxisDecl::extent) || definition.body->depends_on(dim);
  };
  return std::ranges::any_of(op.inputs,
                             [&](const InputDecl& input) { return std::ranges::any_of(input.shape, in_shape); }) ||
         std::ranges::any_of(op.definitions, in_definition);
}

/// The smallest number above those of all random streams.
std::int64_t next_stream(const Program& program) {
  std::int64_t next = 0;
  for (const Definition& definition : program.definitions) {
    visit(definition.body, [&](const Expr& e) {
      if (e->kind == NodeKind::Random) next = std::max(next, e->stream + 1);
    });
  }
  return next;
}

/// Renames tensors and moves random streams.
OtherNodes renaming(const TensorNames& names, std::int64_t first_stream) {
  return OtherNodes([&names, first_stream](const Expr& node, std::vector<Expr> args) {
    if (node->kind == NodeKind::Random) return random(node->random, node->stream + first_stream, node->subscripts);
    if (node->kind == NodeKind::Access)
      return tensor_access(names.find(node->tensor)->second, node->subscripts, std::move(args));
    return with_args(node, std::move(args));
  });
}

}  // namespace

Program with_bound_definitions(Program op, const Inclusion& how) {
  const auto is_bound = [&](const auto& item) { return how.inputs.contains(item.name); };
  if (std::ranges::none_of(op.definitions, is_bound)) return op;
  for (const Definition& definition : op.definitions) {
    if (!is_bound(definition)) continue;
    op.inputs.push_back({definition.name, definition.dtype, op.shape_of(definition.name), definition.domain});
  }
  std::erase_if(op.definitions, is_bound);
  const auto needed = needed_tensors(op, how);
  std::erase_if(op.definitions, [&](const Definition& definition) { return !needed.contains(definition.name); });
  std::erase_if(op.inputs, [&](const InputDecl& input) { return !needed.contains(input.name) && !is_bound(input); });
  std::erase_if(op.dims, [&](const DimDecl& dim) { return !mentions(op, Symbol::dim(dim.name)); });
  return op;
}

void include(Program& into, const Program& given, const Inclusion& how) {
  const Program op = with_bound_definitions(given, how);
  const Replacement dims = match_dims(into, op, how);
  const TensorNames names = rename_tensors(into, op, how);
  OtherNodes rename = renaming(names, next_stream(into));
  const auto lookup = [&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(dims, symbol, &std::pair<Symbol, Affine>::first);
    return it == dims.end() ? nullptr : &it->second;
  };
  const std::uint32_t scans = last_scan(into);
  for (Definition definition : op.definitions) {
    if (definition.scan) {
      definition.scan->number += scans;
      definition.scan->substitute(lookup);
    }
    definition.output = how.outputs.contains(definition.name);
    definition.role = OutputRole::Value;
    definition.name = names.find(definition.name)->second;
    if (definition.dtype == op.default_dtype) definition.dtype = into.default_dtype;
    definition.line = 0;
    for (AxisDecl& axis : definition.axes) {
      axis.extent = axis.extent.substitute(lookup);
      axis.range = axis.range.substitute(lookup);
    }
    definition.body = substitute(rename(definition.body), dims);
    into.definitions.push_back(std::move(definition));
  }
}

}  // namespace moxie
