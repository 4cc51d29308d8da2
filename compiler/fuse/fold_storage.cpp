#include "compiler/fuse/fold_storage.h"

#include <algorithm>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/support/error.h"

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

/// A subscript of a definition of a scan, at its step.
Affine at_scan_step(const Affine& subscript) {
  return subscript.substitute([](Symbol symbol) { return symbol == Symbol::axis(0) ? &scan_step() : nullptr; });
}

/// Whether the loops over other axes differ from step to step: the last step in the same place left other elements.
bool moves_with_step(const Definition& definition) {
  return std::ranges::any_of(definition.axes, [](const AxisDecl& axis) {
    const auto mentions = [](const Bound& bound) { return bound.value.mentions(Symbol::axis(0)); };
    return std::ranges::any_of(axis.range.lows, mentions) || std::ranges::any_of(axis.range.highs, mentions);
  });
}

const Definition& definition_of(const Kernel& kernel) { return kernel.roots.front().definition; }
const Definition& definition_of(const MatrixProduct& product) { return product.definition; }
const Definition& definition_of(const AlgebraCall& call) { return call.definition; }

/// Whether the definition belongs to the scan. A definition that its readers inline counts too: with other loops it may
/// become a separate kernel.
bool is_step_of(const ScanLoop& scan, const Definition& definition) {
  const auto scan_of = [](const ScanStep& step) {
    return std::visit([](const auto& part) { return definition_of(part).scan; }, step);
  };
  return definition.scan && !scan.steps.empty() && scan_of(scan.steps.front()) == definition.scan;
}

/// The tensors of a scan that nobody reads but the Program itself.
Kept computed_in(const Program& program, const ScanLoop& scan) {
  Kept kept;
  for (const Definition& definition : program.definitions) {
    if (is_step_of(scan, definition) && !definition.output) kept[definition.name] = 1;
  }
  return kept;
}

/// How many steps before the current one `step` is, or after the scan before the last one.
Affine lag_of(const ScanLoop& scan, const Affine& step, bool is_own_scan) {
  const Affine now = is_own_scan ? scan_step() : scan.backwards ? Affine(0) : scan.extent - Affine(1);
  return scan.backwards ? step - now : now - step;
}

/// One scan's tensors, and the definitions that read them.
class Folding {
 public:
  Folding(const FusedProgram& fused, const ScanLoop& scan) : scan_(scan), kept_(computed_in(fused.program, scan)) {
    for (const Definition& reader : fused.program.definitions) see(reader);
    for (const Step& step : fused.steps) {
      // A library of linear algebra reads and writes tensors with all of their steps.
      for (const AlgebraCall* call : algebra_calls_of(step)) {
        need_whole(operands_of(*call));
        need_whole({call->definition.name});
      }
      if (const auto* call = std::get_if<OrderedSumCall>(&step)) need_whole(operands_of(*call));
    }
    std::erase_if(kept_, [&](const auto& entry) {
      const auto& [name, count] = entry;
      const bool has_all = scan.extent.is_constant() && scan.extent.constant() <= count;
      return count > kMaxKept || (has_all && count > 1) ||
             (count > 1 && moves_with_step(*fused.program.find_definition(name)));
    });
  }

  const Kept& kept() const { return kept_; }

 private:
  void need_whole(const std::vector<std::string>& tensors) {
    for (const std::string& tensor : tensors) kept_.erase(tensor);
  }

  void see(const Definition& reader) {
    const bool is_own_scan = is_step_of(scan_, reader);
    visit(reader.body, [&](const Expr& e) {
      const auto entry = e->kind == NodeKind::Access ? kept_.find(e->tensor) : kept_.end();
      if (entry == kept_.end()) return;
      const Affine lag = lag_of(scan_, is_own_scan ? at_scan_step(e->subscripts[0]) : e->subscripts[0], is_own_scan);
      if (lag.is_constant() && lag.constant() >= 0)
        entry->second = std::max(entry->second, lag.constant() + 1);
      else
        kept_.erase(entry);
    });
  }

  const ScanLoop& scan_;
  Kept kept_;
};

/// Writes where the steps of folded tensors lie in place of the steps.
class FoldedPlaces {
 public:
  FoldedPlaces(const ScanLoop& scan, Kept kept) : scan_(scan), kept_(std::move(kept)) {}

  /// `body` reads the steps of its own scan relative to kScanStep.
  Expr apply(const Expr& body, bool is_own_scan) const {
    return rewrite_bottom_up(body, {}, [&](const Expr& e, const Scope&) {
      if (e->kind != NodeKind::Access || !kept_.contains(e->tensor)) return e;
      std::vector<Affine> subscripts = e->subscripts;
      subscripts[0] = place(e->tensor, subscripts[0], is_own_scan);
      return tensor_access(e->tensor, std::move(subscripts), e->args);
    });
  }

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
      root.body = apply(root.body, is_own_scan);
    }
  }

  static void apply(AlgebraCall& /*call*/, bool /*is_own_scan*/) {}

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

Range steps_of(const FusedProgram& fused, const Definition& definition) {
  for (const Step& step : fused.steps) {
    const auto* scan = std::get_if<ScanLoop>(&step);
    if (scan && is_step_of(*scan, definition)) return Range::extent(scan->extent);
  }
  throw InternalError("no scan computes " + definition.name);
}

Affine place_of_step(const FusedProgram& fused, const std::string& tensor) {
  const auto folded = fused.folded.find(tensor);
  if (folded == fused.folded.end()) return scan_step();
  return folded->second == 1 ? Affine(0) : Symbol::dim(FoldedStep{0, folded->second}.argument());
}

Expr body_in_storage(const FusedProgram& fused, const Definition& definition) {
  Expr body = definition.scan ? substitute(definition.body, {{Symbol::axis(0), scan_step()}}) : definition.body;
  for (const Step& step : fused.steps) {
    const auto* scan = std::get_if<ScanLoop>(&step);
    if (!scan) continue;
    Kept kept;
    for (const auto& entry : fused.folded) {
      if (is_step_of(*scan, *fused.program.find_definition(entry.first))) kept.insert(entry);
    }
    if (!kept.empty()) body = FoldedPlaces(*scan, std::move(kept)).apply(body, is_step_of(*scan, definition));
  }
  return body;
}

std::set<std::string> folded_steps_in(const Expr& body) {
  std::set<std::string> arguments;
  visit(body, [&](const Expr& e) {
    const auto step = e->subscripts.empty() ? std::nullopt : e->subscripts.front().as_symbol();
    if (step && step->is_dim() && folded_step(step->name())) arguments.insert(step->name());
  });
  return arguments;
}

}  // namespace moxie
