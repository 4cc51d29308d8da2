// What each operation of a LoopProgram becomes.
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "compiler/arithmetic/philox.h"
#include "compiler/codegen/cuda/cuda_writer.h"
#include "compiler/expression/functions.h"
#include "compiler/loop/operands.h"
#include "compiler/support/error.h"

namespace moxie::cuda_text {
namespace {

/// Powers up to this are multiplied out.
constexpr double kMostMultiplied = 8;

/// A literal. The value is rounded first: a double may be infinite in single precision.
std::string number(double exact, ValueType type) {
  if (type == ValueType::index) return fmt::format("{}", static_cast<std::int64_t>(exact));
  const char* name = type == ValueType::f32 ? "float" : "double";
  const double value = type == ValueType::f32 ? static_cast<double>(static_cast<float>(exact)) : exact;
  if (std::isinf(value)) return fmt::format("{}infinity<{}>()", value < 0 ? "-" : "", name);
  if (std::isnan(value)) return fmt::format("(infinity<{0}>() - infinity<{0}>())", name);
  std::string text = type == ValueType::f32 ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (type == ValueType::f32) text += "f";
  return value < 0 ? "(" + text + ")" : text;
}

/// The spelling of the function table with the arguments put in.
std::string spelled(std::string_view spelling, const std::vector<std::string>& args) {
  std::string text;
  for (std::size_t i = 0; i < spelling.size(); ++i) {
    if (spelling[i] == '$')
      text += args.at(static_cast<std::size_t>(spelling[++i] - '0'));
    else
      text += spelling[i];
  }
  return text;
}

/// An element as a value of another type.
std::string converted(const std::string& text, DType from, ValueType to) {
  if (to == ValueType::index && from == DType::i64) return fmt::format("exact_index({})", text);
  if (computed_dtype(from) == DType::f32 && from != DType::f32)
    return fmt::format("{}half_number({}){}", to == ValueType::f32 ? "" : "double(", text,
                       to == ValueType::f32 ? "" : ")");
  return to == ValueType::index || type_name(from) == type_name(to) ? text : fmt::format("{}({})", type_name(to), text);
}

}  // namespace

/// What is read from a tensor may be moved beyond the range of Index before it is a subscript.
std::string type_name(ValueType type) {
  static constexpr const char* names[] = {"float", "double", "bool", "long long"};
  return names[static_cast<int>(type)];
}
std::string type_name(DType dtype) { return info_of(dtype).cuda; }

std::string combination_name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum:
      return "Sum";
    case ReduceKind::Product:
      return "Product";
    case ReduceKind::Max:
      return "Max";
    case ReduceKind::Min:
      return "Min";
    default:
      break;
  }
  throw InternalError(std::string("lanes cannot be combined by ") + to_string(kind));
}

std::string CudaWriter::operand(ValueId id) const {
  if (inlining_(id) && !value_texts_.at(id).empty()) return value_texts_[id];
  return kept_.contains(id) ? fmt::format("{}[{}]", Names::value(id), neighbour_) : Names::value(id);
}

std::string CudaWriter::text(ValueId id) {
  const Value& value = program().values.at(id);
  const auto wide = wide_loads_.find(id);
  if (wide != wide_loads_.end())
    return converted(wide->second, program().buffers.at(std::get<op::Load>(value.operation).buffer).dtype, value.type);
  return std::visit([&](const auto& o) { return text(value, o); }, value.operation);
}

std::string CudaWriter::text(const Value& value, const op::Constant& o) {
  return value.type == ValueType::truth ? (o.value != 0 ? "true" : "false") : number(o.value, value.type);
}

std::string CudaWriter::text(const Value& value, const op::Number& o) {
  return fmt::format("{}({})", type_name(value.type), affine(o.value));
}

