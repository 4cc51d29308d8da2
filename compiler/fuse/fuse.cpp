#include "compiler/fuse/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/analysis/value_range.h"
#include "compiler/fuse/fold_storage.h"
#include "compiler/fuse/fusing_order.h"
#include "compiler/fuse/masked_products.h"
#include "compiler/fuse/matrix_product.h"
#include "compiler/fuse/needed_columns.h"
#include "compiler/fuse/ordered_sum_call.h"
#include "compiler/fuse/prefix_blocks.h"
#include "compiler/fuse/shared_factor.h"
#include "compiler/fuse/shared_loops.h"
#include "compiler/fuse/solver_cost.h"
#include "compiler/fuse/stored_operands.h"
#include "compiler/fuse/transpose_gathers.h"
#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// A definition with its loops chosen and its symbols replaced by those of the loops.
struct Placed {
  KernelRoot root;
  LoopChoice choice;
  std::optional<LoopIndex> vector, sample;
};

Placed place(const Algebra& algebra, const Definition& definition, const LoopChoice& choice) {
  Placed placed;
  placed.choice = choice;
  placed.root.definition = definition;
  Replacement replacement;
  const auto lookup = [&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(replacement, symbol, &std::pair<Symbol, Affine>::first);
    return it == replacement.end() ? nullptr : &it->second;
  };
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    if (definition.scan && k == 0) {
      placed.root.subscripts.emplace_back(Symbol::dim(kScanStep));
      replacement.emplace_back(Symbol::axis(0), placed.root.subscripts.back());
      continue;
    }
    const LoopIndex loop{Symbol::fresh(), definition.axes[k].range.substitute(lookup), definition.axes[k].name};
    replacement.emplace_back(Symbol::axis(k), Affine(loop.symbol));
    placed.root.subscripts.emplace_back(loop.symbol);
    if (static_cast<int>(k) == placed.choice.vector)
      placed.vector = loop;
    else if (static_cast<int>(k) == placed.choice.sample)
      placed.sample = loop;
    else
      placed.root.locals.push_back(loop);
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
  placed.root.body = substitute(body, replacement);
  if (body->kind != NodeKind::LinearAlgebra) placed.root.body = nest_sums(algebra, algebra.normalise(placed.root.body));
  return placed;
}

using Names = std::set<std::string>;

Names tensors_read(const KernelRoot& root) {
  Names names = tensors_read(root.body);
  if (root.prefix) names.merge(tensors_read(root.prefix->start));
  return names;
}

bool same_loop(const std::optional<LoopIndex>& a, const std::optional<LoopIndex>& b) {
  return a.has_value() == b.has_value() && (!a || a->range == b->range);
}

