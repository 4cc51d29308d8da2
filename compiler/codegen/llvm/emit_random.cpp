// Random numbers: what compiler/arithmetic/philox.h defines, in lanes.
#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

#include "compiler/arithmetic/philox.h"
#include "compiler/codegen/llvm/kernel_writer.h"
#include "compiler/codegen/llvm/vector_math.h"

namespace moxie::llvm_ir {
namespace {

constexpr int kWords = static_cast<int>(kPhiloxWords);

/// The lanes of `a`, then those of `b`.
Val joined(TextBuilder& ir, const Val& a, const Val& b) {
  std::vector<int> all(static_cast<std::size_t>(2 * a.lanes));
  std::iota(all.begin(), all.end(), 0);
  return ir.shuffle(a, b, all);
}

/// Lane e of the result is what `from(block, place)` names, with four places to a block.
template <typename From>
std::vector<int> in_order_of_elements(int lanes, From from) {
  std::vector<int> order;
  for (int e = 0; e < lanes; ++e) order.push_back(from(e / kWords, e % kWords));
  return order;
}

/// 0 in even lanes, a quarter turn in odd ones.
Val quarter_turns_of_odd(int lanes) {
  std::string text;
  for (int lane = 0; lane < lanes; ++lane)
    text += (lane == 0 ? "i32 " : ", i32 ") + std::to_string(lane % 2 == 0 ? 0 : kQuarterTurn);
  return {Scalar::i32, lanes, "<" + text + ">"};
}

bool is_multiple_of_block(const Affine& affine) {
  const auto is_multiple = [](std::int64_t value) { return value % kPhiloxWords == 0; };
  return is_multiple(affine.constant()) &&
         std::ranges::all_of(affine.terms(), [&](const auto& term) { return is_multiple(term.second); });
}

}  // namespace

/// Whether the lanes are elements that follow each other along the last coordinate, whole blocks of them.
bool KernelWriter::share_blocks(const op::Random& o, int lanes) const {
  if (lanes < 2 * kWords || !round_ || !round_->whole || o.coordinates.empty()) return false;
  const auto apart = [&](const Affine& coordinate) { return lane_step(coordinate) != 0; };
  const Affine& last = o.coordinates.back();
  return lane_step(last) == 1 && std::ranges::count_if(o.coordinates, apart) == 1 &&
         is_multiple_of_block(last - Affine(round_->variable));
}

Val KernelWriter::coordinate_in_lanes(const Affine& coordinate, int lanes) {
  const Val first = addressing_.value(coordinate);
  const std::int64_t ahead = lane_step(coordinate);
  if (ahead == 0 || lanes == 1) return first;
  return ir_.binary("add", ir_.splat(first, lanes), lane_numbers(Scalar::i64, lanes, ahead));
}

/// The block that the coordinates count, the last of them already counting blocks.
std::vector<Val> KernelWriter::random_words(const op::Random& o, const std::vector<Val>& counted) {
  const Val seed = addressing_.value(Symbol::dim("%seed")), step = addressing_.value(Symbol::dim("%step"));
  const std::uint32_t stream = kPhiloxWeyl[0] * static_cast<std::uint32_t>(o.stream);
  const Val low = ir_.binary("xor", seed, integer(stream));
  const Val high = ir_.binary("xor", ir_.binary("lshr", seed, integer(32)), step);
  std::vector<Val> counter = counted;
  counter.resize(kMostDrawAxes, integer(0));
  return emit_philox(ir_, {low, high}, counter);
}

/// A block for every four lanes: its words are drawn side by side and put in order at the end.
Val KernelWriter::draw_in_row(const op::Random& o, Scalar type, int lanes) {
  const int blocks = lanes / kWords;
  std::vector<Val> counter;
  for (const Affine& coordinate : o.coordinates) counter.push_back(addressing_.value(coordinate));
  counter.back() = ir_.binary("add", ir_.splat(ir_.binary("lshr", counter.back(), integer(2)), blocks),
                              lane_numbers(Scalar::i64, blocks));
  std::vector<Val> words;
  for (const Val& value : random_words(o, counter)) words.push_back(ir_.extend(value, Scalar::i32, false));
  if (o.kind == RandomKind::Uniform) {
    const auto order = in_order_of_elements(lanes, [&](int block, int place) { return place * blocks + block; });
    const Val all = ir_.shuffle(joined(ir_, words[0], words[1]), joined(ir_, words[2], words[3]), order);
    return ir_.convert(uniform_from_word({&ir_, all}).val, type);
  }
  const auto order = in_order_of_elements(lanes, [&](int block, int place) { return place / 2 * blocks + block; });
  const Vec radius = radius_from_word({&ir_, joined(ir_, words[0], words[2])}, type);
  const Vec angle{&ir_, ir_.shuffle(joined(ir_, words[1], words[3]), order)};
  const Vec spread{&ir_, ir_.shuffle(radius.val, order)};
  return (spread * cosine_from_word(angle - angle.with(quarter_turns_of_odd(lanes)), type)).val;
}

/// A block for every lane, or one for all, of which each takes its place.
Val KernelWriter::draw_in_place(const op::Random& o, Scalar type, int lanes) {
  std::vector<Val> counter;
  for (const Affine& coordinate : o.coordinates) counter.push_back(coordinate_in_lanes(coordinate, lanes));
  Val place = integer(0);
  if (!counter.empty()) {
    const Val last = counter.back();
    place = ir_.binary("and", last, ir_.integer(Scalar::i64, last.lanes, kWords - 1));
    counter.back() = ir_.binary("lshr", last, ir_.integer(Scalar::i64, last.lanes, 2));
  }
  const std::vector<Val> words = random_words(o, counter);
  const Vec own{&ir_, ir_.splat(ir_.extend(place, Scalar::i32, false), lanes)};
  const auto word = [&](int i) { return Vec{&ir_, ir_.splat(ir_.extend(words[i], Scalar::i32, false), lanes)}; };
  const Vec odd = equal(own & 1, 1), late = equal(own & 2, 2);
  if (o.kind == RandomKind::Uniform) {
    const Vec chosen = select(late, select(odd, word(3), word(2)), select(odd, word(1), word(0)));
    return ir_.convert(uniform_from_word(chosen).val, type);
  }
  const Vec angle = select(late, word(3), word(1)) - ((own & 1) << std::countr_zero(kQuarterTurn));
  return (radius_from_word(select(late, word(2), word(0)), type) * cosine_from_word(angle, type)).val;
}

Val KernelWriter::emit(const Value& value, const op::Random& o) {
  const int lanes = lanes_of(value.varying);
  const Scalar type = scalar_of(value.type);
  return share_blocks(o, lanes) ? draw_in_row(o, type, lanes) : draw_in_place(o, type, lanes);
}

}  // namespace moxie::llvm_ir