std::string CudaWriter::text(const Value& value, const op::Load& o) {
  const BufferDecl& buffer = program().buffers.at(o.buffer);
  const auto table = tables_.find(o.buffer);
  std::string text = table == tables_.end() ? element(buffer, names_.buffer(o.buffer), o.subscripts)
                                            : table_element(o.buffer, o.subscripts);
  text = converted(text, buffer.dtype, value.type);
  return o.guard ? fmt::format("({} ? {} : {})", operand(*o.guard), text, number(0, value.type)) : text;
}

std::string CudaWriter::text(const Value&, const op::Subscript& o) {
  const Affine& extent = program().buffers.at(o.buffer).shape.at(o.axis);
  return fmt::format("inside_extent({}, {})", affine(o.value), affine(extent));
}

std::string CudaWriter::text(const Value& value, const op::LoadArray& o) {
  return converted(array_element(o.array, o.subscripts), program().arrays.at(o.array).dtype, value.type);
}

std::string CudaWriter::text(const Value&, const op::ReadVar& o) { return Names::var(o.var); }

/// What stands for a value, where a function template deduces its type: an element of an array is said to be a number.
std::string CudaWriter::number_operand(ValueId id) const {
  const Value& value = program().values.at(id);
  const bool element =
      std::holds_alternative<op::Load>(value.operation) || std::holds_alternative<op::LoadArray>(value.operation);
  return element && operand(id).ends_with(']') ? fmt::format("{}({})", type_name(value.type), operand(id))
                                               : operand(id);
}

/// A comparison of indices, in integers: many GPUs run double precision at 1/32 of their rate in single precision.
std::optional<std::string> CudaWriter::compared_indices(const op::Call& o) const {
  if (o.function->fixity != Fixity::Infix || o.function->result != ResultType::Truth || o.args.size() != 2)
    return std::nullopt;
  const Value &left = program().values.at(o.args[0]), &right = program().values.at(o.args[1]);
  const auto a = index_in(left), b = index_in(right);
  if (!a || !b || a->mentions_value() || b->mentions_value()) return std::nullopt;
  return fmt::format("({} {} {})", affine(*a), o.function->name, affine(*b));
}

std::string CudaWriter::text(const Value&, const op::Call& o) {
  if (const auto compared = compared_indices(o)) return *compared;
  const bool is_operator = o.function->cuda.starts_with('(');
  std::vector<std::string> args;
  for (const ValueId arg : o.args) args.push_back(is_operator ? operand(arg) : number_operand(arg));
  if (o.function->name == "pow") {
    const auto* exponent = std::get_if<op::Constant>(&program().values.at(o.args[1]).operation);
    const double halves = exponent ? 2 * exponent->value : 0;
    if (exponent && halves == std::floor(halves) && std::fabs(halves) <= 2 * kMostMultiplied) {
      const auto n = static_cast<int>(halves);
      return n % 2 == 0 ? fmt::format("power<{}>({})", n / 2, args[0]) : fmt::format("half_power<{}>({})", n, args[0]);
    }
  }
  if (o.function->arity >= 0) return spelled(o.function->cuda, args);
  std::string text = args[0];
  for (std::size_t k = 1; k < args.size(); ++k) {
    const bool minus = o.function->name == "+" && is_negated(o.args[k]);
    text = minus ? fmt::format("({} - {})", text, args[k].substr(2, args[k].size() - 3))
                 : spelled(o.function->cuda, {text, args[k]});
  }
  return text;
}

/// Whether the operand is written as "(-x)".
bool CudaWriter::is_negated(ValueId id) const {
  const auto* call = std::get_if<op::Call>(&program().values.at(id).operation);
  return call && call->function->name == "neg" && operand(id).starts_with("(-");
}

std::string CudaWriter::text(const Value& value, const op::Convert& o) {
  return fmt::format("{}({})", type_name(value.type), operand(o.value));
}

