#include "tests/property/minimise.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/expression/functions.h"
#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "tests/property/random_expr.h"

namespace moxie::test {
namespace {

using Candidates = std::vector<Sample>;

bool is_truth(const Expr& expr) { return expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth; }

bool is_valid(const Sample& sample) {
  try {
    verify(sample.program);
    verify(specialise(sample.program, static_dims(sample)));
    return !sample.program.definitions.empty();
  } catch (const Error&) {
    return false;
  }
}

/// What may stand for `expr`: its parts, with the indices of a loop at their first value, and constants.
std::vector<Expr> simpler(const Expr& expr) {
  std::vector<Expr> result;
  if (!is_truth(expr)) result = {Expr(0), Expr(1), Expr(0.5)};
  if (expr->kind == NodeKind::Reduce) {
    const OpenedReduce opened = open(expr);
    for (const Bound& low : opened.range.lows) result.push_back(substitute(opened.body, {{opened.index, low.value}}));
    for (const Bound& high : opened.range.highs)
      result.push_back(substitute(opened.body, {{opened.index, high.value}}));
    result.push_back(reduce(expr->reduce, opened.index, Range::half_open(0, 2), opened.body, opened.position));
    if (expr->reduce != ReduceKind::Sum)
      result.push_back(reduce(ReduceKind::Sum, opened.index, opened.range, opened.body));
  } else if (expr->kind == NodeKind::LinearAlgebra) {
    const OpenedLinearAlgebra opened = open_algebra(expr);
    result.push_back(substitute(opened.matrix, {{opened.row, Affine(0)}, {opened.col, Affine(0)}}));
  } else {
    for (const Expr& arg : expr->args) {
      if (is_truth(arg) == is_truth(expr)) result.push_back(arg);
    }
    if (expr->kind == NodeKind::Call && expr->args.size() > 2 && expr->function->arity < 0) {
      for (std::size_t k = 0; k < expr->args.size(); ++k) {
        std::vector<Expr> fewer = expr->args;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
        result.push_back(with_args(expr, fewer));
      }
    }
  }
  std::erase_if(result, [&](const Expr& e) { return e == expr; });
  return result;
}

/// Replaces the node that is visited as number `position` by its alternative number `which`. Afterwards `position` is
/// below 0 if there is such a node, and `which` if there is such an alternative.
Expr replace_node(const Expr& expr, int& position, int& which) {
  if (position < 0) return expr;
  if (position-- == 0) {
    const std::vector<Expr> alternatives = simpler(expr);
    if (which >= static_cast<int>(alternatives.size())) return expr;
    return alternatives[static_cast<std::size_t>(std::exchange(which, -1))];
  }
  return map_children(expr, [&](const Expr& child) { return replace_node(child, position, which); });
}

Sample without_unused(Sample sample) {
  sample.program = drop_unused(sample.program);
  const auto is_read = [&](const InputDecl& input) {
    return std::ranges::any_of(sample.program.definitions, [&](const Definition& definition) {
      bool found = false;
      visit(definition.body, [&](const Expr& e) { found |= e->kind == NodeKind::Access && e->tensor == input.name; });
      return found;
    });
  };
  std::erase_if(sample.program.inputs, [&](const InputDecl& input) { return !is_read(input); });
  return sample;
}

Expr without_subscript(const Expr& expr, const std::string& tensor, std::size_t axis) {
  const Expr inner = map_children(expr, [&](const Expr& child) { return without_subscript(child, tensor, axis); });
  if (inner->kind != NodeKind::Access || inner->tensor != tensor) return inner;
  std::vector<Affine> subscripts = inner->subscripts;
  subscripts.erase(subscripts.begin() + static_cast<std::ptrdiff_t>(axis));
  return tensor_access(tensor, subscripts);
}

/// The axis is fixed at 0 and no longer there.
Sample without_axis(Sample sample, const std::string& tensor, std::size_t axis) {
  for (Definition& definition : sample.program.definitions)
    definition.body = without_subscript(definition.body, tensor, axis);
  const auto offset = static_cast<std::ptrdiff_t>(axis);
  for (InputDecl& input : sample.program.inputs) {
    if (input.name == tensor) input.shape.erase(input.shape.begin() + offset);
  }
  Definition* definition = sample.program.find_definition(tensor);
  if (!definition) return sample;
  Replacement shift = {{Symbol::axis(static_cast<std::uint32_t>(axis)), Affine(0)}};
  for (auto k = static_cast<std::uint32_t>(axis) + 1; k < definition->axes.size(); ++k)
    shift.emplace_back(Symbol::axis(k), Symbol::axis(k - 1));
  const auto lookup = [&](Symbol s) -> const Affine* {
    const auto it = std::ranges::find(shift, s, &std::pair<Symbol, Affine>::first);
    return it == shift.end() ? nullptr : &it->second;
  };
  definition->body = substitute(definition->body, shift);
  definition->axes.erase(definition->axes.begin() + offset);
  for (AxisDecl& a : definition->axes) a.range = a.range.substitute(lookup);
  return sample;
}

/// The definition's tensor as an input.
Sample with_input_for(Sample sample, std::size_t position) {
  const Definition definition = sample.program.definitions[position];
  InputDecl input{definition.name, definition.dtype, {}, ValueDomain::Any};
  for (const AxisDecl& axis : definition.axes) input.shape.push_back(axis.extent);
  sample.program.definitions.erase(sample.program.definitions.begin() + static_cast<std::ptrdiff_t>(position));
  sample.program.inputs.push_back(input);
  return sample;
}

class Minimiser {
 public:
  Minimiser(Sample sample, const std::function<bool(const Sample&)>& fails) : best_(std::move(sample)), fails_(fails) {}

