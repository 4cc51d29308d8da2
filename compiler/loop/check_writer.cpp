#include "compiler/loop/check_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/expression/functions.h"
#include "compiler/loop/operands.h"
#include "compiler/rewrite/algebra/extract.h"

namespace moxie {
namespace {

constexpr std::size_t kMostCoordinates = std::size(KernelStatus{}.coordinates);
/// Of a formula in a message.
constexpr std::size_t kLongestFormula = 240;

std::vector<std::string> names_of(const std::vector<AxisDecl>& axes) {
  std::vector<std::string> names;
  for (const AxisDecl& axis : axes) names.push_back(axis.name);
  return names;
}

/// Where an element comes from, for the message.
std::string origin_of(const Program& program, const std::string& tensor) {
  const Definition* definition = program.find_definition(tensor);
  if (!definition) return "it is an input";
  std::string formula = print(definition->body, program, definition->axes);
  if (formula.size() > kLongestFormula) formula = formula.substr(0, kLongestFormula) + "...";
  return fmt::format("it is computed as {}", formula);
}

}  // namespace

std::vector<AxisDecl> axes_of(const Program& program, const std::string& tensor) {
  if (const Definition* definition = program.find_definition(tensor)) return definition->axes;
  std::vector<AxisDecl> axes;
  for (const Affine& extent : program.shape_of(tensor)) {
    axes.push_back({axis_name(program, axes, extent), extent, Range::extent(extent)});
  }
  return axes;
}

void CheckWriter::check_value(Block& out, const std::string& tensor, const std::vector<Affine>& element,
                              ValueId value) {
  const auto declare = [&](const std::string& what) {
    return CheckDecl{tensor + what, names_of(axes_of(source_, tensor)), origin_of(source_, tensor)};
  };
  if (checks_.nan) fail_if(out, not_finite(out, value), declare(" is not finite"), element, value);
  if (!checks_.negvar) return;
  const ValueDomain domain = source_.domain_of(tensor);
  if (domain != ValueDomain::Any)
    fail_if(out, outside(out, domain, value), declare(" is not " + to_string(domain)), element, value);
}

std::optional<ValueId> CheckWriter::check_subscripts(Block& out, const Place& place,
                                                     const std::vector<Affine>& subscripts,
                                                     std::optional<ValueId> guard) {
  std::vector<std::string> names;
  std::vector<Affine> known;  // what depends on values is checked where it is read
  for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
    if (subscripts[axis].mentions_value()) continue;
    names.push_back(fmt::format("subscript {}", axis));
    known.push_back(subscripts[axis]);
  }
  std::optional<ValueId> anywhere;
  for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
    if (subscripts[axis].mentions_value()) continue;
    const ValueId subscript = number(out, subscripts[axis]);
    const ValueId below = call(out, "<", {subscript, constant(out, 0, ValueType::f64)});
    const ValueId above = call(out, ">=", {subscript, number(out, place.extents[axis])});
    ValueId outside = call(out, "or", {below, above});
    if (guard) outside = call(out, "and", {*guard, outside});
    fail_if(out, outside,
            {fmt::format("{}: subscript {} lies outside the tensor", place.name, axis), names,
             fmt::format("the extent of this axis is {}", print(place.extents[axis]))},
            known, subscript);
    anywhere = anywhere ? call(out, "or", {*anywhere, outside}) : outside;
  }
  return anywhere;
}

void CheckWriter::check_subscript(Block& out, const Place& place, const op::Subscript& subscript) {
  const ValueId at = number(out, subscript.value);
  const ValueId below = call(out, "<", {at, constant(out, 0, ValueType::f64)});
  const ValueId above = call(out, ">=", {at, number(out, place.extents.at(subscript.axis))});
  ValueId outside = call(out, "or", {below, above});
  if (subscript.guard) outside = call(out, "and", {*subscript.guard, outside});
  fail_if(out, outside,
          {fmt::format("{}: subscript {}, which is read from a tensor, lies outside", place.name, subscript.axis),
           {},
           fmt::format("the extent of this axis is {}", print(place.extents[subscript.axis]))},
          {}, at);
}

std::optional<ValueId> CheckWriter::check_load(Block& out, const Place& place, const std::vector<Affine>& subscripts,
                                               std::optional<ValueId> guard) {
  const auto outside = check_subscripts(out, place, subscripts, guard);
  if (!outside) return guard;
  const ValueId inside = call(out, "not", {*outside});
  return guard ? call(out, "and", {*guard, inside}) : inside;
}

ValueId CheckWriter::emit(Block& out, ValueType type, bool varying, Operation operation) {
  const auto id = static_cast<ValueId>(program_.values.size());
  program_.values.push_back({type, varying, std::move(operation)});
  out.push_back(stmt::Let{id});
  return id;
}

/// In double: exact for every subscript.
ValueId CheckWriter::number(Block& out, const Affine& value) {
  const bool varying = (lanes && value.mentions(*lanes)) || mentions_varying(program_, value);
  return emit(out, ValueType::f64, varying, op::Number{value});
}

ValueId CheckWriter::call(Block& out, std::string_view name, std::vector<ValueId> args) {
  const ScalarFunction& f = function(name);
  const ValueType type = f.result == ResultType::Truth ? ValueType::truth : program_.values[args[0]].type;
  const bool varying = std::ranges::any_of(args, [&](ValueId arg) { return program_.values[arg].varying; });
  return emit(out, type, varying, op::Call{&f, std::move(args)});
}

/// A comparison with NaN is false.
ValueId CheckWriter::not_finite(Block& out, ValueId value) {
  const ValueId infinity = constant(out, std::numeric_limits<double>::infinity(), program_.values[value].type);
  return call(out, "not", {call(out, "<", {call(out, "abs", {value}), infinity})});
}

/// NaN is outside.
ValueId CheckWriter::outside(Block& out, const ValueDomain& domain, ValueId value) {
  std::vector<ValueId> inside;
  const auto compare = [&](const std::optional<ValueDomain::Bound>& bound, const char* closed, const char* open) {
    if (!bound) return;
    const ValueId number = constant(out, bound->value, program_.values[value].type);
    inside.push_back(call(out, bound->open ? open : closed, {value, number}));
  };
  compare(domain.low, ">=", ">");
  compare(domain.high, "<=", "<");
  const ValueId all = inside.size() == 1 ? inside[0] : call(out, "and", inside);
  return call(out, "not", {all});
}

/// A status has room for a few coordinates; of a tensor with more axes it gives the first.
void CheckWriter::fail_if(Block& out, ValueId bad, CheckDecl decl, const std::vector<Affine>& coordinates,
                          ValueId value) {
  const auto count = std::min(kMostCoordinates, coordinates.size());
  decl.coordinate_names.resize(count);
  const auto check = static_cast<std::uint32_t>(program_.checks.size());
  program_.checks.push_back(std::move(decl));
  const auto end = coordinates.begin() + static_cast<std::ptrdiff_t>(count);
  out.push_back(stmt::Check{bad, check, {coordinates.begin(), end}, value});
}

}  // namespace moxie
