#pragma once
// Schedule: how the definitions of a kernel become loops, as a list of steps. Data: printed, parsed, compared.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moxie {

/// One step. Loops are named after the axes of the definitions; `sum` stands for the reductions directly inside the
/// axes' loops, `sum.sum` for those inside these.
struct ScheduleStep {
  enum class Kind : std::uint8_t {
    Reorder,   // reorder(i, j): the loops stand in this order, outermost first; all of a definition's are named
    Unroll,    // unroll(i, 4): unroll-and-jam, a register tile; the last, partial tile runs one iteration at a time
    Lanes,     // lanes(i): vector lanes; ranges that i moves become their bounding boxes and predicates
    Parallel,  // parallel(i): iterations are split over threads
    Rfactor,   // rfactor(sum, 16): the reduction is split into 16 chunks with partial results, combined in their order
    Split,     // split(i, 64): two loops, i.i over 64 iterations inside i.o over 64ths; i/64 and i%64 cost nothing then
  };
  Kind kind = Kind::Reorder;
  std::vector<std::string> loops;
  std::int64_t factor = 1;  // copies of Unroll, iterations of Split's inner loop, chunks of Rfactor
  bool operator==(const ScheduleStep&) const = default;
};

struct Schedule {
  std::vector<ScheduleStep> steps;
  bool operator==(const Schedule&) const = default;
};

/// "reorder(b, i, j) unroll(i, 4) lanes(j) parallel(b)"
std::string print(const Schedule& schedule);
std::string print(const ScheduleStep& step);
/// The inverse of print(). Throws ParseError, which names the step that is wrong and what is known.
Schedule parse_schedule(std::string_view text);

}  // namespace moxie