  Sample run() {
    while (budget_ > 0 &&
           (fewer_tensors() || smaller_dims() || fewer_axes() || simpler_bodies() || simpler_declarations())) {
    }
    return best_;
  }

 private:
  bool accept(Sample candidate) {
    candidate = without_unused(std::move(candidate));
    for (Definition& definition : candidate.program.definitions) definition.body = with_plain_numbers(definition.body);
    if (candidate.program == best_.program && candidate.dims == best_.dims) return false;
    if (budget_ <= 0 || !is_valid(candidate)) return false;
    --budget_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool fewer_tensors() {
    bool smaller = accept(best_);
    for (std::size_t k = best_.program.definitions.size(); k-- > 0;) {
      if (k >= best_.program.definitions.size()) continue;
      Sample hidden = best_;
      hidden.program.definitions[k].output = false;
      smaller |= accept(hidden);
      if (k >= best_.program.definitions.size()) continue;
      smaller |= accept(with_input_for(best_, k));
    }
    return smaller;
  }

  bool smaller_dims() {
    bool smaller = false;
    for (const auto& [name, value] : DimValues(best_.dims)) {
      for (const std::int64_t next : {std::int64_t{1}, std::int64_t{2}, value / 2, value - 1}) {
        if (next >= value || next < 1) continue;
        Sample candidate = best_;
        candidate.dims[name] = next;
        for (DimDecl& dim : candidate.program.dims) {
          if (dim.name == name && dim.value) dim.value = next;
        }
        if (!accept(candidate)) continue;
        smaller = true;
        break;
      }
    }
    return smaller;
  }

  bool fewer_axes() {
    std::vector<std::pair<std::string, std::size_t>> ranks;
    for (const InputDecl& input : best_.program.inputs) ranks.emplace_back(input.name, input.shape.size());
    for (const Definition& definition : best_.program.definitions)
      ranks.emplace_back(definition.name, definition.axes.size());
    bool smaller = false;
    for (const auto& [name, rank] : ranks) {
      for (std::size_t axis = rank; axis-- > 0;) smaller |= accept(without_axis(best_, name, axis));
    }
    return smaller;
  }

  /// The first node of a body, counted from its root, for which something simpler fails too.
  bool simpler_bodies() {
    for (std::size_t k = 0; k < best_.program.definitions.size(); ++k) {
      for (int position = 0;; ++position) {
        int remaining = 0;
        for (int which = 0;; ++which) {
          Sample candidate = best_;
          Expr& body = candidate.program.definitions[k].body;
          remaining = position;
          int alternative = which;
          body = replace_node(body, remaining, alternative);
          if (remaining >= 0 || alternative >= 0) break;
          if (accept(std::move(candidate))) return true;
        }
        if (remaining >= 0) break;
      }
    }
    return false;
  }

  bool simpler_declarations() {
    bool smaller = false;
    for (std::size_t k = 0; k < best_.program.dims.size(); ++k) {
      Sample candidate = best_;
      candidate.program.dims[k].dynamic = false;
      smaller |= accept(candidate);
    }
    for (std::size_t k = 0; k < best_.program.inputs.size(); ++k) {
      Sample candidate = best_;
      candidate.program.inputs[k].domain = ValueDomain::Any;
      candidate.program.inputs[k].dtype = candidate.program.default_dtype;
      smaller |= accept(candidate);
    }
    for (std::size_t k = 0; k < best_.program.definitions.size(); ++k) {
      Sample candidate = best_;
      for (AxisDecl& axis : candidate.program.definitions[k].axes) axis.range = Range::extent(axis.extent);
      smaller |= accept(candidate);
    }
    Sample candidate = best_;
    candidate.program.indices.clear();
    return accept(candidate) || smaller;
  }

  Sample best_;
  const std::function<bool(const Sample&)>& fails_;
  int budget_ = 3000;
};

}  // namespace

Sample minimise(Sample sample, const std::function<bool(const Sample&)>& fails) {
  return Minimiser(std::move(sample), fails).run();
}

}  // namespace moxie::test
