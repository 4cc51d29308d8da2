#include "compiler/diff/gathered_sums.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/inside_proof.h"
#include "compiler/analysis/value_range.h"
#include "compiler/analysis/verify_definition.h"
#include "compiler/diff/assumed_extent.h"
#include "compiler/diff/open_definition.h"
#include "compiler/diff/program_builder.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

/// How often an element of a part is read, at least: it is stored and read, which takes a few multiplications.
constexpr double kMinReaders = 3;
constexpr std::size_t kMaxTerms = 16;

/// What a sum is the sum of once its products are multiplied out; a term by itself where these would be too many.
std::vector<Expr> terms_of(const Expr& expr) {
  std::vector<Expr> terms;
  if (is_call(expr, "+")) {
    for (const Expr& arg : expr->args) std::ranges::copy(terms_of(arg), std::back_inserter(terms));
  } else if (is_call(expr, "neg")) {
    for (const Expr& term : terms_of(expr->args[0])) terms.push_back(-term);
  } else if (is_call(expr, "*")) {
    terms = terms_of(expr->args[0]);
    for (const Expr& arg : expr->args | std::views::drop(1)) {
      std::vector<Expr> products;
      for (const Expr& term : terms) {
        for (const Expr& factor : terms_of(arg)) products.push_back(term * factor);
      }
      if (products.size() > kMaxTerms) return {expr};
      terms = std::move(products);
    }
  } else {
    terms.push_back(expr);
  }
  if (terms.size() > kMaxTerms) return {expr};
  return terms;
}

/// Whether it is a product of elements and numbers: its derivatives are finite where these are.
bool is_product_of_elements(const Expr& expr) {
  switch (expr->kind) {
    case NodeKind::Constant:
    case NodeKind::IndexValue:
    case NodeKind::Access:
      return true;
    case NodeKind::Call:
      return (is_call(expr, "*") || is_call(expr, "neg")) && std::ranges::all_of(expr->args, is_product_of_elements);
    default:
      return false;
  }
}

/// A row that the integer `value` selects, by an index of its own.
struct SelectedRow {
  Expr value;
  Symbol index;
  Affine extent;
  std::string tensor;  // whose row it is
};

/// Terms that depend on the same indices, those of the rows among them.
struct Part {
  std::vector<Symbol> indices;
  std::vector<Expr> terms;
  bool selects = false;
};

class GatheredSums {
 public:
  GatheredSums(ProgramBuilder& builder, const Definition& definition)
      : builder_(builder), definition_(definition), open_(open_definition(definition)) {}

  /// The body, over the axes of the definition.
  Expr run() { return substitute(walk(open_.body, open_.domain), closing_of(open_)); }

 private:
  Expr walk(const Expr& expr, const IterationDomain& domain) {
    if (expr->height == 0) return expr;
    if (is_call(expr, "where")) return walk_choice(expr, domain);
    if (expr->kind != NodeKind::Reduce)
      return map_children(expr, [&](const Expr& child) { return walk(child, domain); });
    if (expr->reduce == ReduceKind::Sum) {
      if (const auto parts = in_parts(expr, domain)) return *parts;
    }
    const OpenedReduce opened = open(expr);
    const IterationDomain inside = extended(domain, opened.index, opened.range);
    return map_opened(expr, opened, [&](const Expr& child) { return walk(child, inside); });
  }

  Expr walk_choice(const Expr& choice, const IterationDomain& domain) {
    const Expr condition = walk(choice->args[0], domain);
    const std::size_t before = selected_.size();
    std::vector<Expr> parts;
    add_conjuncts(choice->args[0], parts);
    for (const Expr& part : parts) {
      if (const auto index = selected_index(part)) selected_.push_back(*index);
    }
    const Expr chosen = walk(choice->args[1], domain);
    selected_.erase(selected_.begin() + static_cast<std::ptrdiff_t>(before), selected_.end());
    return call("where", {condition, chosen, walk(choice->args[2], domain)});
  }