/// Four elements along the last coordinate share a block (compiler/arithmetic/philox.h). Where a thread draws all four,
/// the compiler sees that their blocks are one.
std::string CudaWriter::text(const Value& value, const op::Random& o) {
  std::string counter, place = "0u";
  for (std::size_t k = 0; k < kMostDrawAxes; ++k) {
    if (k >= o.coordinates.size()) {
      counter += ", 0u";
      continue;
    }
    const std::string coordinate = fmt::format("unsigned({})", affine(o.coordinates[k]));
    const bool last = k + 1 == o.coordinates.size();
    counter += fmt::format(", {}{}", coordinate, last ? " / 4" : "");
    if (last) place = coordinate + " % 4";
  }
  return fmt::format("{}<{}>(philox(random_state, {}u{}), {})",
                     o.kind == RandomKind::Uniform ? "draw_uniform" : "draw_normal", type_name(value.type),
                     static_cast<std::uint32_t>(o.stream), counter, place);
}

std::string CudaWriter::text(const Value& value, const op::CombineLanes& o) {
  return schedule_.lanes == 1 ? operand(o.value) : combined_over_lanes(o.kind, value.type, number_operand(o.value));
}

std::string CudaWriter::text(const Value&, const op::PrefixLanes&) {
  throw InternalError("kernel " + program().name + ": a prefix over lanes, which are threads here");
}

std::string CudaWriter::text(const Value&, const op::LastLane&) {
  throw InternalError("kernel " + program().name + ": the last of lanes, which are threads here");
}

std::string CudaWriter::combined_over_lanes(ReduceKind kind, ValueType type, const std::string& value) const {
  if (schedule_.lanes == 32) return fmt::format("combine_warp<{}>({})", combination_name(kind), value);
  return fmt::format("combine_lanes<{}, {}>({}, lanes_{})", combination_name(kind), schedule_.lanes, value,
                     type == ValueType::f32 ? "f32" : "f64");
}

// ---- integers ----

std::string CudaWriter::affine(const Affine& value) const {
  std::string text;
  for (const auto& [symbol, coefficient] : value.terms()) {
    const std::string name = symbol.is_value() ? operand(symbol.number()) : names_.symbol(symbol);
    const std::int64_t size = std::abs(coefficient);
    const std::string term = size == 1 ? name : fmt::format("{} * {}", size, name);
    text += text.empty() ? (coefficient < 0 ? "-" : "") + term : (coefficient < 0 ? " - " : " + ") + term;
  }
  const std::int64_t constant = value.constant();
  if (text.empty()) return std::to_string(constant);
  if (constant != 0) text += fmt::format(" {} {}", constant < 0 ? '-' : '+', std::abs(constant));
  return text;
}

namespace {

bool is_simple(const Affine& value) { return value.is_constant() || value.as_symbol(); }

}  // namespace

std::string CudaWriter::bound(const Bound& bound, bool round_up) const {
  const auto& [divisor, value] = bound;
  if (value.is_constant()) return std::to_string((round_up ? ceil_div : floor_div)(value.constant(), divisor));
  if (divisor == 1) return affine(value);
  return fmt::format("floor_divide({}, {})", affine(round_up ? value + Affine(divisor - 1) : value), divisor);
}

std::string CudaWriter::extreme(const std::vector<Bound>& bounds, bool is_low) const {
  if (bounds.empty()) throw InternalError("a loop has no bound on one side");
  std::string text = bound(bounds[0], is_low);
  for (std::size_t k = 1; k < bounds.size(); ++k) {
    text = fmt::format("{}(Index({}), Index({}))", is_low ? "greatest" : "least", text, bound(bounds[k], is_low));
  }
  return text;
}

std::string CudaWriter::first(const Range& range) const { return extreme(range.lows, true); }

std::string CudaWriter::within(const std::string& name, const Range& range) const {
  if (range.highs.size() == 1 && range.highs[0].divisor == 1)
    return fmt::format("{} < {}", name, affine(range.highs[0].value + Affine(1)));
  return fmt::format("{} <= {}", name, extreme(range.highs, false));
}

