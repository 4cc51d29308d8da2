#include "compiler/expression/node_map.h"

#include <doctest/doctest.h>

namespace moxie {
namespace {

std::vector<Expr> numbers(int count) {
  std::vector<Expr> exprs;
  for (int k = 0; k < count; ++k) exprs.emplace_back(k);
  return exprs;
}

}  // namespace

TEST_CASE("tables by node find what was put in, whether they are short or long") {
  for (const int count : {0, 1, 16, 17, 33, 1000}) {
    CAPTURE(count);
    const std::vector<Expr> inside = numbers(count);
    const Expr outside(-1);
    NodeMap<int> values;
    NodeSet seen;
    for (int k = 0; k < count; ++k) {
      const Node* node = inside[static_cast<std::size_t>(k)].get();
      CHECK(seen.insert(node));
      CHECK(values.emplace(node, k) == k);
    }
    for (int k = 0; k < count; ++k) {
      const Node* node = inside[static_cast<std::size_t>(k)].get();
      CHECK(!seen.insert(node));
      CHECK(seen.contains(node));
      CHECK(values.emplace(node, -1) == k);  // the first one stays
      REQUIRE(values.find(node));
      CHECK(*values.find(node) == k);
    }
    CHECK(!seen.contains(outside.get()));
    CHECK(!values.find(outside.get()));
  }
}

TEST_CASE("a table by node holds truth values") {
  const Expr expr(1);
  NodeMap<bool> known;
  CHECK(!known[expr.get()]);
  known[expr.get()] = true;
  CHECK(*known.find(expr.get()));
}

}  // namespace moxie
