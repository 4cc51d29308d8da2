#include "tests/ptx_emulator/syntax.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cctype>
#include <charconv>

#include "tests/ptx_emulator/fault.h"

namespace moxie::ptx {
namespace {

struct NamedType {
  std::string_view name;
  Type type;
};
constexpr NamedType kTypes[] = {
    {"b8", {'b', 1}},  {"u8", {'u', 1}},  {"s8", {'s', 1}},  {"b16", {'b', 2}}, {"u16", {'u', 2}},
    {"s16", {'s', 2}}, {"b32", {'b', 4}}, {"u32", {'u', 4}}, {"s32", {'s', 4}}, {"f32", {'f', 4}},
    {"b64", {'b', 8}}, {"u64", {'u', 8}}, {"s64", {'s', 8}}, {"f64", {'f', 8}}, {"pred", {'p', 1}},
};

class Parser {
 public:
  explicit Parser(const std::vector<Token>& tokens) : tokens_(tokens) {}

  Syntax run() {
    Syntax syntax;
    while (at_ < tokens_.size()) {
      bool is_entry = false;
      while (is_linkage(text())) ++at_;
      if (text() == ".entry" || text() == ".func") {
        is_entry = next().text == ".entry";
        Function function = take_function(is_entry);
        if (take(";")) continue;  // only announced
        function.body = take_body();
        syntax.functions.insert_or_assign(function.name, std::move(function));
      } else {
        syntax.variables.push_back(take_declaration());
        expect(";");
      }
    }
    return syntax;
  }

 private:
  static bool is_linkage(std::string_view word) {
    return word == ".visible" || word == ".extern" || word == ".weak" || word == ".common";
  }

  [[noreturn]] void refuse(std::string_view why) const {
    const int line = tokens_.empty() ? 0 : tokens_[std::min(at_, tokens_.size() - 1)].line;
    throw Fault(Reason::invalid_ptx, fmt::format("PTX line {}: {}", line, why));
  }
  std::string_view text() const { return at_ < tokens_.size() ? tokens_[at_].text : std::string_view(); }
  const Token& next() {
    if (at_ >= tokens_.size()) refuse("the text ends too early");
    return tokens_[at_++];
  }
  bool take(std::string_view expected) {
    if (text() != expected) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view expected) {
    if (!take(expected)) refuse(fmt::format("expected '{}', found '{}'", expected, text()));
  }
  template <class T>
  T take_number() {
    const std::string_view word = next().text;
    T number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size())
      refuse(fmt::format("expected a number, found '{}'", word));
    return number;
  }

  // ---- Declarations ----

  /// .space [.align N] .type name[count] [= values]
  Declaration take_declaration() {
    Declaration declared;
    declared.space = next().text;
    while (text().starts_with('.')) {
      const std::string_view word = next().text;
      if (word == ".align")
        declared.alignment = take_number<unsigned>();
      else if (const auto type = find_type(word.substr(1)))
        declared.type = *type;
      else
        refuse(fmt::format("'{}' is not known in a declaration", word));
    }
    declared.name = next().text;
    if (take("[")) {
      declared.count = text() == "]" ? 0 : take_number<std::uint64_t>();
      expect("]");
    } else if (take("<")) {
      declared.is_family = true;
      declared.count = take_number<std::uint64_t>();
      expect(">");
    }
    if (take("=")) declared.values = take_values(declared.type);
    declared.alignment = std::max(declared.alignment, declared.type.bytes);
    return declared;
  }

  std::vector<std::uint64_t> take_values(Type type) {
    std::vector<std::uint64_t> values;
    const bool is_list = take("{");
    do {
      const bool is_negative = take("-");
      values.push_back(number_bits(next().text, is_negative, type));
    } while (take(","));
    if (is_list) expect("}");
    return values;
  }

  std::vector<Declaration> take_parameters() {
    std::vector<Declaration> parameters;
    if (!take("(")) return parameters;
    while (!take(")")) {
      parameters.push_back(take_declaration());
      take(",");
    }
    return parameters;
  }

  /// Up to the body.
  Function take_function(bool is_entry) {
    Function function;
    function.is_entry = is_entry;
    if (!is_entry) function.results = take_parameters();
    function.name = next().text;
    function.parameters = take_parameters();
    while (text() != "{" && text() != ";") {
      const std::string_view directive = next().text;
      if (directive == ".maxntid") function.max_threads = take_product();
      if (directive == ".minnctapersm") take_product();
    }
    return function;
  }

