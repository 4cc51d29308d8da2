#include "compiler/fuse/fuse.h"

#include <algorithm>
#include <set>

#include "compiler/fuse/matrix_product.h"
#include "compiler/fuse/transpose_gathers.h"
#include "compiler/rewrite/algebra.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// A definition with its loops chosen and its symbols replaced by those of the loops.
struct Placed {
  KernelRoot root;
  LoopChoice choice;
  std::optional<LoopIndex> vector, sample;
};

Placed place(const Definition& definition, const LoopChoice& choice) {
  Placed placed;
  placed.choice = choice;
  placed.root.definition = definition;
  Replacement replacement;
  const auto lookup = [&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(replacement, symbol, &std::pair<Symbol, Affine>::first);
    return it == replacement.end() ? nullptr : &it->second;
  };
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    const LoopIndex loop{Symbol::fresh(), definition.axes[k].range.substitute(lookup), definition.axes[k].name};
    replacement.emplace_back(Symbol::axis(k), Affine(loop.symbol));
    placed.root.subscripts.emplace_back(loop.symbol);
    if (static_cast<int>(k) == placed.choice.vector) placed.vector = loop;
    else if (static_cast<int>(k) == placed.choice.sample) placed.sample = loop;
    else placed.root.locals.push_back(loop);
  }
  Expr body = definition.body;
  const bool reduces = placed.choice.vector == LoopChoice::kReduced || placed.choice.sample == LoopChoice::kReduced;
  if (reduces) {
    const OpenedReduce opened = open(body);
    const LoopIndex loop{opened.index, opened.range, ""};
    (placed.choice.vector == LoopChoice::kReduced ? placed.vector : placed.sample) = loop;
    placed.root.accumulate = body->reduce;
    body = opened.body;
  }
  // The normal form once more: its order depends on the kinds of symbols, and roots share what is the same node.
  placed.root.body = body->kind == NodeKind::LinearAlgebra ? substitute(body, replacement) : normalise(substitute(body, replacement));
  return placed;
}

std::set<std::string> tensors_read(const Expr& expr) {
  std::set<std::string> names;
  visit(expr, [&](const Expr& e) {
    if (e->kind == NodeKind::Access) names.insert(e->tensor);
  });
  return names;
}

bool same_loop(const std::optional<LoopIndex>& a, const std::optional<LoopIndex>& b) {
  return a.has_value() == b.has_value() && (!a || a->range == b->range);
}

const KernelRoot* find_root(const Kernel& kernel, const std::string& name) {
  const auto it = std::ranges::find_if(kernel.roots, [&](const KernelRoot& root) { return root.definition.name == name; });
  return it == kernel.roots.end() ? nullptr : &*it;
}

/// The root's loops renamed to the kernel's.
KernelRoot adopt(const Kernel& kernel, const Placed& placed) {
  Replacement replacement;
  if (placed.vector) replacement.emplace_back(placed.vector->symbol, Affine(kernel.vector->symbol));
  if (placed.sample) replacement.emplace_back(placed.sample->symbol, Affine(kernel.sample->symbol));
  const auto lookup = [&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(replacement, symbol, &std::pair<Symbol, Affine>::first);
    return it == replacement.end() ? nullptr : &it->second;
  };
  KernelRoot root = placed.root;
  root.body = substitute(root.body, replacement);
  for (Affine& subscript : root.subscripts) subscript = subscript.substitute(lookup);
  for (LoopIndex& local : root.locals) local.range = local.range.substitute(lookup);
  return root;
}

/// Replaces reads of roots of the same kernel, at the same element, by their bodies; nullopt where a read wants another element.
std::optional<Expr> read_in_place(const Kernel& kernel, const Expr& body) {
  bool possible = true;
  const Expr result = rewrite_bottom_up(body, {}, [&](const Expr& e, const Scope&) -> Expr {
    if (e->kind != NodeKind::Access) return e;
    const KernelRoot* producer = find_root(kernel, e->tensor);
    if (!producer) return e;
    const bool same_element = !producer->accumulate && producer->locals.empty() && producer->subscripts == e->subscripts &&
                              producer->definition.body->kind != NodeKind::LinearAlgebra;
    possible &= same_element;
    return same_element ? producer->body : e;
  });
  return possible ? std::optional(result) : std::nullopt;
}

bool has_long_loop(const Definition& definition) {
  bool found = std::ranges::any_of(definition.axes, [](const AxisDecl& axis) { return is_long(axis.range); });
  visit(definition.body, [&](const Expr& e) { found |= e->kind == NodeKind::Reduce && is_long(e->range); });
  return found;
}

