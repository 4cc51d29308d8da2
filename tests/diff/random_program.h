#pragma once
// Random small Programs whose every access lies inside its tensor.
#include <random>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie::test {

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {}

  /// One or two inputs of rank one or two, one to three definitions of rank zero to two; the last is the output.
  Program make();

 private:
  struct Interval {
    Symbol symbol;
    std::int64_t low, high;
  };
  using Scope = std::vector<Interval>;
  struct Shape {
    std::string name;
    std::vector<std::int64_t> extents;
  };

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  template <class Item>
  const Item& pick(const std::vector<Item>& items) {
    return items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(items.size()) - 1))];
  }

  Affine subscript(const Scope& scope, std::int64_t extent);
  Expr read(const Scope& scope);
  Expr guard(const Scope& scope, int depth);
  Expr reduction(const Scope& scope, int depth);
  Expr expression(const Scope& scope, int depth);

  std::mt19937 random_;
  std::vector<Shape> tensors_;
};

}  // namespace moxie::test