  /// The index n of `dst[e] == n`.
  static std::optional<Symbol> selected_index(const Expr& condition) {
    if (!is_call(condition, "==")) return std::nullopt;
    for (const std::size_t side : {0, 1}) {
      const Expr &index = condition->args[side], &value = condition->args[1 - side];
      const bool is_of_data = value->kind == NodeKind::Access || value->kind == NodeKind::Call;
      if (index->kind != NodeKind::IndexValue || !is_of_data) continue;
      if (index->affine.terms().size() == 1) return index->affine.terms().front().first;
    }
    return std::nullopt;
  }

  std::optional<Expr> in_parts(const Expr& sum, const IterationDomain& domain) {
    std::vector<SumLoop> loops;
    Expr body = sum;
    while (body->kind == NodeKind::Reduce && body->reduce == ReduceKind::Sum) {
      const OpenedReduce opened = open(body);
      loops.push_back({opened.index, opened.range});
      body = opened.body;
    }
    if (body->height > 0) return std::nullopt;
    if (const auto condition = fixed_condition(body, loops)) {
      const auto parts = in_parts(sum_over(loops, body->args[1]), domain);
      return parts ? std::optional(call("where", {*condition, *parts, 0})) : std::nullopt;
    }
    const Expr inlined = with_gathered_elements(body);
    if (!inlined->gathers) return std::nullopt;
    rows_.clear();
    auto [parts, rest] = parts_of(inlined, loops, domain);
    std::erase_if(parts, [&](Part& part) {
      if (is_read_often(sum, part, loops, domain) && stands_alone(part, loops, domain)) return false;
      std::ranges::move(part.terms, std::back_inserter(rest));
      return true;
    });
    const bool repeats_definitions = !rest.empty() && inlined != body;
    if (repeats_definitions || std::ranges::none_of(parts, &Part::selects)) return std::nullopt;
    std::vector<Expr> terms;
    for (const Part& part : parts) terms.push_back(read(part, loops, domain));
    if (!rest.empty()) terms.push_back(sum_over(loops, with_values(total(rest))));
    return total(terms);
  }

  /// The condition outside of which all terms are 0, if it is the same for them all.
  static std::optional<Expr> fixed_condition(const Expr& body, const std::vector<SumLoop>& loops) {
    const bool is_guarded = is_call(body, "where") && body->args[2]->is_constant(0);
    const auto moves = [&](const SumLoop& loop) { return body->args[0]->depends_on(loop.index); };
    if (!is_guarded || std::ranges::any_of(loops, moves)) return std::nullopt;
    return body->args[0];
  }

  /// The expression with the bodies of definitions without loops in the place of their elements, where these select.
  Expr with_gathered_elements(const Expr& expr) const {
    if (expr->kind == NodeKind::Access && expr->args.empty()) {
      const Definition* read = builder_.program().find_definition(expr->tensor);
      const bool is_inlined =
          read && !read->scan && read->body->height == 0 && read->body->gathers && !holds_integers(read->dtype);
      return is_inlined ? with_gathered_elements(substitute(read->body, axes_by_subscripts(expr))) : expr;
    }
    if (expr->kind != NodeKind::Call) return expr;
    return map_children(expr, [&](const Expr& child) { return with_gathered_elements(child); });
  }

  std::pair<std::vector<Part>, std::vector<Expr>> parts_of(const Expr& body, const std::vector<SumLoop>& loops,
                                                           const IterationDomain& domain) {
    std::vector<Part> parts;
    std::vector<Expr> rest;
    for (const Expr& term : terms_of(body)) {
      const auto of_rows = is_product_of_elements(term) ? by_rows(term, loops) : std::nullopt;
      if (!of_rows) {
        rest.push_back(term);
        continue;
      }
      std::vector<Symbol> indices;  // rows first: what a value selects is contiguous
      for (const SelectedRow& row : rows_) {
        if ((*of_rows)->depends_on(row.index)) indices.push_back(row.index);
      }
      const bool selects = !indices.empty();
      std::ranges::copy(variables_of(sum_over(loops, *of_rows), domain), std::back_inserter(indices));
      auto part = std::ranges::find(parts, indices, &Part::indices);
      if (part == parts.end()) part = parts.insert(part, {std::move(indices), {}, selects});
      part->terms.push_back(*of_rows);
    }
    return {std::move(parts), std::move(rest)};
  }

