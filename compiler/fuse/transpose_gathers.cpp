#include "compiler/fuse/transpose_gathers.h"

#include <algorithm>

#include "compiler/fuse/matrix_product.h"
#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// Larger tensors do not stay in the nearest caches, where a copy could pay.
constexpr std::int64_t kLargestCopy = 1 << 18;

bool is_small(const std::vector<Affine>& shape) {
  std::int64_t count = 1;
  for (const Affine& extent : shape) {
    if (!extent.is_constant()) return false;
    count = checked_mul(count, std::max<std::int64_t>(extent.constant(), 1));
  }
  return count <= kLargestCopy;
}

class Transposer {
 public:
  Transposer(const Program& program, const ProductTensors& products, Layouts layouts,
             std::map<std::string, LoopChoice>& choices)
      : program_(program), products_(products), layouts_(layouts), choices_(choices), result_(program) {}

  Program run() {
    result_.definitions.clear();
    for (Definition definition : program_.definitions) {
      const LoopChoice choice = choices_.at(definition.name);
      const bool has_both_loops = choice.vector >= 0 && choice.sample != LoopChoice::kNone;
      if (has_both_loops && definition.body->kind != NodeKind::LinearAlgebra && may_read_copies(definition))
        rewrite(definition, choice);
      result_.definitions.push_back(std::move(definition));
    }
    return leave_scans(result_);
  }

 private:
  bool may_read_copies(const Definition& definition) const {
    return layouts_ == Layouts::chosen || scatter_of(program_, definition);
  }

  void rewrite(Definition& definition, const LoopChoice& choice) {
    const Symbol vector = Symbol::axis(static_cast<std::uint32_t>(choice.vector));
    // The reduced index is bound in the body; an access below it that is free of it keeps its form.
    const bool over_axis = choice.sample >= 0;
    const Symbol sample =
        over_axis ? Symbol::axis(static_cast<std::uint32_t>(choice.sample)) : Symbol::bound(definition.body->height);
    definition.body = rewrite_accesses(definition.body, [&](const Expr& e) {
      const auto axis = gathered_axis(definition, e, vector);
      return axis && !e->depends_on(sample) && is_small(program_.shape_of(e->tensor)) ? read_copy(definition, e, *axis)
                                                                                      : e;
    });
  }

  /// Accesses only, bodies as they are stored: no index changes.
  static Expr rewrite_accesses(const Expr& expr, const std::function<Expr(const Expr&)>& f) {
    if (expr->kind == NodeKind::Access) return f(expr);
    std::vector<Expr> args;
    for (const Expr& arg : expr->args) args.push_back(rewrite_accesses(arg, f));
    return with_args(expr, std::move(args));
  }

  /// The axis along which lanes lie, if it is not the fastest in memory and the tensor's place is not the compiler's
  /// choice.
  std::optional<std::size_t> gathered_axis(const Definition& reader, const Expr& access, Symbol vector) const {
    const Definition* producer = program_.find_definition(access->tensor);
    if (producer && producer->scan && producer->scan == reader.scan) return std::nullopt;  // not all there yet
    const bool free_layout = producer && !producer->output && !products_.row_major.contains(access->tensor);
    if (free_layout && chosen_axis(access->tensor) < 0) return std::nullopt;
    std::optional<std::size_t> found;
    for (std::size_t axis = 0; axis < access->subscripts.size(); ++axis) {
      if (!access->subscripts[axis].mentions(vector)) continue;
      if (found || access->subscripts[axis] != Affine(vector)) return std::nullopt;
      found = axis;
    }
    if (!found) return std::nullopt;
    const std::size_t fastest =
        free_layout ? static_cast<std::size_t>(chosen_axis(access->tensor)) : access->subscripts.size() - 1;
    return *found == fastest ? std::nullopt : found;
  }

  int chosen_axis(const std::string& tensor) const { return choices_.at(tensor).fastest; }

  Expr read_copy(const Definition& reader, const Expr& access, std::size_t axis) {
    std::vector<Affine> subscripts = access->subscripts;
    std::rotate(subscripts.begin() + static_cast<std::ptrdiff_t>(axis),
                subscripts.begin() + static_cast<std::ptrdiff_t>(axis) + 1, subscripts.end());
    return tensor_access(copy_of(reader, access->tensor, axis), std::move(subscripts), access->args);
  }

  std::string copy_of(const Definition& reader, const std::string& tensor, std::size_t axis) {
    auto& name = copies_[{tensor, axis}];
    if (!name.empty()) return name;
    name = unused_name(result_, tensor + ".transposed");
    const std::vector<Affine> shape = program_.shape_of(tensor);
    Definition copy;
    copy.name = name;
    copy.dtype = program_.dtype_of(tensor);
    std::vector<Affine> subscripts(shape.size());
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const std::size_t source = k + 1 == shape.size() ? axis : k < axis ? k : k + 1;
      copy.axes.push_back({"i" + std::to_string(k), shape[source], Range::extent(shape[source])});
      subscripts[source] = Symbol::axis(static_cast<std::uint32_t>(k));
    }
    copy.body = tensor_access(tensor, std::move(subscripts));
    copy.scan = reader.scan;  // until all are there
    const int last = static_cast<int>(shape.size()) - 1;
    choices_[name] = {last, LoopChoice::kNone, 0, last};
    result_.definitions.push_back(std::move(copy));
    return name;
  }

  const Program& program_;
  const ProductTensors& products_;
  const Layouts layouts_;
  std::map<std::string, LoopChoice>& choices_;
  Program result_;
  std::map<std::pair<std::string, std::size_t>, std::string> copies_;
};

}  // namespace

Program transpose_gathers(const Program& program, const ProductTensors& products, Layouts layouts,
                          std::map<std::string, LoopChoice>& choices) {
  return Transposer(program, products, layouts, choices).run();
}

}  // namespace moxie