/// Small definitions as early as they can be: then kernels over samples come to stand next to each other and can join.
std::vector<const Definition*> in_fusing_order(const Program& program) {
  std::vector<const Definition*> order;
  std::set<std::string> waiting;
  for (const Definition& definition : program.definitions) waiting.insert(definition.name);
  const auto is_ready = [&](const Definition& definition) {
    return waiting.contains(definition.name) &&
           std::ranges::none_of(tensors_read(definition.body), [&](const std::string& name) { return waiting.contains(name); });
  };
  while (!waiting.empty()) {
    const Definition* next = nullptr;
    for (const Definition& definition : program.definitions) {
      if (!is_ready(definition)) continue;
      if (!next) next = &definition;
      if (!has_long_loop(definition)) {
        next = &definition;
        break;
      }
    }
    order.push_back(next);
    waiting.erase(next->name);
  }
  return order;
}

class Fuser {
 public:
  explicit Fuser(const Program& program) : choices_(choose_loops(program)) { fused_.program = transpose_gathers(program, choices_); }

  FusedProgram run() {
    for (const Definition* definition : in_fusing_order(fused_.program)) add(*definition);
    mark_stored();
    return std::move(fused_);
  }

 private:
  void add(const Definition& definition) {
    if (auto product = match_matrix_product(fused_.program, definition)) {
      where_[definition.name] = fused_.steps.size();
      fused_.steps.emplace_back(std::move(*product));
      return;
    }
    const Placed placed = place(definition, choices_.at(definition.name));
    choose_layout(placed);
    std::size_t first = 0;  // no step before this one may hold the definition
    for (const std::string& name : tensors_read(placed.root.body)) {
      if (const auto it = where_.find(name); it != where_.end()) first = std::max(first, it->second);
    }
    for (std::size_t k = first; k < fused_.steps.size(); ++k) {
      if (join(fused_.steps[k], placed)) {
        where_[definition.name] = k;
        return;
      }
    }
    where_[definition.name] = fused_.steps.size();
    fused_.steps.emplace_back(new_kernel(placed));
  }

  static Kernel new_kernel(const Placed& placed) {
    Kernel kernel;
    kernel.name = placed.root.definition.name;
    kernel.vector = placed.vector;
    kernel.sample = placed.sample;
    kernel.reduces_vector = placed.choice.vector == LoopChoice::kReduced;
    kernel.roots = {placed.root};
    return kernel;
  }

  static bool join(Step& step, const Placed& placed) {
    auto* kernel = std::get_if<Kernel>(&step);
    if (!kernel || !same_loop(kernel->vector, placed.vector) || !same_loop(kernel->sample, placed.sample)) return false;
    const bool algebra = placed.root.definition.body->kind == NodeKind::LinearAlgebra ||
                         kernel->roots.front().definition.body->kind == NodeKind::LinearAlgebra;
    if (algebra || !placed.vector) return false;
    // A sum over lanes ends after the vector loop, a map stores inside it; both may share the loop.
    KernelRoot root = adopt(*kernel, placed);
    const auto body = read_in_place(*kernel, root.body);
    if (!body) return false;
    root.body = *body;
    kernel->reduces_vector |= placed.choice.vector == LoopChoice::kReduced;
    kernel->roots.push_back(std::move(root));
    return true;
  }

  void choose_layout(const Placed& placed) {
    const Definition& definition = placed.root.definition;
    if (definition.output || placed.choice.vector < 0) return;
    std::vector<std::uint32_t> layout;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (static_cast<int>(k) != placed.choice.vector) layout.push_back(k);
    }
    layout.push_back(static_cast<std::uint32_t>(placed.choice.vector));
    fused_.layouts[definition.name] = layout;
  }

  /// A root is stored if it is an output or read by another step (or, at another element, by nobody else: join() has seen to that).
  void mark_stored() {
    std::set<std::string> read;
    for (const Step& step : fused_.steps) {
      if (const auto* product = std::get_if<MatrixProduct>(&step)) read.insert({product->left, product->right});
      if (const auto* kernel = std::get_if<Kernel>(&step)) {
        for (const KernelRoot& root : kernel->roots) read.merge(tensors_read(root.body));
      }
    }
    for (Step& step : fused_.steps) {
      auto* kernel = std::get_if<Kernel>(&step);
      if (!kernel) continue;
      for (KernelRoot& root : kernel->roots) root.stored = root.definition.output || read.contains(root.definition.name);
      std::erase_if(kernel->roots, [](const KernelRoot& root) { return !root.stored; });
    }
  }

  std::map<std::string, LoopChoice> choices_;
  FusedProgram fused_;
  std::map<std::string, std::size_t> where_;
};

}  // namespace

FusedProgram fuse(const Program& optimised) { return Fuser(optimised).run(); }

}  // namespace moxie