  /// The expression with an index for each row that a value selects; nothing where a value moves with the loops or does
  /// more than select a row.
  std::optional<Expr> by_rows(const Expr& expr, const std::vector<SumLoop>& loops) {
    if (expr->kind == NodeKind::Call) {
      std::vector<Expr> args;
      for (const Expr& arg : expr->args) {
        const auto changed = by_rows(arg, loops);
        if (!changed) return std::nullopt;
        args.push_back(*changed);
      }
      return with_args(expr, std::move(args));
    }
    if (!reads_by_value(expr)) return expr;
    std::vector<Affine> subscripts = expr->subscripts;
    const std::vector<Affine> shape = builder_.program().shape_of(expr->tensor);
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
      for (std::uint32_t k = 0; k < expr->args.size(); ++k) {
        if (!subscripts[axis].mentions(Symbol::value(k))) continue;
        if (subscripts[axis] != Affine(Symbol::value(k))) return std::nullopt;
        if (std::ranges::any_of(loops, [&](const SumLoop& loop) { return expr->args[k]->depends_on(loop.index); }))
          return std::nullopt;
        subscripts[axis] = index_of_row(expr->args[k], shape[axis], expr->tensor);
        break;
      }
    }
    return tensor_access(expr->tensor, std::move(subscripts));
  }

  Symbol index_of_row(const Expr& value, const Affine& extent, const std::string& tensor) {
    const auto known =
        std::ranges::find_if(rows_, [&](const SelectedRow& row) { return row.value == value && row.extent == extent; });
    if (known != rows_.end()) return known->index;
    rows_.push_back({value, Symbol::fresh(), extent, tensor});
    return rows_.back().index;
  }

  /// The expression with the values in the place of the indices of their rows.
  Expr with_values(const Expr& expr) const {
    if (expr->kind != NodeKind::Access)
      return map_children(expr, [&](const Expr& child) { return with_values(child); });
    std::vector<Affine> subscripts = expr->subscripts;
    std::vector<Expr> values = expr->args;
    for (Affine& subscript : subscripts) {
      const auto row = std::ranges::find_if(rows_, [&](const SelectedRow& r) { return subscript == Affine(r.index); });
      if (row == rows_.end()) continue;
      subscript = Symbol::value(static_cast<std::uint32_t>(values.size()));
      values.push_back(row->value);
    }
    return tensor_access(expr->tensor, std::move(subscripts), std::move(values));
  }

  static std::vector<Symbol> variables_of(const Expr& expr, const IterationDomain& domain) {
    std::vector<Symbol> found;
    std::ranges::copy_if(domain.variables, std::back_inserter(found), [&](Symbol v) { return expr->depends_on(v); });
    return found;
  }

  static Expr total(const std::vector<Expr>& terms) {
    Expr sum = terms.front();
    for (const Expr& term : terms | std::views::drop(1)) sum = sum + term;
    return sum;
  }

  static Expr sum_over(const std::vector<SumLoop>& loops, Expr body) {
    for (const SumLoop& loop : loops | std::views::reverse)
      body = reduce(ReduceKind::Sum, loop.index, loop.range, body);
    return body;
  }

  std::optional<IndexBox> box(Symbol index, const IterationDomain& domain) const {
    const auto row = std::ranges::find(rows_, index, &SelectedRow::index);
    if (row != rows_.end()) return IndexBox{0, row->extent - Affine(1)};
    return box_of(domain, index);
  }

  static Affine extent_of(const IndexBox& box) { return box.high - box.low + Affine(1); }

  /// Whether the elements of the sum are several times as many as those of the part, whatever dims have no value.
  bool is_read_often(const Expr& sum, const Part& part, const std::vector<SumLoop>& loops,
                     const IterationDomain& domain) const {
    const Program& program = builder_.program();
    std::vector<Affine> read;
    for (const Symbol index : variables_of(sum, domain)) {
      const auto own = box(index, domain);
      if (!own) return false;
      if (std::ranges::find(selected_, index) == selected_.end()) read.push_back(extent_of(*own));
    }
    double readers = 1, elements = 1;
    for (const Symbol index : part.indices) {
      const auto own = box(index, domain);
      if (!own) return false;
      elements *= extent_or_assumed(program, extent_of(*own));
      const auto same = std::ranges::find(read, extent_of(*own));
      if (same != read.end()) {
        read.erase(same);
      } else if (value_in_text(program, extent_of(*own))) {
        readers /= extent_or_assumed(program, extent_of(*own));
      } else {
        return false;
      }
    }
    for (const Affine& extent : read) readers *= extent_or_assumed(program, extent);
    double depth = 1;
    for (const SumLoop& loop : loops) {
      const auto own = box_of(extended(domain, loop.index, loop.range), loop.index);
      depth *= own ? extent_or_assumed(program, extent_of(*own)) : kAssumedExtent;
    }
    return readers >= kMinReaders && (readers - 1) * elements * depth >= kMinSaved;
  }

  /// Whether no condition around the sum is needed to keep what the part reads inside its tensors.
  bool stands_alone(const Part& part, const std::vector<SumLoop>& loops, const IterationDomain& domain) const {
    IndexDomain whole(known_dims(builder_.program()));
    for (const Symbol index : part.indices) {
      const auto own = box(index, domain);
      if (!own) return false;
      whole.add_nonnegative(Affine(index) - own->low);
      whole.add_nonnegative(own->high - Affine(index));
    }
    return InsideProof(builder_.program(), Inside::Element).holds_within(sum_over(loops, total(part.terms)), whole);
  }

  /// The part as a definition, read where the values say.
  Expr read(const Part& part, const std::vector<SumLoop>& loops, const IterationDomain& domain) {
    std::vector<IndexBox> boxes;
    for (const Symbol index : part.indices) boxes.push_back(*box(index, domain));
    const std::vector<OpenAxis> axes = as_axes(builder_, part.indices, boxes, names_of(definition_, open_));
    // Who selects a row that is not there reads of which tensor.
    const auto row =
        std::ranges::find_if(rows_, [&](const SelectedRow& r) { return part.selects && r.index == part.indices[0]; });
    const std::string& owner = row == rows_.end() ? definition_.name : row->tensor;
    const LetHead head{owner + ".rows", computed_dtype(definition_.dtype), definition_.line};
    return with_values(builder_.add_let(head, axes, sum_over(loops, total(part.terms))));
  }

  ProgramBuilder& builder_;
  const Definition& definition_;
  const OpenDefinition open_;
  std::vector<SelectedRow> rows_;  // that values select in the current sum
  /// Indices that are a value here, by the conditions around: one element of each is read.
  std::vector<Symbol> selected_;
};

bool selects_rows(const Program& program) {
  return std::ranges::any_of(program.definitions,
                             [](const Definition& definition) { return definition.body->gathers; });
}

}  // namespace

Program lift_gathered_sums(const Program& program) {
  if (!selects_rows(program)) return program;
  Program kept = program;
  kept.definitions.clear();
  ProgramBuilder builder(std::move(kept));
  for (const Definition& definition : program.definitions) builder.reserve(definition.name);
  for (Definition definition : program.definitions) {
    if (!definition.scan && !definition.recomputed && definition.body->kind != NodeKind::LinearAlgebra)
      definition.body = GatheredSums(builder, definition).run();
    builder.add_definition(std::move(definition));
  }
  return builder.take();
}

}  // namespace moxie