std::string CudaWriter::stride(const std::vector<Affine>& shape, const std::vector<std::uint32_t>& layout,
                               std::size_t axis) const {
  std::int64_t constant = 1;
  std::string text;
  for (auto it = layout.rbegin(); it != layout.rend() && *it != axis; ++it) {
    const Affine& extent = shape.at(*it);
    if (extent.is_constant())
      constant = checked_mul(constant, extent.constant());
    else
      text += (text.empty() ? "" : " * ") + (is_simple(extent) ? affine(extent) : "(" + affine(extent) + ")");
  }
  if (text.empty()) return std::to_string(constant);
  return constant == 1 ? text : fmt::format("{} * {}", constant, text);
}

std::string CudaWriter::offset(const BufferDecl& buffer, const std::vector<Affine>& subscripts) const {
  std::string text;
  for (const std::uint32_t axis : buffer.layout) {
    const Affine& subscript = subscripts.at(axis);
    if (subscript == Affine(0)) continue;
    const std::string factor = stride(buffer.shape, buffer.layout, axis);
    std::string term = affine(subscript);
    if (factor != "1") term = fmt::format("{} * {}", is_simple(subscript) ? term : "(" + term + ")", factor);
    if (!text.empty()) text += " + ";
    text += term;
  }
  return text.empty() ? "0" : text;
}

std::string CudaWriter::element(const BufferDecl& buffer, const std::string& name,
                                const std::vector<Affine>& subscripts) const {
  return fmt::format("{}[{}]", name, offset(buffer, subscripts));
}

std::string CudaWriter::element_count(BufferId id) const {
  const BufferDecl& buffer = program().buffers.at(id);
  std::string text = "1";
  for (const std::uint32_t axis : buffer.layout) {
    const Affine& extent = buffer.shape.at(axis);
    const std::string factor = is_simple(extent) ? affine(extent) : "(" + affine(extent) + ")";
    text = text == "1" ? factor : fmt::format("{} * {}", text, factor);
  }
  return text;
}

namespace {

/// Scratch lies row by row.
BufferDecl as_buffer(const ArrayDecl& array) {
  BufferDecl buffer;
  buffer.shape.assign(array.extents.begin(), array.extents.end());
  buffer.layout.resize(buffer.shape.size());
  std::iota(buffer.layout.begin(), buffer.layout.end(), 0U);
  return buffer;
}

}  // namespace

std::string CudaWriter::array_element(ArrayId id, const std::vector<Affine>& subscripts) const {
  const ArrayDecl& array = program().arrays.at(id);
  const std::string place = offset(as_buffer(array), subscripts);
  const std::string& name = names_.array(id);
  if (schedule_.arrays.at(id) == ArrayPlace::registers) return fmt::format("{}[{}]", name, place);
  const int lanes = schedule_.lanes, threads = lanes * schedule_.rows;
  if (shape_.arrays.at(id).per_thread && threads > 1) {
    return fmt::format("{}[({}) * {} + {}]", name, place, threads,
                       schedule_.rows == 1 ? "lane"
                       : lanes == 1        ? "row"
                                           : fmt::format("row * {} + lane", lanes));
  }
  return array.varying && lanes > 1 ? fmt::format("{}[({}) * {} + lane]", name, place, lanes)
                                    : fmt::format("{}[{}]", name, place);
}

/// The vector axis of a staged table is its last, and runs over the lanes of the block.
std::string CudaWriter::table_element(BufferId id, const std::vector<Affine>& subscripts) const {
  BufferDecl table = program().buffers.at(id);
  std::vector<Affine> place = subscripts;
  for (std::size_t axis = 0; axis < place.size(); ++axis) {
    if (place[axis] == Affine(vector_->variable)) place[axis] = 0, table.shape[axis] = 1;
  }
  return fmt::format("{}[({}) * {} + lane]", tables_.at(id), offset(table, place), schedule_.lanes);
}

}  // namespace moxie::cuda_text
