#pragma once
// Rows of a data set on their way into a session.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/session.h"

namespace moxie {

struct SampleRows;

/// Throws ShapeError unless the rows of `input` ("x" or "target") in `data` are those that the Program reads.
void check_rows(const Program& program, const std::string& input, const SampleRows& data);

/// The memory of an input with dynamic first extent, made to hold `rows` rows.
std::span<std::byte> make_room(Session& session, const std::string& input, std::size_t rows);

/// Copies the given rows of a matrix of `rows` rows, in their order.
void gather(std::span<const float> matrix, std::size_t rows, std::span<const std::uint32_t> chosen,
            std::span<std::byte> out);

}  // namespace moxie
