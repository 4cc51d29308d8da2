#include "compiler/codegen/llvm/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "compiler/loop/lane_count.h"

namespace moxie::llvm_ir {
namespace {

/// "v16f32": how the names of overloaded intrinsics spell a vector type.
std::string suffix(Scalar type, int lanes) { return fmt::format("v{}{}", lanes, intrinsic_suffix(type)); }

Val zero(TextBuilder& ir, Scalar type, int lanes) {
  return is_floating(type) ? ir.number(type, lanes, 0) : ir.integer(type, lanes, 0);
}

/// Whether the lanes read all cache lines that they span, in another order than that of memory.
bool is_short(const Coefficient& step) {
  return step.terms.empty() && !step.is(0) && !step.is(1) && std::abs(step.constant) <= kMaxShuffledStride;
}

std::vector<int> backwards(int lanes) {
  std::vector<int> order(static_cast<std::size_t>(lanes));
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

/// Joins vectors of the same length, a power of two of them, into one.
Val side_by_side(TextBuilder& ir, std::vector<Val> parts) {
  for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
    std::vector<int> both(2 * static_cast<std::size_t>(parts[0].lanes));
    std::iota(both.begin(), both.end(), 0);
    for (std::size_t k = 0; 2 * k < parts.size(); ++k) parts[k] = ir.shuffle(parts[2 * k], parts[2 * k + 1], both);
  }
  return parts[0];
}

}  // namespace

Val lane_numbers(Scalar type, int lanes, std::int64_t factor) {
  if (lanes == 1) return {type, 1, "0"};
  std::string text;
  for (int lane = 0; lane < lanes; ++lane)
    text += fmt::format("{}{} {}", lane == 0 ? "" : ", ", type_name(type, 1), lane * factor);
  return {type, lanes, "<" + text + ">"};
}

std::string Memory::element(const Place& place) {
  const std::string name = "%" + ir_.fresh("p");
  ir_.line(fmt::format("{} = getelementptr {}, ptr {}, {}", name, type_name(place.type, 1), place.pointer,
                       typed(place.at.first)));
  return name;
}

Val Memory::load_vector(const Place& place, const std::string& pointer) {
  return ir_.raw(
      place.type, lanes_,
      fmt::format("load {}, ptr {}, align {}", type_name(place.type, lanes_), pointer, bytes_of(place.type)));
}

std::string Memory::element_of_each_lane(const Place& place) {
  const Coefficient& step = place.at.step;
  Val distance = lane_numbers(Scalar::i64, lanes_, step.constant);
  if (!step.terms.empty()) {
    const Val factor = ir_.splat(addressing_.materialise(step), lanes_);
    distance = ir_.binary("mul nsw", lane_numbers(Scalar::i64, lanes_), factor);
  }
  if (place.at.scattered) distance = ir_.binary("add nsw", distance, *place.at.scattered);
  const std::string first = element(place), name = "%" + ir_.fresh("p");
  ir_.line(fmt::format("{} = getelementptr {}, ptr {}, {}", name, type_name(place.type, 1), first, typed(distance)));
  return name;
}

std::string Memory::mask_text(const std::optional<Val>& mask) const {
  return mask ? typed(*mask) : fmt::format("<{} x i1> splat (i1 true)", lanes_);
}

std::optional<Val> Memory::both(const std::optional<Val>& a, const std::optional<Val>& b) {
  if (!a || !b) return a ? a : b;
  return ir_.binary("and", ir_.splat(*a, lanes_), ir_.splat(*b, lanes_));
}

Val Memory::first_lane(const Val& mask) {
  if (mask.lanes == 1) return ir_.integer(Scalar::i64, 1, 0);
  const std::string bits = fmt::format("i{}", mask.lanes), word = "%" + ir_.fresh("bits"),
                    lane = "%" + ir_.fresh("lane");
  ir_.line(fmt::format("{} = bitcast {} to {}", word, typed(mask), bits));
  ir_.line(fmt::format("{} = call {} @llvm.cttz.{}({} {}, i1 true)", lane, bits, bits, bits, word));
  return ir_.raw(Scalar::i64, 1, fmt::format("zext {} {} to i64", bits, lane));
}

std::string Memory::guarded(const std::string& pointer, const std::optional<Val>& guard) {
  if (!guard) return pointer;
  const std::string safe = "%" + ir_.fresh("p");
  ir_.line(fmt::format("{} = select i1 {}, ptr {}, ptr {}", safe, guard->text, pointer, kZeros));
  return safe;
}

Val Memory::load_uniform(const Place& place, const std::optional<Val>& guard) {
  const std::string pointer = guarded(element(place), guard);
  return ir_.raw(place.type, 1,
                 fmt::format("load {}, ptr {}, align {}", type_name(place.type, 1), pointer, bytes_of(place.type)));
}

/// All lanes read one address. If their guards differ it is read when any of them holds.
Val Memory::load_broadcast(const Place& place, const std::optional<Val>& guard, const std::optional<Val>& active) {
  if (!guard || guard->lanes == 1) return ir_.splat(load_uniform(place, guard), lanes_);
  const Val read = *both(guard, active);
  const Val value = ir_.splat(load_uniform(place, ir_.any(read)), lanes_);
  return ir_.select(read, value, zero(ir_, place.type, lanes_));
}

/// Loads all elements from that of the first lane to that of the last, in as many vectors as the stride is long. The
/// last vector ends with the last element, so that nothing else is read. Shuffles pick the elements of the lanes.
Val Memory::load_strided(const Place& place) {
  const std::int64_t step = place.at.step.constant, stride = std::abs(step), last = stride * (lanes_ - 1);
  const std::string first = element(place);
  const std::int64_t lowest = step < 0 ? -last : 0;
  const auto begin_of = [&](std::int64_t k) { return std::min(k * lanes_, last + 1 - lanes_); };
  const auto vector = [&](std::int64_t k) {
    const std::string pointer = "%" + ir_.fresh("p");
    ir_.line(fmt::format("{} = getelementptr {}, ptr {}, i64 {}", pointer, type_name(place.type, 1), first,
                         lowest + begin_of(k)));
    return load_vector(place, pointer);
  };
  // Of the vectors up to number k: lane by lane what is found in number k, and else what was picked before.
  const auto picks = [&](std::int64_t k) {
    std::vector<int> from;
    for (int lane = 0; lane < lanes_; ++lane) {
      const std::int64_t element = step * lane - lowest, at = element - begin_of(k);
      const bool found = element / lanes_ >= k && at < lanes_;
      const std::int64_t before = k == 1 ? element % lanes_ : lane;
      from.push_back(static_cast<int>(found ? lanes_ + at : before));
    }
    return from;
  };
  Val picked = vector(0);
  if (stride == 1) return ir_.shuffle(picked, backwards(lanes_));
  for (std::int64_t k = 1; k < stride; ++k) picked = ir_.shuffle(picked, vector(k), picks(k));
  return picked;
}

/// The place of the last lane, where lanes follow each other backwards in memory.
std::string Memory::lowest_element(const Place& place) {
  const std::string first = element(place), name = "%" + ir_.fresh("p");
  ir_.line(fmt::format("{} = getelementptr {}, ptr {}, i64 {}", name, type_name(place.type, 1), first, 1 - lanes_));
  return name;
}

Val Memory::load(const Place& place, bool varying, const std::optional<Val>& guard, const std::optional<Val>& active) {
  if (!varying || lanes_ == 1) return load_uniform(place, guard);
  const bool scattered = place.at.scattered.has_value();
  if (place.at.step.is(0) && !scattered) return load_broadcast(place, guard, active);
  const std::string type = type_name(place.type, lanes_), name = suffix(place.type, lanes_);
  const int align = bytes_of(place.type);
  const bool follow = (place.at.step.is(1) || place.at.step.is(-1)) && !scattered;
  // A guard of all lanes chooses what is read, which takes no mask.
  const bool is_one_guard = follow && guard && guard->lanes == 1;
  std::optional<Val> mask = is_one_guard ? active : both(active, guard);
  if (mask) mask = ir_.splat(*mask, lanes_);
  if (!mask && !is_one_guard && !scattered && is_short(place.at.step)) return load_strided(place);
  if (place.at.step.is(-1) && !scattered) {
    const std::string lowest = guarded(lowest_element(place), is_one_guard ? guard : std::nullopt);
    if (!mask) return ir_.shuffle(load_vector(place, lowest), backwards(lanes_));
    const Val reversed =
        ir_.raw(place.type, lanes_,
                fmt::format("call {0} @llvm.masked.load.{1}.p0(ptr {2}, i32 {3}, {4}, {0} zeroinitializer)", type, name,
                            lowest, align, typed(ir_.shuffle(*mask, backwards(lanes_)))));
    return ir_.shuffle(reversed, backwards(lanes_));
  }
  if (!place.at.step.is(1) || scattered) {
    const std::string pointers = element_of_each_lane(place);
    return ir_.raw(
        place.type, lanes_,
        fmt::format("call {0} @llvm.masked.gather.{1}.v{2}p0(<{2} x ptr> {3}, i32 {4}, {5}, {0} zeroinitializer)", type,
                    name, lanes_, pointers, align, mask_text(mask)));
  }
  const std::string pointer = guarded(element(place), is_one_guard ? guard : std::nullopt);
  if (!mask) return load_vector(place, pointer);
  return ir_.raw(place.type, lanes_,
                 fmt::format("call {0} @llvm.masked.load.{1}.p0(ptr {2}, i32 {3}, {4}, {0} zeroinitializer)", type,
                             name, pointer, align, mask_text(mask)));
}

void Memory::store(const Place& place, const Val& value, const std::optional<Val>& active) {
  const int align = bytes_of(place.type);
  const bool contiguous = place.at.step.is(1);
  if (value.lanes > 1 && place.at.step.is(-1)) return store_backwards(place, value, active);
  if (value.lanes == 1 || (contiguous && !active)) {
    ir_.line(fmt::format("store {}, ptr {}, align {}", typed(value), element(place), align));
  } else if (contiguous) {
    ir_.line(fmt::format("call void @llvm.masked.store.{}.p0({}, ptr {}, i32 {}, {})", suffix(place.type, lanes_),
                         typed(value), element(place), align, mask_text(active)));
  } else {
    const std::string pointers = element_of_each_lane(place);
    ir_.line(fmt::format("call void @llvm.masked.scatter.{}.v{}p0({}, <{} x ptr> {}, i32 {}, {})",
                         suffix(place.type, lanes_), lanes_, typed(value), lanes_, pointers, align, mask_text(active)));
  }
}

void Memory::store_backwards(const Place& place, const Val& value, const std::optional<Val>& active) {
  const Val reversed = ir_.shuffle(value, backwards(lanes_));
  const std::string pointer = lowest_element(place);
  const int align = bytes_of(place.type);
  if (!active)
    ir_.line(fmt::format("store {}, ptr {}, align {}", typed(reversed), pointer, align));
  else
    ir_.line(fmt::format("call void @llvm.masked.store.{}.p0({}, ptr {}, i32 {}, {})", suffix(place.type, lanes_),
                         typed(reversed), pointer, align, typed(ir_.shuffle(*active, backwards(lanes_)))));
}

std::string Memory::element_of_lane(const Place& place, const std::string& first, int lane) {
  Coefficient distance = place.at.step;
  distance.constant *= lane;
  for (auto& [value, factor] : distance.terms) factor *= lane;
  const std::string name = "%" + ir_.fresh("p");
  ir_.line(fmt::format("{} = getelementptr {}, ptr {}, {}", name, type_name(place.type, 1), first,
                       typed(addressing_.materialise(distance))));
  return name;
}

/// Transposes blocks: of n vectors, element k of the b-th n elements of vector i becomes element i of the b-th n
/// elements of vector k. For each bit of the numbers, pairs of vectors exchange half of their elements.
std::vector<Val> Memory::transposed(std::vector<Val> rows) {
  for (std::size_t bit = 1; bit < rows.size(); bit *= 2) {
    std::vector<int> low, high;
    for (int lane = 0; lane < lanes_; ++lane) {
      const bool is_second = (static_cast<std::size_t>(lane) & bit) != 0;
      const int step = static_cast<int>(bit);
      low.push_back(is_second ? lanes_ + lane - step : lane);
      high.push_back(is_second ? lanes_ + lane : lane + step);
    }
    for (std::size_t k = 0; k < rows.size(); ++k) {
      if ((k & bit) != 0) continue;
      const Val first = rows[k], second = rows[k + bit];
      rows[k] = ir_.shuffle(first, second, low);
      rows[k + bit] = ir_.shuffle(first, second, high);
    }
  }
  return rows;
}

std::vector<Val> Memory::load_run(const Place& place, std::size_t count) {
  const std::string first = element(place);
  const int length = static_cast<int>(count);
  std::vector<Val> rows;
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<Val> blocks;
    for (int lane = static_cast<int>(k); lane < lanes_; lane += length)
      blocks.push_back(ir_.raw(place.type, length,
                               fmt::format("load {}, ptr {}, align {}", type_name(place.type, length),
                                           element_of_lane(place, first, lane), bytes_of(place.type))));
    rows.push_back(side_by_side(ir_, std::move(blocks)));
  }
  return transposed(std::move(rows));
}

void Memory::store_run(const Place& place, const std::vector<Val>& values) {
  const std::string first = element(place);
  const int length = static_cast<int>(values.size());
  const std::vector<Val> rows = transposed(values);
  for (int lane = 0; lane < lanes_; ++lane) {
    std::vector<int> block(values.size());
    std::iota(block.begin(), block.end(), lane / length * length);
    const Val& row = rows[static_cast<std::size_t>(lane % length)];
    const Val part = length == lanes_ ? row : ir_.shuffle(row, block);
    ir_.line(fmt::format("store {}, ptr {}, align {}", typed(part), element_of_lane(place, first, lane),
                         bytes_of(place.type)));
  }
}

void Memory::prefetch(const Place& place, bool for_writing) {
  ir_.line(
      fmt::format("call void @llvm.prefetch.p0(ptr {}, i32 {}, i32 3, i32 1)", element(place), for_writing ? 1 : 0));
}

}  // namespace moxie::llvm_ir
