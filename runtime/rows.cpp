#include "runtime/rows.h"

#include <fmt/format.h>

#include <cstring>

#include "compiler/support/error.h"
#include "runtime/domain_check.h"

namespace moxie {
namespace {

/// The extents of a row, which are static.
std::vector<std::int64_t> row_shape(const Program& program, const std::string& input) {
  std::vector<Affine> shape = program.shape_of(input);
  if (shape.empty()) throw ShapeError(fmt::format("{} of program {} is a scalar, not rows", input, program.name));
  std::vector<std::int64_t> extents;
  for (std::size_t axis = 1; axis < shape.size(); ++axis) {
    extents.push_back(shape[axis].evaluate([&](Symbol symbol) {
      const DimDecl* dim = program.find_dim(symbol.name());
      if (dim && dim->value) return *dim->value;
      throw ShapeError(fmt::format("the rows of {} of program {} have an extent {} without a value", input,
                                   program.name, symbol.name()));
    }));
  }
  return extents;
}

}  // namespace

void check_rows(const Program& program, const std::string& input, std::span<const float> values, std::size_t rows,
                bool domains) {
  const DType dtype = program.dtype_of(input);
  if (!is_stored_as_computed(dtype))
    throw ShapeError(
        fmt::format("{} of program {} is {}, but rows are f32 or f64", input, program.name, to_string(dtype)));
  const std::int64_t width = element_count(row_shape(program, input));
  if (values.size() != rows * static_cast<std::size_t>(width))
    throw ShapeError(fmt::format("program {} reads {} with {} values per row; {} rows with {} values do not fit",
                                 program.name, input, width, rows, values.size()));
  if (!domains) return;
  std::vector<std::int64_t> shape = row_shape(program, input);
  shape.insert(shape.begin(), static_cast<std::int64_t>(rows));
  const InputDecl& declared = *program.find_input(input);
  if (dtype == DType::f32) return check_domain(declared, shape, std::as_bytes(values));
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  copy_as(dtype, values, bytes);
  check_domain(declared, shape, bytes);
}

void make_room(Session& session, const std::string& input, std::size_t rows) {
  const Program& program = session.program();
  std::vector<std::int64_t> shape = row_shape(program, input);
  shape.insert(shape.begin(), static_cast<std::int64_t>(rows));
  session.resize(input, std::move(shape));
}

void copy_as(DType dtype, std::span<const float> values, std::span<std::byte> out) {
  if (dtype == DType::f32) {
    std::memcpy(out.data(), values.data(), values.size_bytes());
    return;
  }
  std::byte* at = out.data();
  for (const double value : values) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  }
}

void gather(std::span<const float> matrix, std::size_t rows, std::span<const std::uint32_t> chosen, DType dtype,
            std::span<std::byte> out) {
  const std::size_t width = matrix.size() / rows, bytes = width * size_of(dtype);
  std::size_t begin = 0;
  for (const std::uint32_t row : chosen) {
    copy_as(dtype, matrix.subspan(row * width, width), out.subspan(begin, bytes));
    begin += bytes;
  }
}

RowLoader::RowLoader(const Program& program, const SampleRows& data, bool domains)
    : data_(data),
      reads_x_(program.find_input("x") != nullptr),
      reads_target_(program.find_input("target") != nullptr) {
  if (reads_x_) check_rows(program, "x", data.x, data.rows, domains);
  if (reads_target_) check_rows(program, "target", data.target, data.rows, domains);
}

void RowLoader::load(Session& session, std::span<const std::uint32_t> samples) {
  const bool resizes = samples.size() != rows_;
  const auto load_input = [&](const std::string& input, std::span<const float> values) {
    if (resizes) make_room(session, input, samples.size());
    gather(values, data_.rows, samples, session.program().dtype_of(input),
           session.write(input, Session::Domain::checked));
  };
  rows_ = 0;  // until both inputs have the size of this batch
  if (reads_x_) load_input("x", data_.x);
  if (reads_target_) load_input("target", data_.target);
  rows_ = samples.size();
}

}  // namespace moxie
