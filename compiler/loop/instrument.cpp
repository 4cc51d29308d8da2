#include "compiler/loop/instrument.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/loop/check_writer.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::array<bool Checks::*, kCheckNames.size()> kCheckFields = {&Checks::nan, &Checks::negvar,
                                                                         &Checks::bounds};

/// The coordinates of what lies there: of a folded tensor, with the step in place of where it lies.
std::vector<Affine> element_at(std::vector<Affine> subscripts) {
  const auto first = subscripts.empty() ? std::nullopt : subscripts.front().as_symbol();
  if (first && first->is_dim() && folded_step(first->name())) subscripts.front() = Symbol::dim(kScanStep);
  return subscripts;
}

class Instrumentation {
 public:
  Instrumentation(LoweredKernel kernel, const Program& program, const Checks& checks)
      : kernel_(for_threads(std::move(kernel))), writer_(kernel_.program, program, checks), checks_(checks) {}

  LoweredKernel run() {
    kernel_.program.body = instrumented(kernel_.program.body);
    verify(kernel_.program);
    return std::move(kernel_);
  }

 private:
  Block instrumented(const Block& block) {
    Block out;
    for (const Statement& statement : block) std::visit([&](const auto& s) { copy(s, out); }, statement);
    return out;
  }

  void copy(const auto& s, Block& out) { out.push_back(s); }

  void copy(const stmt::For& s, Block& out) {
    stmt::For loop = s;
    if (s.vector) writer_.lanes = s.variable;
    loop.body = instrumented(s.body);
    if (s.vector) writer_.lanes.reset();
    out.push_back(std::move(loop));
  }

  void copy(const stmt::Let& s, Block& out) {
    if (checks_.bounds) {
      // A copy: the checks add values.
      Operation operation = kernel_.program.values[s.id].operation;
      if (auto* load = std::get_if<op::Load>(&operation)) {
        load->guard = writer_.check_load(out, buffer(load->buffer), load->subscripts, load->guard);
      } else if (const auto* subscript = std::get_if<op::Subscript>(&operation)) {
        writer_.check_subscript(out, buffer(subscript->buffer), *subscript);
      } else if (const auto* from_array = std::get_if<op::LoadArray>(&operation)) {
        writer_.check_subscripts(out, array(from_array->array), from_array->subscripts, std::nullopt);
      }
      kernel_.program.values[s.id].operation = std::move(operation);
    }
    out.push_back(s);
  }

  void copy(const stmt::StoreArray& s, Block& out) {
    if (checks_.bounds) writer_.check_subscripts(out, array(s.array), s.subscripts, std::nullopt);
    out.push_back(s);
  }

  void copy(const stmt::Store& s, Block& out) {
    if (checks_.bounds) writer_.check_subscripts(out, buffer(s.buffer), s.subscripts, std::nullopt);
    out.push_back(s);
    const BufferUse& use = kernel_.uses[s.buffer];
    if (!use.partial) writer_.check_value(out, use.tensor, element_at(s.subscripts), s.value);
  }

  Place buffer(BufferId id) const {
    const BufferDecl& decl = kernel_.program.buffers[id];
    return {decl.name, decl.shape};
  }
  Place array(ArrayId id) const {
    const ArrayDecl& decl = kernel_.program.arrays[id];
    return {decl.name, decl.extents};
  }

  LoweredKernel kernel_;
  CheckWriter writer_;
  Checks checks_;
};

}  // namespace

Checks checks_named(std::span<const std::string> names) {
  Checks checks;
  for (const std::string& name : names) {
    const auto* const known = std::ranges::find(kCheckNames, name);
    if (known == kCheckNames.end())
      throw TypeError(fmt::format("there is no check '{}'; choose from: {}", name, fmt::join(kCheckNames, ", ")));
    checks.*kCheckFields[static_cast<std::size_t>(known - kCheckNames.begin())] = true;
  }
  return checks;
}

LoweredKernel instrument(LoweredKernel kernel, const Program& program, const Checks& checks) {
  return Instrumentation(std::move(kernel), program, checks).run();
}

LoweredKernel inspect(const FusedProgram& fused, const std::string& tensor, const Checks& checks) {
  LoweredKernel kernel;
  LoopProgram& program = kernel.program;
  program.name = kernel_name("check." + tensor);
  program.precision = fused.program.precision;
  program.comments = {"checks " + tensor};
  const Definition* definition = fused.program.find_definition(tensor);
  kernel.in_scan = definition && definition->scan;
  std::set<std::string> of_scan;
  if (kernel.in_scan) of_scan.insert({kScanStep, argument_of_step(fused, tensor)});
  program.arguments = kernel_arguments(fused.program, of_scan);
  program.buffers = {declare_buffer(fused, tensor)};
  kernel.uses = {{tensor, false, std::nullopt}};

  const ValueType type = value_type(fused.program.dtype_of(tensor));
  const std::vector<AxisDecl> axes = axes_of(fused.program, tensor);
  std::vector<Affine> element;
  for (std::uint32_t k = 0; k < axes.size(); ++k) element.emplace_back(Symbol::bound(k));
  if (kernel.in_scan) element[0] = Affine(Symbol::dim(argument_of_step(fused, tensor)));
  program.values = {{type, false, op::Load{0, element, std::nullopt}}};
  Block body = {stmt::Let{0}};
  CheckWriter(program, fused.program, checks).check_value(body, tensor, element_at(element), 0);
  const auto loop_variable = [&](Symbol s) { return s.kind() == Symbol::Kind::Axis ? &element[s.number()] : nullptr; };
  for (std::uint32_t k = static_cast<std::uint32_t>(axes.size()); k-- > (kernel.in_scan ? 1U : 0U);) {
    body = {stmt::For{Symbol::bound(k), axes[k].range.substitute(loop_variable), false, std::move(body), axes[k].name}};
  }
  program.body = std::move(body);
  verify(program);
  return kernel;
}

}  // namespace moxie
