#pragma once
// The syntax of PTX: a module as declarations and statements, names not yet looked up.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/ptx_emulator/tokens.h"

namespace moxie::ptx {

/// A type of PTX: "f64" has kind 'f' and 8 bytes. Predicates have kind 'p' and 1 byte.
struct Type {
  char kind = 'b';
  unsigned bytes = 4;
  friend bool operator==(const Type&, const Type&) = default;
};
/// Nothing for a word that names no type.
std::optional<Type> find_type(std::string_view name);

/// A register, a number or a name (one part); a vector {a, b} (its parts); an address [name + offset].
struct Argument {
  std::vector<std::string_view> parts = {};
  std::string_view second = {};  // of "p|q"
  bool is_vector = false;
  bool is_address = false;
  bool is_negated = false;  // "!p", or a number with a minus
  std::int64_t offset = 0;
};

/// Memory that is declared by name: `bytes` of it, or registers where the space is ".reg".
struct Declaration {
  std::string_view space, name;
  Type type;
  std::uint64_t count = 1;  // elements, or registers NAME0, NAME1, ... where `is_family`
  unsigned alignment = 1;
  bool is_family = false;
  std::vector<std::uint64_t> values;  // that it begins with
  std::uint64_t bytes() const { return count * type.bytes; }
};

struct Statement {
  enum class Kind { instruction, label, declaration, open, close };
  Kind kind = Kind::instruction;
  Token opcode;            // or the label
  std::string_view guard;  // the predicate of "@p"
  bool guard_is_negated = false;
  std::vector<Argument> arguments;
  Declaration declaration;
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  std::vector<Declaration> results, parameters;
  unsigned max_threads = 1024;  // .maxntid
  std::vector<Statement> body;
};

struct Syntax {
  std::vector<Declaration> variables;  // of the module: .global and .const
  std::map<std::string_view, Function> functions;
};

/// Throws Fault(invalid_ptx) with the line. The views point into the text of the tokens.
Syntax parse(const std::vector<Token>& tokens);

/// The bits of a number as PTX writes it, for a register of this type: 12, -1, 0x1F, 0f3F800000, 0d3FF0000000000000.
std::uint64_t number_bits(std::string_view text, bool is_negative, Type type);

}  // namespace moxie::ptx
