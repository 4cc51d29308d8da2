#include "compiler/fuse/one_step.h"

#include <set>

#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

using Names = std::set<std::string>;

const Affine& scan_step() {
  static const Affine step(Symbol::dim(kScanStep));
  return step;
}

/// What the kernels and products of a scan compute.
Names computed_in(const Program& program, const Step& step) {
  Names names;
  const auto add = [&](const Definition& definition) {
    if (!program.find_definition(definition.name)->output) names.insert(definition.name);
  };
  if (!std::holds_alternative<ScanLoop>(step)) return names;
  for (const Kernel* kernel : kernels_of(step)) {
    for (const KernelRoot& root : kernel->roots) add(root.definition);
  }
  for (const MatrixProduct* product : products_of(step)) add(product->definition);
  return names;
}

/// Takes out what is read at another step than that of the scan; anywhere else than in the scan, all that is read.
void drop_kept(Names& names, const Step& reader, bool is_own_scan) {
  const auto see = [&](const std::string& tensor, const Affine* step) {
    if (!is_own_scan || !step || *step != scan_step()) names.erase(tensor);
  };
  for (const MatrixProduct* product : products_of(reader)) {
    for (const ProductOperand* operand : {&product->left, &product->right})
      see(operand->tensor, operand->step ? &*operand->step : nullptr);
  }
  if (const auto* call = std::get_if<AlgebraCall>(&reader)) {
    for (const std::string& operand : operands_of(*call)) see(operand, nullptr);
  }
  if (const auto* call = std::get_if<OrderedSumCall>(&reader)) {
    for (const std::string& operand : operands_of(*call)) see(operand, nullptr);
  }
  for (const Kernel* kernel : kernels_of(reader)) {
    for (const KernelRoot& root : kernel->roots) {
      visit(root.body, [&](const Expr& e) {
        if (e->kind == NodeKind::Access) see(e->tensor, e->subscripts.empty() ? nullptr : &e->subscripts[0]);
      });
    }
  }
}

Expr at_only_step(const Expr& body, const Names& names) {
  return rewrite_bottom_up(body, {}, [&](const Expr& e, const Scope&) {
    if (e->kind != NodeKind::Access || !names.contains(e->tensor)) return e;
    std::vector<Affine> subscripts = e->subscripts;
    subscripts[0] = 0;
    return tensor_access(e->tensor, std::move(subscripts), e->args);
  });
}

void keep_one_step(Kernel& kernel, const Names& names) {
  for (KernelRoot& root : kernel.roots) {
    if (names.contains(root.definition.name)) root.subscripts[0] = 0;
    root.body = at_only_step(root.body, names);
  }
}

void keep_one_step(MatrixProduct& product, const Names& names) {
  for (ProductOperand* operand : {&product.left, &product.right, &product.out}) {
    if (names.contains(operand->tensor)) operand->step = Affine(0);
  }
}

}  // namespace

void keep_one_step(FusedProgram& fused) {
  for (Step& step : fused.steps) {
    Names names = computed_in(fused.program, step);
    if (names.empty()) continue;  // only scans compute such tensors; most steps are none
    for (const Step& reader : fused.steps) drop_kept(names, reader, &reader == &step);
    if (names.empty()) continue;
    for (ScanStep& part : std::get<ScanLoop>(step).steps) std::visit([&](auto& p) { keep_one_step(p, names); }, part);
    for (const std::string& name : names) {
      AxisDecl& steps = fused.program.find_definition(name)->axes[0];
      steps.extent = 1;
      steps.range = Range::extent(1);
    }
  }
}

}  // namespace moxie
