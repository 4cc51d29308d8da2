#include "compiler/fuse/fold_storage.h"

#include <algorithm>

#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// The most steps that are kept in place of all of them: a stencil of order 6 in time reads that many.
constexpr std::int64_t kMaxKept = 8;

/// For every tensor that may be folded, how many steps are kept.
using Kept = std::map<std::string, std::int64_t>;

const Affine& scan_step() {
  static const Affine step(Symbol::dim(kScanStep));
  return step;
}

/// Whether the loops over other axes differ from step to step: the last step in the same place left other elements.
bool moves_with_step(const Definition& definition) {
  return std::ranges::any_of(definition.axes, [](const AxisDecl& axis) {
    const auto mentions = [](const Bound& bound) { return bound.value.mentions(Symbol::axis(0)); };
    return std::ranges::any_of(axis.range.lows, mentions) || std::ranges::any_of(axis.range.highs, mentions);
  });
}

/// What the kernels and products of a scan compute.
Kept computed_in(const Program& program, const ScanLoop& scan) {
  Kept kept;
  const auto add = [&](const Definition& definition) {
    if (!program.find_definition(definition.name)->output) kept[definition.name] = 1;
  };
  for (const ScanStep& step : scan.steps) {
    if (const auto* kernel = std::get_if<Kernel>(&step)) {
      for (const KernelRoot& root : kernel->roots) add(root.definition);
    } else {
      add(std::get<MatrixProduct>(step).definition);
    }
  }
  return kept;
}

/// How many steps before the current one `step` is, or after the scan before the last one.
Affine lag_of(const ScanLoop& scan, const Affine& step, bool is_own_scan) {
  const Affine now = is_own_scan ? scan_step() : scan.backwards ? Affine(0) : scan.extent - Affine(1);
  return scan.backwards ? step - now : now - step;
}

/// One scan's tensors, and those who read them.
class Folding {
 public:
  Folding(FusedProgram& fused, const ScanLoop& scan) : scan_(scan), kept_(computed_in(fused.program, scan)) {
    for (const Step& reader : fused.steps) see(reader);
    std::erase_if(kept_, [&](const auto& entry) {
      const auto& [name, count] = entry;
      const bool has_all = scan.extent.is_constant() && scan.extent.constant() <= count;
      return count > kMaxKept || (has_all && count > 1) ||
             (count > 1 && moves_with_step(*fused.program.find_definition(name)));
    });
  }

  const Kept& kept() const { return kept_; }

 private:
  void see(const Step& reader) {
    const auto* loop = std::get_if<ScanLoop>(&reader);
    const bool is_own_scan = loop == &scan_;
    for (const MatrixProduct* product : products_of(reader)) {
      for (const ProductOperand* operand : {&product->left, &product->right})
        see(operand->tensor, operand->step ? &*operand->step : nullptr, is_own_scan);
    }
    if (const auto* call = std::get_if<AlgebraCall>(&reader)) {
      for (const std::string& operand : operands_of(*call)) kept_.erase(operand);
    }
    if (const auto* call = std::get_if<OrderedSumCall>(&reader)) {
      for (const std::string& operand : operands_of(*call)) kept_.erase(operand);
    }
    for (const Kernel* kernel : kernels_of(reader)) {
      for (const KernelRoot& root : kernel->roots) {
        visit(root.body, [&](const Expr& e) {
          if (e->kind == NodeKind::Access)
            see(e->tensor, e->subscripts.empty() ? nullptr : &e->subscripts[0], is_own_scan);
        });
      }
    }
  }

  void see(const std::string& tensor, const Affine* step, bool is_own_scan) {
    const auto entry = kept_.find(tensor);
    if (entry == kept_.end()) return;
    const std::optional<Affine> lag = step ? std::optional(lag_of(scan_, *step, is_own_scan)) : std::nullopt;
    if (lag && lag->is_constant() && lag->constant() >= 0)
      entry->second = std::max(entry->second, lag->constant() + 1);
    else
      kept_.erase(entry);
  }

  const ScanLoop& scan_;
  Kept kept_;
};

/// Writes where the steps of folded tensors lie in place of the steps.
class FoldedPlaces {
 public:
  FoldedPlaces(const ScanLoop& scan, Kept kept) : scan_(scan), kept_(std::move(kept)) {}

  void apply(Step& reader, bool is_own_scan) const {
    if (auto* kernel = std::get_if<Kernel>(&reader)) apply(*kernel, is_own_scan);
    if (auto* product = std::get_if<MatrixProduct>(&reader)) apply(*product, is_own_scan);
    if (auto* loop = std::get_if<ScanLoop>(&reader)) {
      for (ScanStep& part : loop->steps) std::visit([&](auto& p) { apply(p, is_own_scan); }, part);
    }
  }

 private:
  void apply(Kernel& kernel, bool is_own_scan) const {
    for (KernelRoot& root : kernel.roots) {
      if (kept_.contains(root.definition.name))
        root.subscripts[0] = place(root.definition.name, root.subscripts[0], true);
      root.body = rewrite_bottom_up(root.body, {}, [&](const Expr& e, const Scope&) {
        if (e->kind != NodeKind::Access || !kept_.contains(e->tensor)) return e;
        std::vector<Affine> subscripts = e->subscripts;
        subscripts[0] = place(e->tensor, subscripts[0], is_own_scan);
        return tensor_access(e->tensor, std::move(subscripts), e->args);
      });
    }
  }

  void apply(MatrixProduct& product, bool is_own_scan) const {
    for (ProductOperand* operand : {&product.left, &product.right, &product.out}) {
      if (kept_.contains(operand->tensor)) operand->step = place(operand->tensor, *operand->step, is_own_scan);
    }
  }

  Affine place(const std::string& tensor, const Affine& step, bool is_own_scan) const {
    const FoldedStep folded{lag_of(scan_, step, is_own_scan).constant(), kept_.at(tensor)};
    if (folded.count == 1 || !is_own_scan) return folded.place({});
    return Symbol::dim(folded.argument());
  }

  const ScanLoop& scan_;
  const Kept kept_;
};

}  // namespace

void fold_storage(FusedProgram& fused) {
  for (const Step& step : fused.steps) {
    const auto* scan = std::get_if<ScanLoop>(&step);
    if (!scan) continue;
    const Kept kept = Folding(fused, *scan).kept();
    if (kept.empty()) continue;
    const FoldedPlaces places(*scan, kept);
    for (Step& reader : fused.steps) places.apply(reader, &reader == &step);
    for (const auto& [name, count] : kept) {
      AxisDecl& steps = fused.program.find_definition(name)->axes[0];
      steps.extent = count;
      steps.range = Range::extent(count);
    }
    fused.folded.insert(kept.begin(), kept.end());
  }
}

}  // namespace moxie