const KernelRoot* find_root(const Kernel& kernel, const std::string& name) {
  const auto it =
      std::ranges::find_if(kernel.roots, [&](const KernelRoot& root) { return root.definition.name == name; });
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

/// Another step of a scan than the one that the kernel computes.
bool is_other_step(const KernelRoot& producer, const Expr& access) {
  return producer.definition.scan && access->subscripts[0] != producer.subscripts[0];
}

/// Replaces reads of roots of the same kernel, at the same element, by their bodies; nullopt where a read wants another
/// element of the same step.
std::optional<Expr> read_in_place(const Kernel& kernel, const Expr& body) {
  bool possible = true;
  const Expr result = rewrite_bottom_up(body, {}, [&](const Expr& e, const Scope&) -> Expr {
    if (e->kind != NodeKind::Access) return e;
    const KernelRoot* producer = find_root(kernel, e->tensor);
    if (!producer || is_other_step(*producer, e)) return e;
    const bool same_element = !producer->accumulate && is_stored_as_computed(producer->definition.dtype) &&
                              producer->subscripts == e->subscripts && !is_linear_algebra(*producer);
    possible &= same_element;
    return same_element ? producer->body : e;
  });
  return possible ? std::optional(result) : std::nullopt;
}

/// The most nodes of a body together with what it reads in place. Each definition that joins a kernel is brought into
/// normal form with all of that, so chains of definitions would take cubic time; code much longer runs out of
/// registers. (The longest of the formulas that come with moxie, the gradient of an LSTM cell, has 329.)
constexpr std::size_t kMaxNodes = 500;

std::size_t nodes_in(const Expr& expr) {
  std::size_t nodes = 0;
  visit(expr, [&](const Expr&) { ++nodes; });
  return nodes;
}

/// The kernels, products or library calls among the steps of a scan, or the step itself.
template <class Part, class AnyStep>
std::vector<Part*> parts_of(AnyStep& step) {
  std::vector<Part*> parts;
  const auto add = [&](auto& candidate) {
    if (auto* part = std::get_if<std::remove_const_t<Part>>(&candidate)) parts.push_back(part);
  };
  add(step);
  if (auto* scan = std::get_if<ScanLoop>(&step)) std::ranges::for_each(scan->steps, add);
  return parts;
}

class Fuser {
 public:
  Fuser(const Program& program, ProductTensors products, PrefixPlans prefixes, OrderedSumCalls ordered, Layouts layouts)
      : products_(std::move(products)),
        prefixes_(std::move(prefixes)),
        ordered_(std::move(ordered)),
        choices_(chosen_loops(program, products_, prefixes_, ordered_)),
        fused_{transpose_gathers(program, products_, layouts, choices_), {}, {}, {}},
        algebra_(fused_.program),
        alone_(alone_in(fused_.program)) {}

  FusedProgram run() {
    for (const Group& group : in_fusing_order(fused_.program, products_, prefixes_)) {
      if (group[0].scan)
        add_scan(group);
      else
        add(group[0]);
    }
    mark_stored();
    find_needed_columns(fused_);
    fold_storage(fused_);
    return std::move(fused_);
  }

 private:
  /// Prefix reductions have loops of their own, ordered sums none.
  static std::map<std::string, LoopChoice> chosen_loops(const Program& program, const ProductTensors& products,
                                                        const PrefixPlans& prefixes, const OrderedSumCalls& ordered) {
    std::map<std::string, LoopChoice> choices = choose_loops(program, products);
    for (const auto& [name, plan] : prefixes) choices[name] = {};
    for (const auto& [name, call] : ordered) choices[name] = {};
    return choices;
  }

  std::optional<MatrixProduct> library_product(const Definition& definition) const {
    if (!products_.results.contains(definition.name)) return std::nullopt;
    return match_matrix_product(algebra_, fused_.program, definition, LibraryOperands::computed_or_halves);
  }

  void add(const Definition& definition) {
    if (auto product = library_product(definition)) {
      where_[definition.name] = fused_.steps.size();
      fused_.steps.emplace_back(std::move(*product));
      return;
    }
    if (ordered_.contains(definition.name)) {
      where_[definition.name] = fused_.steps.size();
      fused_.steps.emplace_back(ordered_.at(definition.name));
      return;
    }
    if (products_.algebra.contains(definition.name)) {
      where_[definition.name] = fused_.steps.size();
      fused_.steps.emplace_back(AlgebraCall{definition});
      return;
    }
    if (const auto prefix = prefixes_.find(definition.name); prefix != prefixes_.end()) {
      where_[definition.name] = fused_.steps.size();
      fused_.steps.emplace_back(prefix_kernel(definition, prefix->second));
      return;
    }
    const Placed placed = place(algebra_, definition, choices_.at(definition.name));
    choose_layout(placed);
    std::size_t first = 0;  // no step before this one may hold the definition
    for (const std::string& name : tensors_read(placed.root.body)) {
      if (const auto it = where_.find(name); it != where_.end()) first = std::max(first, it->second);
    }
    for (std::size_t k = first; k < fused_.steps.size(); ++k) {
      auto* kernel = std::get_if<Kernel>(&fused_.steps[k]);
      if (kernel && join(*kernel, placed)) {
        where_[definition.name] = k;
        return;
      }
    }
    where_[definition.name] = fused_.steps.size();
    fused_.steps.emplace_back(new_kernel(placed));
  }

  static Kernel prefix_kernel(const Definition& definition, const PrefixPlan& plan) {
    Kernel kernel;
    kernel.name = definition.name;
    kernel.roots = {prefix_root(definition, plan)};
    kernel.reason = fmt::format("one pass along {}", definition.axes[plan.reduction.axis].name);
    if (plan.blocks) kernel.reason += fmt::format(", in blocks of {}", plan.blocks->length);
    return kernel;
  }

  static Kernel new_kernel(const Placed& placed) {
    Kernel kernel;
    kernel.name = placed.root.definition.name;
    kernel.vector = placed.vector;
    kernel.sample = placed.sample;
    kernel.reduces_vector = placed.choice.vector == LoopChoice::kReduced;
    kernel.roots = {placed.root};
    if (placed.vector)
      kernel.reason = fmt::format("the fewest vector operations by estimate: {:.3g}", placed.choice.operations);
    return kernel;
  }

  void add_scan(const Group& group) {
    const Definition& first = group[0];
    ScanLoop scan{first.axes[0].name, first.axes[0].extent, first.scan->backwards, {}};
    std::map<std::string, std::size_t> place_of;
    for (const Group& member : in_step_order(group, products_)) {
      const Definition& definition = member[0];
      place_of[definition.name] = add_to_scan(scan.steps, definition, place_of);
      where_[definition.name] = fused_.steps.size();
    }
    fused_.steps.emplace_back(std::move(scan));
  }

  /// Returns which of the steps computes the definition; not one before those that compute what it reads of the same
  /// round.
  std::size_t add_to_scan(std::vector<ScanStep>& steps, const Definition& definition,
                          const std::map<std::string, std::size_t>& place_of) {
    if (auto product = library_product(definition)) {
      steps.emplace_back(std::move(*product));
      return steps.size() - 1;
    }
    if (products_.algebra.contains(definition.name)) {
      steps.emplace_back(AlgebraCall{definition});
      return steps.size() - 1;
    }
    const Placed placed = place(algebra_, definition, choices_.at(definition.name));
    choose_layout(placed);
    std::size_t first = 0;
    for (const std::string& name : read_at_step(definition)) {
      if (const auto it = place_of.find(name); it != place_of.end()) first = std::max(first, it->second);
    }
    for (std::size_t k = first; k < steps.size(); ++k) {
      auto* kernel = std::get_if<Kernel>(&steps[k]);
      if (kernel && join(*kernel, placed)) return k;
    }
    steps.emplace_back(new_kernel(placed));
    return steps.size() - 1;
  }

  /// Whether a root of the kernel sums over the given one of its loops.
  static bool sums_over(const Kernel& kernel, const std::optional<LoopIndex>& loop) {
    return loop && std::ranges::any_of(kernel.roots, [&](const KernelRoot& root) {
             return root.accumulate &&
                    std::ranges::find(root.subscripts, Affine(loop->symbol)) == root.subscripts.end();
           });
  }

  bool join(Kernel& kernel, const Placed& placed) const {
    if (stands_alone(kernel.roots.front()) || stands_alone(placed.root)) return false;
    if (!same_loop(kernel.vector, placed.vector) || !same_loop(kernel.sample, placed.sample)) return false;
    // Sums over lanes and sums over samples are kept in different places.
    if (placed.choice.vector == LoopChoice::kReduced && sums_over(kernel, kernel.sample)) return false;
    if (placed.choice.sample == LoopChoice::kReduced && sums_over(kernel, kernel.vector)) return false;
    if (is_linear_algebra(placed.root) || is_linear_algebra(kernel.roots.front())) return join_factor(kernel, placed);
    if (!placed.vector) return false;
    // A sum over lanes ends after the vector loop, a map stores inside it; both may share the loop.
    SharedLoops shared = in_shared_loops(algebra_, kernel, adopt(kernel, placed));
    const auto body = read_in_place(kernel, shared.root.body);
    if (!body || nodes_in(*body) > kMaxNodes) return false;
    shared.root.body = *body;
    KernelRoot root = with_inner_loops(algebra_, kernel, std::move(shared));
    kernel.reduces_vector |= placed.choice.vector == LoopChoice::kReduced;
    kernel.roots.push_back(std::move(root));
    return true;
  }

  /// Terms that are added to elements which they name are added by nobody else, and rows whose lengths are data have
  /// loops of their own.
  bool stands_alone(const KernelRoot& root) const { return alone_.contains(root.definition.name); }

  static Names alone_in(const Program& program) {
    Names names;
    for (const Definition& definition : program.definitions) {
      if (scatter_of(program, definition) || has_ranged_reduce(program, definition.body)) names.insert(definition.name);
    }
    return names;
  }

  static bool join_factor(Kernel& kernel, const Placed& placed) {
    KernelRoot root = adopt(kernel, placed);
    if (!share_factor(kernel.roots.front(), root) || !read_in_place(kernel, root.body)) return false;
    kernel.roots.push_back(std::move(root));
    return true;
  }

  void choose_layout(const Placed& placed) {
    const Definition& definition = placed.root.definition;
    if (definition.output || placed.choice.vector < 0 || products_.row_major.contains(definition.name)) return;
    std::vector<std::uint32_t> layout;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (static_cast<int>(k) != placed.choice.fastest) layout.push_back(k);
    }
    layout.push_back(static_cast<std::uint32_t>(placed.choice.fastest));
    fused_.layouts[definition.name] = layout;
    const bool only_kernels = !products_.operands.contains(definition.name);  // a library reads whole matrices
    if (only_kernels && !placed.root.accumulate && layout.size() > 1)
      pad_rows(*fused_.program.find_definition(definition.name), layout.back());
  }

  /// Rows whose length is a multiple of a page would all fall into one set of the nearest cache, rows of a part of a
  /// page into few: they are stored a line apart. Dims that are not known when compiling count samples, often a power
  /// of two.
  static void pad_rows(Definition& definition, std::uint32_t fastest) {
    constexpr std::int64_t kPage = 4096, kLine = 64;
    Affine& extent = definition.axes[fastest].extent;
    const auto bytes = bytes_of(definition.dtype);
    if (definition.scan || extent == Affine(0) || (extent.is_constant() && extent.constant() * bytes % kPage != 0))
      return;
    extent += Affine(kLine / bytes);
  }

  /// A root is stored if it is an output or read by another step (or, at another element, by nobody else: join() has
  /// seen to that).
  void mark_stored() {
    Names read;
    for (const Step& step : fused_.steps) {
      for (const MatrixProduct* product : products_of(step)) read.insert({product->left.tensor, product->right.tensor});
      for (const AlgebraCall* call : algebra_calls_of(step)) {
        for (const std::string& name : operands_of(*call)) read.insert(name);
      }
      if (const auto* call = std::get_if<OrderedSumCall>(&step)) {
        for (const std::string& name : operands_of(*call)) read.insert(name);
      }
      for (const Kernel* kernel : kernels_of(step)) {
        for (const KernelRoot& root : kernel->roots) read.merge(tensors_read(root));
      }
    }
    for (Step& step : fused_.steps) {
      for (Kernel* kernel : parts_of<Kernel>(step)) {
        for (KernelRoot& root : kernel->roots)
          root.stored = root.definition.output || read.contains(root.definition.name);
        std::erase_if(kernel->roots, [](const KernelRoot& root) { return !root.stored; });
      }
      if (auto* scan = std::get_if<ScanLoop>(&step)) std::erase_if(scan->steps, computes_nothing<ScanStep>);
    }
    std::erase_if(fused_.steps, computes_nothing<Step>);
  }

  /// A kernel whose results were read in sums over empty ranges alone.
  template <class AnyStep>
  static bool computes_nothing(const AnyStep& step) {
    const auto* kernel = std::get_if<Kernel>(&step);
    return kernel && kernel->roots.empty();
  }

  const ProductTensors products_;
  const PrefixPlans prefixes_;
  const OrderedSumCalls ordered_;
  std::map<std::string, LoopChoice> choices_;
  FusedProgram fused_;
  const Algebra algebra_;
  const Names alone_;
  std::map<std::string, std::size_t> where_;
};

}  // namespace

