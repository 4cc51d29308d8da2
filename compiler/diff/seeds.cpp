#include "compiler/diff/seeds.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/diff/program_builder.h"
#include "compiler/ir/functions.h"

namespace moxie {
namespace {

class SeedAxesPass {
 public:
  SeedAxesPass(const Program& program, const std::vector<Symbol>& seeds, const std::string& tensor,
               const std::vector<std::string>& results, SeedAxes order)
      : program_(program), seeds_(seeds), extents_(program.shape_of(tensor)), results_(results), order_(order) {
    if (const Definition* definition = program.find_definition(tensor)) {
      for (const AxisDecl& axis : definition->axes) preferred_.push_back(axis.name);
    }
    seeded_.insert(results.begin(), results.end());
    while (grow()) {
    }
  }

  Program run() const {
    Program result = program_;
    for (Definition& definition : result.definitions) {
      if (seeded_.contains(definition.name)) extend(definition);
    }
    return result;
  }

 private:
  /// Adds the definitions that depend on seeds; those of a scan may read later ones.
  bool grow() {
    const std::size_t size = seeded_.size();
    for (const Definition& definition : program_.definitions) {
      visit(definition.body, [&](const Expr& e) {
        const bool is_seeded = e->kind == NodeKind::Access && seeded_.contains(e->tensor);
        if (is_seeded || std::ranges::any_of(seeds_, [&](Symbol seed) { return e->depends_on(seed); }))
          seeded_.insert(definition.name);
      });
    }
    return seeded_.size() > size;
  }

  void extend(Definition& definition) const {
    const bool first = order_ == SeedAxes::First && std::ranges::find(results_, definition.name) != results_.end();
    const auto own = static_cast<std::uint32_t>(definition.axes.size());
    const auto more = static_cast<std::uint32_t>(seeds_.size());
    Replacement axes;
    for (std::uint32_t k = 0; first && k < own; ++k) axes.emplace_back(Symbol::axis(k), Symbol::axis(k + more));
    std::vector<Affine> seed_axes;
    for (std::uint32_t k = 0; k < more; ++k) {
      seed_axes.emplace_back(Symbol::axis(first ? k : own + k));
      axes.emplace_back(seeds_[k], seed_axes.back());
    }
    std::map<const Node*, Expr> done;
    const Expr body = substitute(definition.body, axes);
    definition.body = reading(body, seed_axes, done);
    const std::vector<AxisDecl> added = axes_beside(definition.axes);
    definition.axes.insert(first ? definition.axes.begin() : definition.axes.end(), added.begin(), added.end());
  }

  std::vector<AxisDecl> axes_beside(const std::vector<AxisDecl>& own) const {
    std::set<std::string> used;
    for (const AxisDecl& axis : own) used.insert(axis.name);
    return ProgramBuilder(program_).axes_for(extents_, preferred_, used);
  }

  /// Accesses to what has the axes too. `done` holds nodes of the body, which the caller keeps.
  Expr reading(const Expr& expr, const std::vector<Affine>& seed_axes, std::map<const Node*, Expr>& done) const {
    const auto [entry, is_new] = done.try_emplace(expr.get());
    if (!is_new) return entry->second;
    std::vector<Expr> args;
    for (const Expr& arg : expr->args) args.push_back(reading(arg, seed_axes, done));
    Expr result;
    if (expr->kind == NodeKind::Access && seeded_.contains(expr->tensor)) {
      std::vector<Affine> subscripts = expr->subscripts;
      subscripts.insert(subscripts.end(), seed_axes.begin(), seed_axes.end());
      result = tensor_access(expr->tensor, std::move(subscripts), std::move(args));
    } else {
      result = with_args(expr, std::move(args));
    }
    done[expr.get()] = result;
    return result;
  }

  const Program& program_;
  const std::vector<Symbol>& seeds_;
  const std::vector<Affine> extents_;
  const std::vector<std::string>& results_;
  const SeedAxes order_;
  std::vector<std::string> preferred_;
  std::set<std::string, std::less<>> seeded_;
};

}  // namespace

std::vector<Symbol> seeds_for(const Program& program, const std::string& tensor) {
  ProgramBuilder names(program);
  std::vector<Symbol> seeds;
  for (std::size_t k = 0; k < program.shape_of(tensor).size(); ++k) {
    const std::string name = names.free_name("seed." + std::to_string(k + 1));
    names.reserve(name);
    seeds.push_back(Symbol::dim(name));
  }
  return seeds;
}

Expr one_at_seeds(const Expr& access, const std::vector<Symbol>& seeds) {
  std::vector<Expr> tests;
  for (std::size_t k = 0; k < seeds.size(); ++k)
    tests.push_back(call("==", {subscript_value(access, k), index_value(seeds[k])}));
  if (tests.empty()) return 1;
  return call("where", {tests.size() == 1 ? tests[0] : call("and", tests), 1, 0});
}

Program with_seed_axes(const Program& program, const std::vector<Symbol>& seeds, const std::string& tensor,
                       const std::vector<std::string>& results, SeedAxes order) {
  return SeedAxesPass(program, seeds, tensor, results, order).run();
}

}  // namespace moxie
