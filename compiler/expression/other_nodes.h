#pragma once
// Other nodes in the place of an expression's, where its structure stays: reads of other tensors, other subscripts.
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

/// Binders keep their bound symbols, since the structure does not change. Each node is changed once.
class OtherNodes {
 public:
  /// Gives what stands for a node whose arguments are these now.
  using Change = std::function<Expr(const Expr& node, std::vector<Expr> args)>;
  explicit OtherNodes(Change change) : change_(std::move(change)) {}

  Expr operator()(const Expr& expr) {
    if (const auto known = done_.find(expr.get()); known != done_.end()) return known->second;
    std::vector<Expr> args;
    for (const Expr& arg : expr->args) args.push_back((*this)(arg));
    return done_[expr.get()] = change_(expr, std::move(args));
  }

 private:
  Change change_;
  std::unordered_map<const Node*, Expr> done_;
};

}  // namespace moxie
