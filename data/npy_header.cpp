#include "data/npy_header.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::size_t kMaxRank = 64;  // NumPy's own limit

class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& file) : text_(text), rest_(text), file_(file) {}

  NpyHeader read() {
    std::optional<std::string> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::size_t>> shape;
    expect("{");
    while (!accept("}")) {
      const std::string key = quoted();
      expect(":");
      if (key == "descr" && !descr) {
        descr = quoted();
      } else if (key == "fortran_order" && !fortran_order) {
        fortran_order = truth();
      } else if (key == "shape" && !shape) {
        shape = tuple();
      } else {
        fail(fmt::format("key '{}' is unknown or repeated", key));
      }
      if (!accept(",")) {
        expect("}");
        break;
      }
    }
    skip_blanks();
    if (!rest_.empty()) fail("text follows the dictionary");
    if (!descr || !fortran_order || !shape) fail("one of the keys descr, fortran_order, shape is missing");
    return {*descr, *fortran_order, *shape};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: bad .npy header at byte {}: {}", file_, text_.size() - rest_.size(), what));
  }
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size())); }
  bool accept(std::string_view token) {
    skip_blanks();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}' expected", token));
  }
  std::string quoted() {
    const std::string_view quote = accept("\"") ? "\"" : "'";
    if (quote == "'") expect(quote);
    const std::size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("a string has no end");
    const std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool truth() {
    if (accept("True")) return true;
    expect("False");
    return false;
  }
  std::vector<std::size_t> tuple() {
    std::vector<std::size_t> values;
    expect("(");
    while (!accept(")")) {
      if (values.size() == kMaxRank) fail(fmt::format("more than {} dimensions", kMaxRank));
      values.push_back(number());
      if (!accept(",")) {
        expect(")");
        break;
      }
    }
    return values;
  }
  std::size_t number() {
    skip_blanks();
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail("an extent must be a whole number");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::string_view text_, rest_;
  const std::string& file_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view text, const std::string& file) { return HeaderReader(text, file).read(); }

}  // namespace moxie
