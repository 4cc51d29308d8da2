#include "compiler/diff/repeated_contractions.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "compiler/analysis/inside_proof.h"
#include "compiler/analysis/value_range.h"
#include "compiler/analysis/verify_definition.h"
#include "compiler/diff/open_definition.h"
#include "compiler/diff/program_builder.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/quotients.h"

namespace moxie {
namespace {

/// The body of directly nested sums.
Expr summand(const Expr& sum) {
  Expr body = sum;
  while (body->kind == NodeKind::Reduce && body->reduce == ReduceKind::Sum) body = body->args[0];
  return body;
}

/// The element of a tensor that a factor is, at quotients of indices too, x[h/4,d]; nothing for other factors.
const Node* read_of(const Expr& factor) {
  const Node* read = factor.get();
  while (read->kind == NodeKind::Reduce && read->reduce == ReduceKind::Sum && as_quotient(read->range))
    read = read->args[0].get();
  return read->kind == NodeKind::Access ? read : nullptr;
}

bool is_contraction(const Expr& expr, const ActiveTensors& active) {
  const Expr body = summand(expr);
  if (body == expr || !is_call(body, "*") || body->gathers) return false;
  const auto is_read = [](const Expr& factor) { return read_of(factor) != nullptr; };
  const auto is_active = [&](const Expr& factor) { return active.contains(read_of(factor)->tensor); };
  return std::ranges::all_of(body->args, is_read) && std::ranges::any_of(body->args, is_active);
}

/// Whether it is a reduction of one of these kinds, and elements along some index around it read the same one.
bool is_shared(const Expr& expr, std::initializer_list<ReduceKind> kinds, const IterationDomain& domain,
               const ActiveTensors& active) {
  if (expr->kind != NodeKind::Reduce || std::ranges::find(kinds, expr->reduce) == kinds.end() || expr->gathers)
    return false;
  if (std::ranges::all_of(domain.variables, [&](Symbol v) { return expr->depends_on(v); })) return false;
  bool is_active = false;
  visit(expr, [&](const Expr& e) { is_active |= e->kind == NodeKind::Access && active.contains(e->tensor); });
  return is_active;
}

/// The open indices of the reduction, in the order in which it reads them: that of the text, whatever their names.
std::vector<Symbol> read_order(const Expr& reduction, const IterationDomain& domain) {
  std::vector<Symbol> order;
  visit(reduction, [&](const Expr& e) {
    if (e->kind != NodeKind::Access) return;
    for (const Affine& subscript : e->subscripts) {
      for (const auto& [symbol, coefficient] : subscript.terms()) {
        const bool is_open = std::ranges::find(domain.variables, symbol) != domain.variables.end();
        if (is_open && std::ranges::find(order, symbol) == order.end()) order.push_back(symbol);
      }
    }
  });
  return order;
}

bool reads_tensor(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Access; });
  return found;
}

/// A reduction as a definition of its own, and how one place reads it.
struct ReductionPlace {
  std::string definition;  // in which it stands
  Expr reduction;          // as it stands there
  std::vector<Symbol> order;
  std::vector<IndexBox> boxes;
  Expr body;  // over axes
  DType dtype = DType::f32;
};

bool is_same_tensor(const ReductionPlace& a, const ReductionPlace& b) {
  const auto same_box = [](const IndexBox& x, const IndexBox& y) { return x.low == y.low && x.high == y.high; };
  return a.body == b.body && a.dtype == b.dtype && std::ranges::equal(a.boxes, b.boxes, same_box);
}

/// Which reductions are lifted.
struct LiftedKind {
  std::function<bool(const Expr& expr, const IterationDomain& domain)> takes;
  bool repeated;                  // only if several places read different elements
  std::string suffix;             // the new definition is named after its reader, with this behind it
  std::string_view outside = {};  // reductions in arguments of this function stay where they are
  bool below_values = true;       // also below conditions that read tensors
};

class ReductionLifter {
 public:
  ReductionLifter(const Program& program, LiftedKind kind)
      : program_(program), kind_(std::move(kind)), builder_(program) {}

  Program run() {
    for (const Definition& definition : program_.definitions) {
      if (can_be_lifted_from(definition)) walk(definition, [&](const ReductionPlace& place) { return count(place); });
    }
    std::erase_if(tensors_, [](const Tensor& tensor) { return !tensor.repeated; });
    if (tensors_.empty()) return program_;
    Program kept = program_;
    kept.definitions.clear();
    builder_ = ProgramBuilder(std::move(kept));
    for (const Definition& definition : program_.definitions) builder_.reserve(definition.name);
    for (Definition definition : program_.definitions) {
      if (can_be_lifted_from(definition))
        definition.body = walk(definition, [&](const ReductionPlace& place) { return read(definition, place); });
      builder_.add_definition(std::move(definition));
    }
    return builder_.take();
  }

 private:
  struct Tensor {
    ReductionPlace first;
    bool repeated = false;
    std::string name = {};  // once it is defined
  };

  static bool can_be_lifted_from(const Definition& definition) {
    return !definition.scan && definition.body->kind != NodeKind::LinearAlgebra;
  }

