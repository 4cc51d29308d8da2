#include "tests/ptx_emulator/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tests/ptx_emulator/fault.h"
#include "tests/ptx_emulator/module.h"

namespace moxie::ptx {
namespace {

/// Functions within functions: more are taken for a recursion.
constexpr std::size_t kMaxDepth = 16;

std::vector<std::string_view> split_words(std::string_view opcode) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t dot = opcode.find('.');
    words.push_back(opcode.substr(0, dot));
    if (dot == std::string_view::npos) return words;
    opcode.remove_prefix(dot + 1);
  }
}

}  // namespace

Kernel decode(const Syntax& syntax, const Function& entry, const Places& globals) {
  return Decoder(syntax, globals).run(entry);
}

Kernel Decoder::run(const Function& entry) {
  kernel_.name = entry.name;
  kernel_.max_threads = entry.max_threads;
  Places parameters;
  for (const Declaration& parameter : entry.parameters) {
    const std::uint64_t offset = lay_out(kernel_.parameter_bytes, parameter.bytes(), parameter.alignment);
    kernel_.parameters.push_back({offset, parameter.bytes()});
    parameters[parameter.name] = {Space::parameter, offset};
  }
  names_.open_function(std::move(parameters));
  kernel_.carry = names_.make_register(1).slot;
  decode_body(entry);
  return std::move(kernel_);
}

/// Ends with an instruction that ends the lanes, or where the caller goes on.
void Decoder::decode_body(const Function& function) {
  bodies_.emplace_back();
  for (const Statement& statement : function.body) decode(statement);
  if (function.is_entry) {
    kernel_.code.push_back({.step = exit_step()});
    kernel_.origins.push_back({"the end of the kernel"});
  }
  Body& body = bodies_.back();
  body.labels[{}] = static_cast<std::uint32_t>(kernel_.code.size());  // where "ret" goes
  for (const auto& [instruction, label] : body.jumps) {
    const auto target = body.labels.find(label);
    if (target == body.labels.end())
      throw Fault(Reason::invalid_ptx, fmt::format("{}: there is no label {}", function.name, label));
    kernel_.code[instruction].target = target->second;
  }
  bodies_.pop_back();
}

void Decoder::decode(const Statement& statement) {
  statement_ = &statement;
  switch (statement.kind) {
    case Statement::Kind::open:
      names_.open_scope();
      return;
    case Statement::Kind::close:
      names_.close_scope();
      return;
    case Statement::Kind::label:
      bodies_.back().labels[statement.opcode.text] = static_cast<std::uint32_t>(kernel_.code.size());
      return;
    case Statement::Kind::declaration:
      names_.declare(statement.declaration);
      return;
    case Statement::Kind::instruction:
      break;
  }
  static constexpr FormName kForms[] = {
      {"mov", &Decoder::mov},      {"cvta", &Decoder::cvta}, {"cvt", &Decoder::cvt},
      {"setp", &Decoder::setp},    {"ld", &Decoder::ld},     {"ldu", &Decoder::ld},
      {"st", &Decoder::st},        {"atom", &Decoder::atom}, {"red", &Decoder::atom},
      {"bra", &Decoder::bra},      {"call", &Decoder::call}, {"ret", &Decoder::ret},
      {"exit", &Decoder::exit},    {"bar", &Decoder::bar},   {"barrier", &Decoder::bar},
      {"membar", &Decoder::fence}, {"trap", &Decoder::trap}, {"shfl", &Decoder::shfl},
      {"fence", &Decoder::fence},  {"vote", &Decoder::vote}, {"activemask", &Decoder::activemask},
  };
  words_ = split_words(statement.opcode.text);
  const auto* form = std::ranges::find(kForms, words_.front(), &FormName::head);
  if (form != std::end(kForms)) return (this->*form->form)();
  const Operation* operation = operations().find(std::string(statement.opcode.text));
  if (operation == nullptr) refuse_opcode();
  decode_operation(*operation);
}

void Decoder::decode_operation(const Operation& operation) {
  expect_arguments(operation.types.size());
  std::array<Slot, 6> slots{};
  slots[0] = result(argument(0), operation.types[0]);
  for (std::size_t k = 1; k < operation.types.size(); ++k) slots[k] = value(argument(k), operation.types[k]);
  emit(operation.step, {}).slots = slots;
}

// ---- Operands ----

const Argument& Decoder::argument(std::size_t k) const {
  if (k >= statement_->arguments.size()) refuse(fmt::format("operand {} is missing", k));
  return statement_->arguments[k];
}

void Decoder::expect_arguments(std::size_t count) const {
  if (statement_->arguments.size() != count)
    refuse(fmt::format("{} operands, expected {}", statement_->arguments.size(), count));
}

Register Decoder::register_of(std::string_view name) const {
  const auto found = names_.find_register(name);
  if (!found) refuse(fmt::format("there is no register {}", name));
  return *found;
}

/// A register, a number, a special register, or the address of a name.
Slot Decoder::value(const Argument& argument, Type type) {
  if (argument.is_vector || argument.parts.size() != 1) refuse("a vector as an operand");
  const std::string_view name = argument.parts.front();
  if (std::isdigit(static_cast<unsigned char>(name.front())) != 0)
    return names_.constant(type.bytes, number_bits(name, argument.is_negated, type));
  auto found = names_.find_register(name);
  if (!found) found = names_.special(name);
  if (!found) return names_.constant(type.bytes, place_of(name).address);
  if (found->bytes != type.bytes) refuse(fmt::format("{} has {} bytes, expected {}", name, found->bytes, type.bytes));
  return argument.is_negated ? emit_temporary("not.pred", {found->slot}) : found->slot;
}