  unsigned take_product() {
    auto product = take_number<unsigned>();
    while (take(",")) product *= take_number<unsigned>();
    return product;
  }

  // ---- Statements ----

  std::vector<Statement> take_body() {
    std::vector<Statement> body;
    expect("{");
    for (int depth = 1; depth > 0;) {
      body.push_back(take_statement());
      if (body.back().kind == Statement::Kind::open) ++depth;
      if (body.back().kind == Statement::Kind::close) --depth;
      // Several registers may be declared together: .reg .b32 a, b;
      while (body.back().kind == Statement::Kind::declaration && take(",")) {
        Statement another = body.back();
        another.declaration.name = next().text;
        body.push_back(another);
      }
      if (body.back().kind == Statement::Kind::declaration) expect(";");
    }
    body.pop_back();
    return body;
  }

  Statement take_statement() {
    using Kind = Statement::Kind;
    Statement statement;
    while (take(".pragma")) {
      next();
      expect(";");
    }
    statement.opcode = next();
    const std::string_view word = statement.opcode.text;
    if (word == "{") {
      statement.kind = Kind::open;
    } else if (word == "}") {
      statement.kind = Kind::close;
    } else if (word.starts_with('.')) {
      --at_;
      statement.kind = Kind::declaration;
      statement.declaration = take_declaration();
    } else if (take(":")) {
      statement.kind = Kind::label;
    } else {
      if (word == "@") take_guard(statement);
      take_arguments(statement);
    }
    return statement;
  }

  void take_guard(Statement& statement) {
    statement.guard_is_negated = take("!");
    statement.guard = next().text;
    statement.opcode = next();
  }

  void take_arguments(Statement& statement) {
    while (!take(";")) {
      statement.arguments.push_back(take_argument());
      take(",");
    }
  }

  Argument take_argument() {
    Argument argument;
    if (take("{") || take("(")) {
      argument.is_vector = true;
      while (!take("}") && !take(")")) {
        argument.parts.push_back(next().text);
        take(",");
      }
      return argument;
    }
    argument.is_address = take("[");
    argument.is_negated = take("!") || take("-");
    argument.parts.push_back(next().text);
    if (take("|")) argument.second = next().text;
    if (argument.is_address) {
      if (take("+")) argument.offset = take_offset();
      expect("]");
    }
    return argument;
  }

  std::int64_t take_offset() {
    const bool is_negative = take("-");
    const auto offset = take_number<std::int64_t>();
    return is_negative ? -offset : offset;
  }

  const std::vector<Token>& tokens_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<Type> find_type(std::string_view name) {
  for (const NamedType& known : kTypes) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

Syntax parse(const std::vector<Token>& tokens) { return Parser(tokens).run(); }

std::uint64_t number_bits(std::string_view text, bool is_negative, Type type) {
  const auto digits = [&](std::size_t skipped, int base) {
    std::uint64_t value = 0;
    std::string_view rest = text.substr(skipped);
    if (rest.ends_with('U')) rest.remove_suffix(1);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
    if (error != std::errc() || end != rest.data() + rest.size())
      throw Fault(Reason::invalid_ptx, fmt::format("'{}' is no number", text));
    return value;
  };
  const auto begins = [&](std::string_view lower, std::string_view upper) {
    return text.starts_with(lower) || text.starts_with(upper);
  };
  if (begins("0f", "0F")) return digits(2, 16) ^ (is_negative ? std::uint64_t{1} << 31 : 0);
  if (begins("0d", "0D")) return digits(2, 16) ^ (is_negative ? std::uint64_t{1} << 63 : 0);
  const std::uint64_t magnitude = begins("0x", "0X") ? digits(2, 16) : digits(0, 10);
  const std::uint64_t bits = is_negative ? 0 - magnitude : magnitude;
  if (type.kind == 'p') return bits & 1;  // -1 is "true" as well
  if (type.kind != 'f') return bits;
  const auto value = static_cast<double>(static_cast<std::int64_t>(bits));
  return type.bytes == 4 ? std::bit_cast<std::uint32_t>(static_cast<float>(value))
                         : std::bit_cast<std::uint64_t>(value);
}

}  // namespace moxie::ptx
