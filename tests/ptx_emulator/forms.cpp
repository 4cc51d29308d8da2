// How the decoder takes apart the opcodes that have several forms.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/ptx_emulator/decoder.h"
#include "tests/ptx_emulator/fault.h"

namespace moxie::ptx {
namespace {

constexpr Type kPredicate{'p', 1};
constexpr Type kWord{'b', 4};
constexpr Type kLong{'b', 8};

struct SpaceName {
  std::string_view name;
  Space space;
};
constexpr SpaceName kSpaces[] = {
    {"global", Space::global}, {"const", Space::global},       {"shared", Space::shared},
    {"local", Space::local},   {"shared::cta", Space::shared}, {"param", Space::parameter},
};

/// Orders, scopes and caches: lanes and blocks take turns here, so that every access is as strong as it can be.
constexpr std::string_view kOrders[] = {"nc",      "volatile", "weak", "relaxed", "acquire", "release",
                                        "acq_rel", "cta",      "gpu",  "sys",     "ca",      "cg",
                                        "cs",      "lu",       "cv",   "wb",      "wt"};

/// Takes the space out of the words.
Space take_space(std::vector<std::string_view>& words) {
  if (words.empty()) return Space::generic;
  const auto* known = std::ranges::find(kSpaces, words.front(), &SpaceName::name);
  if (known == std::end(kSpaces)) return Space::generic;
  words.erase(words.begin());
  return known->space;
}

struct RoundingName {
  std::string_view name;
  Rounding rounding;
  bool to_integral;
};
constexpr RoundingName kRoundings[] = {
    {"rn", Rounding::nearest_even, false}, {"rz", Rounding::zero, false},         {"rm", Rounding::down, false},
    {"rp", Rounding::up, false},           {"rni", Rounding::nearest_even, true}, {"rzi", Rounding::zero, true},
    {"rmi", Rounding::down, true},         {"rpi", Rounding::up, true},
};

}  // namespace

void Decoder::mov() {
  expect_arguments(2);
  const bool unpacks = argument(0).is_vector;
  if (!unpacks && !argument(1).is_vector) {
    const Operation* operation = operations().find(std::string(statement_->opcode.text));
    if (operation == nullptr) refuse_opcode();
    return decode_operation(*operation);
  }
  const Argument& parts = argument(unpacks ? 0 : 1);
  const Type whole = last_type();
  const Type part{'b', whole.bytes / static_cast<unsigned>(std::max<std::size_t>(parts.parts.size(), 1))};
  std::array<Slot, 6> slots{};
  slots[0] = unpacks ? value(argument(1), whole) : result(argument(0), whole);
  for (std::size_t k = 0; k < std::min<std::size_t>(parts.parts.size(), 4); ++k) {
    const Argument one{.parts = {parts.parts[k]}};
    slots[k + 1] = unpacks ? result(one, part) : value(one, part);
  }
  emit(unpacks ? unpack_step(whole.bytes, part.bytes) : pack_step(whole.bytes, part.bytes), {}).slots = slots;
}

/// Between addresses of a space and generic ones, which lie in the window of the space.
void Decoder::cvta() {
  expect_arguments(2);
  if (last_type().bytes != 8) refuse("addresses have 64 bits here");
  const bool to_space = has_word("to");
  const Slot to = result(argument(0), kLong);
  const Slot from = value(argument(1), kLong);
  if (has_word("global") || has_word("const")) {
    emit(operations().find("mov.b64")->step, {to, from});
    return;
  }
  if (!has_word("shared") && !has_word("local")) refuse_opcode();
  const std::uint64_t window = has_word("shared") ? kSharedWindow : kLocalWindow;
  const char* operation = to_space ? "and.b64" : "or.b64";
  emit(operations().find(operation)->step, {to, from, names_.constant(8, to_space ? kWindowMask : window)});
}

void Decoder::cvt() {
  expect_arguments(2);
  if (words_.size() < 3) refuse_opcode();
  Conversion conversion;
  const auto to = find_type(words_[words_.size() - 2]);
  if (!to) refuse_opcode();
  conversion.to = *to;
  conversion.from = last_type();
  for (const std::string_view word : qualifiers({&words_[words_.size() - 2], 1})) {
    const auto* rounding = std::ranges::find(kRoundings, word, &RoundingName::name);
    if (rounding != std::end(kRoundings)) {
      conversion.rounding = rounding->rounding;
      conversion.to_integral = rounding->to_integral;
    } else if (word == "sat") {
      conversion.saturates = true;
    } else if (word == "ftz") {
      conversion.flushes = true;
    } else {
      refuse_opcode();
    }
  }
  // A number stands for a register of the source's type.
  const auto source = names_.find_register(argument(1).parts.front());
  conversion.from_bytes = source ? source->bytes : conversion.from.bytes;
  conversion.to_bytes = register_of(argument(0).parts.front()).bytes;
  if (conversion.from_bytes < conversion.from.bytes || conversion.to_bytes < conversion.to.bytes)
    refuse("a register is narrower than its type");
  const Type from{conversion.from.kind, conversion.from_bytes};
  const Slot slots[] = {result(argument(0), {'b', conversion.to_bytes}), value(argument(1), from)};
  emit(conversion_step(conversion), {slots[0], slots[1]}).detail = detail_of(conversion);
}

/// setp.compare[.and|.or|.xor].type p[|q], a, b[, c]: p is the comparison, q its opposite, both combined with c.
void Decoder::setp() {
  const bool is_combined = has_word("and") || has_word("or") || has_word("xor");
  expect_arguments(is_combined ? 4 : 3);
  const std::string_view combination = is_combined ? words_[words_.size() - 2] : "";
  const std::string opcode = fmt::format("setp.{}.{}", words_[1], words_.back());
  if (words_.size() != (is_combined ? 4U : 3U)) refuse_opcode();
  const Operation* operation = operations().find(opcode);
  if (operation == nullptr) refuse_opcode();
  const Argument& target = argument(0);
  if (!is_combined && target.second.empty()) return decode_operation(*operation);

  const Slot compared =
      emit_temporary(opcode, {value(argument(1), operation->types[1]), value(argument(2), operation->types[2])});
  const Slot opposite = emit_temporary("not.pred", {compared});
  const auto combined = [&](Slot predicate) {
    if (!is_combined) return predicate;
    return emit_temporary(fmt::format("{}.pred", combination), {predicate, value(argument(3), kPredicate)});
  };
  const Slot results[] = {combined(compared), combined(opposite)};
  const Step move = operations().find("mov.pred")->step;
  emit(move, {result(target, kPredicate), results[0]});
  if (!target.second.empty()) emit(move, {result({.parts = {target.second}}, kPredicate), results[1]});
}

/// A vector has two or four registers; all are as wide as the first.
void Decoder::emit_memory(Step step, const Argument& where, const Argument& registers, const Register& first,
                          Space space, bool is_store) {
  std::array<Slot, 6> slots{};
  slots[0] = address(where, space);
  const std::size_t count = registers.parts.size();
  if (count != 1 && count != 2 && count != 4) refuse("a vector has 2 or 4 elements");
  const Type type{'b', first.bytes};
  for (std::size_t k = 0; k < count; ++k) {
    const Argument one{.parts = {registers.parts[k]}, .is_negated = registers.is_negated};
    slots[k + 1] = is_store ? value(one, type) : result(one, type);
  }
  Instruction& instruction = emit(step, {});
  instruction.slots = slots;
  instruction.space = space;
  instruction.offset = where.offset;
  instruction.count = static_cast<std::uint8_t>(count);
}

void Decoder::ld() {
  expect_arguments(2);
  Words words = qualifiers(kOrders);
  const Space space = take_space(words);
  const Argument& registers = argument(0);
  const std::size_t count = registers.parts.size();
  if (words != (count == 1 ? Words{} : Words{count == 2 ? "v2" : "v4"})) refuse_opcode();
  const Register first = register_of(registers.parts.front());
  emit_memory(load_step(last_type(), first.bytes), argument(1), registers, first, space, false);
}

void Decoder::st() {
  expect_arguments(2);
  Words words = qualifiers(kOrders);
  const Space space = take_space(words);
  const Argument& registers = argument(1);
  const std::size_t count = registers.parts.size();
  if (words != (count == 1 ? Words{} : Words{count == 2 ? "v2" : "v4"})) refuse_opcode();
  // A number stands for a register of the type.
  const Type type = last_type();
  const auto found = names_.find_register(registers.parts.front());
  const Register first = found ? *found : Register{0, std::max(type.bytes, 2U)};
  emit_memory(store_step(type, first.bytes), argument(0), registers, first, space, true);
}

/// atom.space.operation.type result, [address], operand[, replacement]; "red" has no result.
void Decoder::atom() {
  Words words = qualifiers(kOrders);
  const Space space = take_space(words);
  if (words.size() != 1) refuse_opcode();
  const Type type = last_type();
  const std::size_t first = words_.front() == "red" ? 0 : 1;
  const bool has_replacement = words.front() == "cas";
  expect_arguments(first + (has_replacement ? 3 : 2));
  const Slot old = first == 1 ? result(argument(0), type) : names_.make_register(type.bytes).slot;
  Space chosen = space;
  const Slot where = address(argument(first), chosen);
  const Slot operand = value(argument(first + 1), type);
  const Slot replacement = has_replacement ? value(argument(first + 2), type) : operand;
  Instruction& instruction = emit(atomic_step(words.front(), type), {old, where, operand, replacement});
  instruction.space = chosen;
  instruction.offset = argument(first).offset;
}

/// Barrier 0, of all threads of a block, or of the lanes of a mask.
void Decoder::bar() {
  if (words_.back() == "sync" && words_[words_.size() - 2] == "warp") {
    expect_arguments(1);
    emit(warp_barrier_step(), {value(argument(0), kWord)});
    return;
  }
  const Words rest(words_.begin() + 1, words_.end());
  const bool is_known = std::ranges::all_of(
      rest, [](std::string_view word) { return word == "sync" || word == "cta" || word == "aligned"; });
  if (!is_known || !has_word("sync")) refuse_opcode();
  expect_arguments(1);
  if (argument(0).parts.front() != "0") refuse("barriers other than 0 are unknown to the PTX emulator");
  emit(block_barrier_step(), {});
}

void Decoder::shfl() {
  expect_arguments(5);
  if (words_.size() != 4 || words_[1] != "sync" || words_[3] != "b32") refuse_opcode();
  const Argument& target = argument(0);
  const Slot inside =
      target.second.empty() ? names_.make_register(1).slot : result({.parts = {target.second}}, kPredicate);
  std::array<Slot, 6> slots = {result(target, kWord), inside};
  for (std::size_t k = 1; k < 5; ++k) slots[k + 1] = value(argument(k), kWord);
  emit(shuffle_step(words_[2]), {}).slots = slots;
}

void Decoder::vote() {
  expect_arguments(3);
  if (words_.size() != 4 || words_[1] != "sync") refuse_opcode();
  const Type type = words_[2] == "ballot" ? kWord : kPredicate;
  const Slot slots[] = {result(argument(0), type), value(argument(1), kPredicate), value(argument(2), kWord)};
  emit(vote_step(words_[2]), {slots[0], slots[1], slots[2]});
}

void Decoder::activemask() {
  expect_arguments(1);
  emit(active_mask_step(), {result(argument(0), kWord)});
}

}  // namespace moxie::ptx
