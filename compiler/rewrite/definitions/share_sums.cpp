#include <algorithm>
#include <set>

#include "compiler/analysis/value_range.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// Terms from which a sum costs more than to store it and to load it again: a vector of them.
constexpr double kLeastSharedTerms = 16;

/// Terms of a sum over one index or several.
double terms_of(const Expr& expr, const Scope& scope) {
  if (!is_sum(expr)) return 1;
  const OpenedReduce opened = open(expr);
  return longest_extent(opened.range, scope) * terms_of(opened.body, scope.with(opened.index, opened.range));
}

/// A sum inside the bodies of definitions: as a definition, and the names of those that compute it.
struct SharedSum {
  Definition definition;
  std::set<std::string> users;
  bool is_small = false;  // no larger than a definition that computes it
};

class SumSharing {
 public:
  explicit SumSharing(const Program& program) : program_(program), has_integers_(has_integers(program)) {
    for (const Definition& user : program.definitions) collect(user);
  }

  Program run() const {
    std::vector<std::string> names(sums_.size());  // once they are definitions
    return split_bodies(program_, [&](Program& known, const Definition& user) {
      return replaced(user, [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
        auto part = alone(known, user, expr, scope);
        if (!part) return std::nullopt;
        if (const Definition* held = holder(user, part->definition))
          return tensor_access(held->name, part->read->subscripts);
        const auto sum = find(part->definition);
        if (sum == sums_.end() || sum->users.size() < 2 || !sum->is_small) return std::nullopt;
        std::string& name = names[static_cast<std::size_t>(sum - sums_.begin())];
        if (!name.empty()) return tensor_access(name, part->read->subscripts);
        name = part->definition.name;
        return add_part(known, std::move(*part), user);
      });
    });
  }

 private:
  using Replace = std::function<std::optional<Expr>(const Expr&, const Scope&)>;

  /// The body with what takes the place of sums of many terms inside it, the outermost first. Loops over ranges
  /// by data, and sums over the rows in whose ranges an element lies, visit few pairs of both: sums in them stay.
  Expr replaced(const Definition& user, const Replace& f) const {
    if (user.scan) return user.body;
    return rewrite_top_down(user.body, Scope::of(user), [&](const Expr& expr, const Scope& scope) {
      if (visits_few_pairs(expr, scope)) return std::optional(expr);
      const bool is_long_sum = is_sum(expr) && expr != user.body && terms_of(expr, scope) >= kLeastSharedTerms;
      return is_long_sum ? f(expr, scope) : std::nullopt;
    });
  }

  bool visits_few_pairs(const Expr& expr, const Scope& scope) const {
    if (!has_integers_ || expr->kind != NodeKind::Reduce) return false;
    const auto scatter = scatter_of(program_, expr, scope);
    return ranged_reduce(program_, expr) || (scatter && scatter->span);
  }

  static std::optional<Extraction> alone(const Program& program, const Definition& user, const Expr& expr,
                                         const Scope& scope) {
    const Guarded guarded = with_guards(expr, scope);
    auto part = extract(program, guarded.scope, guarded.sum, user.name + ".sum", scope.dtype);
    const bool is_plain = part && part->read->kind == NodeKind::Access && part->read->args.empty();
    return is_plain ? std::move(part) : std::nullopt;
  }

  static bool are_equal(const Definition& a, const Definition& b) {
    return a.dtype == b.dtype && a.axes == b.axes && a.body == b.body;
  }

  /// The definition above the user that is this sum and nothing else.
  const Definition* holder(const Definition& user, const Definition& sum) const {
    const auto end = std::ranges::find(program_.definitions, user.name, &Definition::name);
    const auto found = std::find_if(program_.definitions.begin(), end,
                                    [&](const Definition& above) { return !above.scan && are_equal(above, sum); });
    return found == end ? nullptr : &*found;
  }

  std::vector<SharedSum>::const_iterator find(const Definition& definition) const {
    return std::ranges::find_if(sums_, [&](const SharedSum& sum) { return are_equal(sum.definition, definition); });
  }

  void collect(const Definition& user) {
    replaced(user, [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
      auto part = alone(program_, user, expr, scope);
      if (!part) return std::nullopt;
      auto sum = sums_.begin() + (find(part->definition) - sums_.cbegin());
      if (sum == sums_.end()) sum = sums_.insert(sum, {std::move(part->definition), {}});
      sum->users.insert(user.name);
      sum->is_small |= assumed_size(sum->definition.axes) <= assumed_size(user.axes);
      return expr;
    });
  }

  const Program& program_;
  const bool has_integers_;
  std::vector<SharedSum> sums_;
};

}  // namespace

Program share_sums(const Program& program) { return SumSharing(program).run(); }

}  // namespace moxie