  /// The body of the definition, with what `visit` gives in the place of each reduction that is taken.
  template <class Visit>
  Expr walk(const Definition& definition, const Visit& visit) {
    const OpenDefinition open = open_definition(definition);
    names_ = names_of(definition, open);
    const auto at = [&](const auto& self, const Expr& expr, const IterationDomain& domain, DType dtype) -> Expr {
      if (expr->height == 0 || (!kind_.outside.empty() && is_call(expr, kind_.outside))) return expr;
      if (!kind_.below_values && is_call(expr, "where") && reads_tensor(expr->args[0])) return expr;
      if (kind_.takes(expr, domain) && !is_of_a_data_range(expr)) {
        const auto place = place_of(definition, expr, domain, dtype);
        return place ? visit(*place) : expr;
      }
      if (expr->kind == NodeKind::Reduce) {
        const OpenedReduce opened = moxie::open(expr);
        const IterationDomain inside = extended(domain, opened.index, opened.range);
        data_ranges_.emplace_back(opened.index, ends_by_value(program_, opened));
        Expr result = map_opened(expr, opened, [&](const Expr& child) { return self(self, child, inside, dtype); });
        data_ranges_.pop_back();
        return result;
      }
      for (const DType other : {DType::f32, DType::f64}) {
        if (is_call(expr, to_string(other))) dtype = other;
      }
      return map_children(expr, [&](const Expr& child) { return self(self, child, domain, dtype); });
    };
    return substitute(at(at, open.body, open.domain, computed_dtype(definition.dtype)), closing_of(open));
  }

  /// Whether it would have elements for all pairs of a row and an index, of which ranges by data ask for few.
  bool is_of_a_data_range(const Expr& expr) const {
    return std::ranges::any_of(data_ranges_,
                               [&](const auto& range) { return is_of_data_range(expr, range.first, range.second); });
  }

  /// Nothing where it cannot stand alone.
  std::optional<ReductionPlace> place_of(const Definition& definition, const Expr& reduction,
                                         const IterationDomain& domain, DType dtype) const {
    ReductionPlace place{definition.name, reduction, read_order(reduction, domain), {}, {}, dtype};
    const bool is_whole = std::ranges::all_of(domain.variables, [&](Symbol v) {
      return !reduction->depends_on(v) || std::ranges::find(place.order, v) != place.order.end();
    });
    const auto boxes = is_whole ? boxes_of(domain, place.order) : std::nullopt;
    if (!boxes) return std::nullopt;
    place.boxes = *boxes;
    Replacement to_axes;
    IndexDomain whole(known_dims(program_));
    for (std::uint32_t k = 0; k < place.order.size(); ++k) {
      to_axes.emplace_back(place.order[k], Affine(Symbol::axis(k)) + place.boxes[k].low);
      whole.add_range(Symbol::axis(k), Range::extent(place.boxes[k].high - place.boxes[k].low + Affine(1)));
    }
    place.body = substitute(reduction, to_axes);
    if (!InsideProof(program_, Inside::Element).holds_within(place.body, whole)) return std::nullopt;
    return place;
  }

  std::vector<Tensor>::iterator find(const ReductionPlace& place) {
    return std::ranges::find_if(tensors_, [&](const Tensor& tensor) { return is_same_tensor(tensor.first, place); });
  }

  Expr count(const ReductionPlace& place) {
    const auto known = find(place);
    if (known == tensors_.end())
      tensors_.push_back({place, !kind_.repeated});
    else
      known->repeated |= known->first.definition != place.definition || known->first.order != place.order;
    return place.reduction;
  }

  Expr read(const Definition& reader, const ReductionPlace& place) {
    const auto tensor = find(place);
    if (tensor == tensors_.end()) return place.reduction;
    const auto axes = as_axes(builder_, place.order, place.boxes, names_);
    if (tensor->name.empty()) {
      const Expr first =
          builder_.add_let({reader.name + kind_.suffix, place.dtype, reader.line}, axes, place.reduction);
      tensor->name = first->tensor;
      return first;
    }
    std::vector<Affine> subscripts;
    for (const OpenAxis& axis : axes) subscripts.push_back(Affine(axis.index) - axis.first);
    return tensor_access(tensor->name, std::move(subscripts));
  }

  const Program& program_;
  const LiftedKind kind_;
  ProgramBuilder builder_;
  std::vector<Tensor> tensors_;
  std::vector<std::pair<Symbol, std::string>> names_;
  std::vector<std::pair<Symbol, std::vector<Expr>>> data_ranges_;  // of the reductions that enclose the expression
};

}  // namespace

Program lift_repeated_contractions(const Program& program, const ActiveTensors& active) {
  const auto takes = [&](const Expr& expr, const IterationDomain&) { return is_contraction(expr, active); };
  return ReductionLifter(program, {takes, true, ".contraction"}).run();
}

Program lift_repeated_contractions(const Program& program) {
  ActiveTensors all;
  for (const InputDecl& input : program.inputs) all.insert(input.name);
  for (const Definition& definition : program.definitions) all.insert(definition.name);
  const auto takes = [&](const Expr& expr, const IterationDomain&) { return is_contraction(expr, all); };
  return ReductionLifter(program, {takes, true, ".contraction", {}, false}).run();
}

Program lift_normalisers(const Program& program, const ActiveTensors& active) {
  const auto takes = [&](const Expr& expr, const IterationDomain& domain) {
    return is_shared(expr, {ReduceKind::LogSumExp}, domain, active);
  };
  return ReductionLifter(program, {takes, false, ".normaliser", "exp"}).run();
}

Program lift_extrema(const Program& program, const ActiveTensors& active) {
  const auto takes = [&](const Expr& expr, const IterationDomain& domain) {
    return is_shared(expr, {ReduceKind::Max, ReduceKind::Min}, domain, active);
  };
  return ReductionLifter(program, {takes, false, ".extremum"}).run();
}

}  // namespace moxie