Slot Decoder::result(const Argument& argument, Type type) {
  if (argument.parts.size() != 1) refuse("a vector as a result");
  if (argument.parts.front() == "_") return names_.make_register(type.bytes).slot;
  const Register found = register_of(argument.parts.front());
  if (found.bytes != type.bytes)
    refuse(fmt::format("{} has {} bytes, expected {}", argument.parts.front(), found.bytes, type.bytes));
  return found.slot;
}

Place Decoder::place_of(std::string_view name) const {
  const auto place = names_.find_place(name);
  if (!place) refuse(fmt::format("there is nothing with the name {}", name));
  return *place;
}

Slot Decoder::address(const Argument& argument, Space& space) {
  const std::string_view name = argument.parts.front();
  if (const auto found = names_.find_register(name)) {
    if (found->bytes != sizeof(std::uint64_t)) refuse("addresses have 64 bits here");
    return found->slot;
  }
  if (std::isdigit(static_cast<unsigned char>(name.front())) != 0)
    return names_.constant(sizeof(std::uint64_t), number_bits(name, false, {'u', 8}));
  const Place place = place_of(name);
  space = place.space;
  return names_.constant(sizeof(std::uint64_t), place.address);
}

Type Decoder::last_type() const {
  const auto type = find_type(words_.back());
  if (!type) refuse_opcode();
  return *type;
}

bool Decoder::has_word(std::string_view word) const { return std::ranges::find(words_, word) != words_.end(); }

/// The words between the first and the last, without those of `ignored` and hints for caches.
Decoder::Words Decoder::qualifiers(std::span<const std::string_view> ignored) const {
  Words kept;
  for (std::size_t k = 1; k + 1 < words_.size(); ++k) {
    const bool is_hint = words_[k].starts_with("L1::") || words_[k].starts_with("L2::");
    if (!is_hint && std::ranges::find(ignored, words_[k]) == ignored.end()) kept.push_back(words_[k]);
  }
  return kept;
}

// ---- Instructions ----

Instruction& Decoder::emit(Step step, std::initializer_list<Slot> slots) {
  if (step == nullptr) refuse_opcode();
  Instruction instruction{.step = step};
  std::ranges::copy(slots, instruction.slots.begin());
  if (!statement_->guard.empty()) {
    instruction.guard = register_of(statement_->guard).slot;
    instruction.guard_is_negated = statement_->guard_is_negated;
  }
  kernel_.code.push_back(instruction);
  const Token& opcode = statement_->opcode;
  kernel_.origins.push_back({std::string(opcode.text), opcode.line, opcode.cuda_line});
  return kernel_.code.back();
}

Slot Decoder::emit_temporary(const std::string& opcode, std::initializer_list<Slot> operands) {
  const Operation* operation = operations().find(opcode);
  if (operation == nullptr) refuse_opcode();
  const Slot made = names_.make_register(operation->types[0].bytes).slot;
  Instruction& instruction = emit(operation->step, {made});
  std::ranges::copy(operands, instruction.slots.begin() + 1);
  instruction.guard = kNoSlot;
  return made;
}

void Decoder::refuse(std::string_view why) const {
  const Token& opcode = statement_->opcode;
  throw Fault(Reason::invalid_ptx,
              fmt::format("kernel {}, PTX line {}: {}: {}", kernel_.name, opcode.line, opcode.text, why));
}

void Decoder::refuse_opcode() const { refuse("this instruction is unknown to the PTX emulator"); }

// ---- Functions ----

/// Parameters of a function are memory of its caller.
Places Decoder::bind(const std::vector<Declaration>& declared, const Argument& given) const {
  if (declared.size() != given.parts.size())
    refuse(fmt::format("{} values for {} parameters", given.parts.size(), declared.size()));
  Places places;
  for (std::size_t k = 0; k < declared.size(); ++k) places[declared[k].name] = place_of(given.parts[k]);
  return places;
}

/// call (results), name, (arguments); the function's body takes the call's place.
void Decoder::call() {
  std::vector<Argument> arguments = statement_->arguments;
  if (arguments.empty() || !arguments.front().is_vector) arguments.insert(arguments.begin(), Argument());
  if (arguments.size() == 2) arguments.emplace_back();
  if (arguments.size() != 3 || arguments[1].is_vector) refuse("calls by address are unknown to the PTX emulator");
  const auto function = syntax_.functions.find(arguments[1].parts.front());
  if (function == syntax_.functions.end() || function->second.body.empty())
    refuse(fmt::format("there is no function {}", arguments[1].parts.front()));
  if (bodies_.size() > kMaxDepth) refuse("functions that call themselves are unknown to the PTX emulator");
  if (!statement_->guard.empty()) refuse("calls under a predicate are unknown to the PTX emulator");
  Places places = bind(function->second.results, arguments[0]);
  places.merge(bind(function->second.parameters, arguments[2]));
  names_.open_function(std::move(places));
  decode_body(function->second);
  names_.close_function();
}

void Decoder::bra() {
  expect_arguments(1);
  emit(branch_step(), {});
  bodies_.back().jumps.emplace_back(static_cast<std::uint32_t>(kernel_.code.size() - 1), argument(0).parts.front());
}

void Decoder::ret() {
  if (bodies_.size() == 1) return exit();
  emit(branch_step(), {});
  bodies_.back().jumps.emplace_back(static_cast<std::uint32_t>(kernel_.code.size() - 1), std::string_view());
}

void Decoder::exit() { emit(exit_step(), {}); }
void Decoder::trap() { emit(trap_step(), {}); }
void Decoder::fence() { emit(fence_step(), {}); }

}  // namespace moxie::ptx
