#include "compiler/diff/seeds.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "compiler/diff/program_builder.h"
#include "compiler/diff/sparse_seeds.h"
#include "compiler/expression/functions.h"
#include "compiler/program/scans.h"

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
    for (const Definition& definition : program.definitions) needs_[definition.name].assign(seeds.size(), false);
    for (const std::string& result : results) needs_[result].assign(seeds.size(), true);
    while (grow()) {
    }
  }

  Program run() const {
    Program result = program_;
    for (Definition& definition : result.definitions) {
      if (!needed_by(definition.name).empty()) extend(definition);
    }
    return result;
  }

 private:
  /// Notes the seeds that definitions depend on; those of a scan may read later ones.
  bool grow() {
    bool grows = false;
    for (const Definition& definition : program_.definitions) {
      std::vector<bool>& needs = needs_.at(definition.name);
      const std::vector<bool> before = needs;
      visit(definition.body, [&](const Expr& e) {
        const auto read = e->kind == NodeKind::Access ? needs_.find(e->tensor) : needs_.end();
        for (std::size_t k = 0; k < seeds_.size(); ++k) {
          if (e->depends_on(seeds_[k]) || (read != needs_.end() && read->second[k])) needs[k] = true;
        }
      });
      grows = grows || needs != before;
    }
    return grows;
  }

  /// The numbers of the seeds that become axes of the tensor.
  std::vector<std::size_t> needed_by(const std::string& tensor) const {
    std::vector<std::size_t> needed;
    const auto needs = needs_.find(tensor);
    for (std::size_t k = 0; needs != needs_.end() && k < seeds_.size(); ++k) {
      if (needs->second[k]) needed.push_back(k);
    }
    return needed;
  }

  void extend(Definition& definition) const {
    const bool first = order_ == SeedAxes::First && std::ranges::find(results_, definition.name) != results_.end();
    const auto own = static_cast<std::uint32_t>(definition.axes.size());
    const std::vector<std::size_t> needed = needed_by(definition.name);
    const auto more = static_cast<std::uint32_t>(needed.size());
    Replacement axes;
    for (std::uint32_t k = 0; first && k < own; ++k) axes.emplace_back(Symbol::axis(k), Symbol::axis(k + more));
    std::vector<Affine> seed_axes(seeds_.size());
    for (std::uint32_t k = 0; k < more; ++k) {
      seed_axes[needed[k]] = Symbol::axis(first ? k : own + k);
      axes.emplace_back(seeds_[needed[k]], seed_axes[needed[k]]);
    }
    std::map<const Node*, Expr> done;
    const Expr body = substitute(definition.body, axes);
    definition.body = reading(body, seed_axes, done);
    const std::vector<AxisDecl> added = axes_beside(definition.axes, needed);
    definition.axes.insert(first ? definition.axes.begin() : definition.axes.end(), added.begin(), added.end());
  }

  std::vector<AxisDecl> axes_beside(const std::vector<AxisDecl>& own, const std::vector<std::size_t>& needed) const {
    std::set<std::string> used;
    for (const AxisDecl& axis : own) used.insert(axis.name);
    std::vector<Affine> extents;
    std::vector<std::string> preferred;
    for (const std::size_t k : needed) {
      extents.push_back(extents_[k]);
      preferred.push_back(k < preferred_.size() ? preferred_[k] : "");
    }
    return ProgramBuilder(program_).axes_for(extents, preferred, used);
  }

  /// Accesses to what has the axes too. `done` holds nodes of the body, which the caller keeps.
  Expr reading(const Expr& expr, const std::vector<Affine>& seed_axes, std::map<const Node*, Expr>& done) const {
    const auto [entry, is_new] = done.try_emplace(expr.get());
    if (!is_new) return entry->second;
    std::vector<Expr> args;
    for (const Expr& arg : expr->args) args.push_back(reading(arg, seed_axes, done));
    Expr result;
    const auto needed = expr->kind == NodeKind::Access ? needed_by(expr->tensor) : std::vector<std::size_t>{};
    if (!needed.empty()) {
      std::vector<Affine> subscripts = expr->subscripts;
      for (const std::size_t k : needed) subscripts.push_back(seed_axes[k]);
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
  std::map<std::string, std::vector<bool>, std::less<>> needs_;  // by definition and seed
};

Expr one_at_seeds(const Expr& access, const std::vector<Symbol>& seeds) {
  std::vector<Expr> tests;
  for (std::size_t k = 0; k < seeds.size(); ++k)
    tests.push_back(call("==", {subscript_value(access, k), index_value(seeds[k])}));
  if (tests.empty()) return 1;
  return call("where", {tests.size() == 1 ? tests[0] : call("and", tests), 1, 0});
}

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

Program with_seeds(const Program& program, const std::vector<Symbol>& seeds) {
  const std::string input = program.inputs.back().name;
  const std::function<Expr(const Expr&)> seeded = [&](const Expr& expr) -> Expr {
    if (expr->kind == NodeKind::Access && expr->tensor == input) return one_at_seeds(expr, seeds);
    return map_children(expr, seeded);
  };
  Program result = program;
  result.inputs.pop_back();
  for (Definition& definition : result.definitions) {
    if (reads(definition, input)) definition.body = seeded(definition.body);
  }
  return result;
}

Program with_seed_axes(const Program& program, const std::vector<Symbol>& seeds, const std::string& tensor,
                       const std::vector<std::string>& results, SeedAxes order) {
  const Program sparse = with_sparse_seeds(program, seeds, program.shape_of(tensor));
  return SeedAxesPass(sparse, seeds, tensor, results, order).run();
}

}  // namespace moxie