std::string argument_of_step(const FusedProgram& fused, const std::string& tensor) {
  const auto folded = fused.folded.find(tensor);
  return folded == fused.folded.end() ? kScanStep : FoldedStep{0, folded->second}.argument();
}

std::vector<const Kernel*> kernels_of(const Step& step) { return parts_of<const Kernel>(step); }
std::vector<const MatrixProduct*> products_of(const Step& step) { return parts_of<const MatrixProduct>(step); }
std::vector<const AlgebraCall*> algebra_calls_of(const Step& step) { return parts_of<const AlgebraCall>(step); }

FusedProgram fuse(const Program& optimised, Products products, Layouts layouts, const DimValues& extents) {
  const bool is_gpu_library = products == Products::blas || products == Products::blas_and_solver;
  const auto operands = is_gpu_library ? LibraryOperands::computed_or_halves : LibraryOperands::computed;
  PrefixPlans prefixes;
  const Program program = with_block_sums(is_gpu_library ? with_stored_operands(optimised) : optimised, prefixes);
  ProductTensors tensors;
  if (products != Products::kernels) tensors = product_tensors(program, products == Products::library, operands);
  OrderedSumCalls ordered;
  if (products == Products::library) {
    add_library_algebra(program, tensors, [](const Definition&) { return true; });
    ordered = ordered_sum_calls(program, extents);
    add_ordered_sums(ordered, tensors);
  }
  if (products == Products::blas_and_solver) {
    add_library_algebra(program, tensors,
                        [&](const Definition& definition) { return is_faster_by_solver(definition, extents); });
  }
  if (layouts == Layouts::row_major) {
    for (const Definition& definition : program.definitions) {
      if (!scatter_of(program, definition)) tensors.row_major.insert(definition.name);
    }
  }
  FusedProgram fused = Fuser(program, std::move(tensors), std::move(prefixes), std::move(ordered), layouts).run();
  if (products == Products::library) find_masks(fused);
  return fused;
}

}  // namespace moxie
