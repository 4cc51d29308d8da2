#include "compiler/loop/lane_count.h"

#include <algorithm>

namespace moxie {
namespace {

struct LaneSurvey {
  int narrowest_bits = 64;  // of the values that vary between lanes
  bool has_vector_loop = false;
  bool draws = false;  // in lanes
};

void survey(const LoopProgram& program, const Block& block, bool in_lanes, LaneSurvey& seen) {
  for (const Statement& statement : block) {
    if (const auto* loop = std::get_if<stmt::For>(&statement)) {
      seen.has_vector_loop |= loop->vector;
      survey(program, loop->body, in_lanes || loop->vector, seen);
    } else if (const auto* let = std::get_if<stmt::Let>(&statement)) {
      const Value& value = program.values.at(let->id);
      if (in_lanes && value.varying && value.type == ValueType::f32) seen.narrowest_bits = 32;
      seen.draws |= value.varying && std::holds_alternative<op::Random>(value.operation);
    }
  }
}

}  // namespace

int lane_count(const LoopProgram& program, int vector_bits, int registers_per_draw) {
  LaneSurvey seen;
  survey(program, program.body, false, seen);
  const int lanes = seen.has_vector_loop ? std::max(1, vector_bits / seen.narrowest_bits) : 1;
  return seen.draws ? lanes * registers_per_draw : lanes;
}

std::size_t count_statements(const Block& block) {
  std::size_t count = block.size();
  for (const Statement& statement : block)
    if (const auto* loop = std::get_if<stmt::For>(&statement)) count += count_statements(loop->body);
  return count;
}

}  // namespace moxie
