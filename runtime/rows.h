#pragma once
// Rows of a data set, and their way into a session.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/session.h"

namespace moxie {

/// Features and, where they are known, targets of the same samples, row-major. Whoever owns the values outlives this.
struct SampleRows {
  std::size_t rows = 0;
  std::span<const float> x, target;
};

/// Throws ShapeError unless `values` are as many rows as `rows` of what the Program reads as `input`, an f32 or f64
/// tensor [S,..] with a dynamic S, and, with `domains`, DataError for a value outside the input's declared domain (see
/// Session::set).
void check_rows(const Program& program, const std::string& input, std::span<const float> values, std::size_t rows,
                bool domains = true);

/// Brings the rows of batches into a session: as `x` and `target`, where its Program reads them.
class RowLoader {
 public:
  /// Throws as check_rows() does: all rows are checked here, once, and not again when they are loaded.
  RowLoader(const Program& program, const SampleRows& data, bool domains = true);
  void load(Session& session, std::span<const std::uint32_t> samples);

 private:
  SampleRows data_;
  bool reads_x_, reads_target_;
  std::size_t rows_ = 0;  // of the last batch
};

/// Makes an input [S,..] hold `rows` rows.
void make_room(Session& session, const std::string& input, std::size_t rows);

/// Copies values to elements of a real dtype.
void copy_as(DType dtype, std::span<const float> values, std::span<std::byte> out);

/// Copies the chosen rows of a matrix of `rows` rows, in their order, to elements of a real dtype.
void gather(std::span<const float> matrix, std::size_t rows, std::span<const std::uint32_t> chosen, DType dtype,
            std::span<std::byte> out);

}  // namespace moxie
