#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "compiler/analysis/finite_values.h"
#include "compiler/expression/node_map.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/definitions/compared_elements.h"
#include "compiler/rewrite/definitions/recompute_cost.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/library_matrix.h"

namespace moxie {
namespace {

/// One or two arithmetic operations: cheaper to repeat than to store and load.
constexpr double kTrivialCost = 4;
/// From about one exponential on, a definition without long axes is worth a place in memory.
constexpr double kTableCost = 8;
/// A definition larger than this many times the largest input or output never exists in memory, unless a sum is as
/// large, which must.
constexpr double kRoomFactor = 4;

/// Bodies grow by inlining up to this many nodes, written out. Several stages take time by that length, in which an
/// expression that is used twice counts twice: along a chain of definitions it doubles with each that is inlined.
/// Kernels are no worse for it, since definitions over the same loops share one and are read in place there.
constexpr double kMaxAddedLength = 4000;
/// Multiply-adds that a definition may cost in one reader that needs several elements of it and computes it for each:
/// along a chain of stencils they multiply with every definition. Twice an exponential and its surroundings is fine
/// (the two units of a pair in a covariance).
constexpr double kMaxRepeatedCost = 100;
/// How often a reader may compute each element of a costly definition, on average: a window of a few elements may, of
/// which lanes see neighbours.
constexpr double kMaxRepetitions = 4;

bool is_element_wise(const Expr& body) {
  bool result = true;
  visit(body, [&](const Expr& e) { result &= e->kind != NodeKind::Reduce && e->kind != NodeKind::LinearAlgebra; });
  return result;
}

/// Of definitions that cannot be inlined.
double largest_kept(const Program& program) {
  double largest = 0;
  for (const Definition& definition : program.definitions) {
    if (!is_element_wise(definition.body)) largest = std::max(largest, assumed_size(definition.axes));
  }
  return largest;
}

/// Whether a definition of a scan is read at another step: then it is there to be read, once computed.
bool is_carried(const Program& program, const Definition& definition) {
  if (!definition.scan) return false;
  bool found = false;
  for (const Definition& reader : program.definitions) {
    if (reader.scan != definition.scan) continue;
    visit(reader.body, [&](const Expr& e) {
      found |=
          e->kind == NodeKind::Access && e->tensor == definition.name && e->subscripts[0] != Affine(Symbol::axis(0));
    });
  }
  return found;
}

/// Elements of a triangle are best computed side by side, also where one that is none gathers them.
bool is_triangle(const Definition& definition) {
  return std::ranges::any_of(definition.axes, [&](const AxisDecl& axis) {
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (mentions(axis.range, Symbol::axis(k))) return true;
    }
    return false;
  });
}

/// How many definitions read each tensor.
std::map<std::string, int> readers_of(const Program& program) {
  std::map<std::string, int> readers;
  for (const Definition& reader : program.definitions) {
    std::set<std::string> names;
    visit(reader.body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access && names.insert(e->tensor).second) ++readers[e->tensor];
    });
  }
  return readers;
}

/// Tensors that definitions of another precision read.
std::set<std::string> read_converted(const Program& program) {
  std::set<std::string> names;
  for (const Definition& reader : program.definitions) {
    visit(reader.body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access && program.dtype_of(e->tensor) != reader.dtype) names.insert(e->tensor);
    });
  }
  return names;
}

bool mentions_axis(const Expr& access, Symbol symbol) {
  return std::ranges::any_of(access->subscripts, [&](const Affine& subscript) { return subscript.mentions(symbol); });
}

/// Axes of a matrix that linear algebra gives: what it is made of is computed once for all of its elements.
bool is_element_axis(const Definition& definition, std::uint32_t axis) {
  return definition.body->kind == NodeKind::LinearAlgebra &&
         std::ranges::any_of(definition.body->subscripts,
                             [&](const Affine& s) { return s.mentions(Symbol::axis(axis)); });
}

/// Nodes of the expression when it is written out.
double length_of(const Expr& expr) {
  NodeMap<double> done;
  const std::function<double(const Expr&)> walk = [&](const Expr& e) -> double {
    if (const double* known = done.find(e.get())) return *known;
    double length = 1;
    for (const Expr& arg : e->args) length += walk(arg);
    return done[e.get()] = length;
  };
  return walk(expr);
}

/// How a body reads a tensor.
struct Reads {
  int elements = 0;        // different ones
  double occurrences = 0;  // when the body is written out
};

std::map<std::string, Reads> reads_of(const Expr& body) {
  std::vector<Expr> nodes;  // arguments first
  visit(body, [&](const Expr& e) { nodes.push_back(e); });
  NodeMap<double> occurrences;
  occurrences[body.get()] = 1;
  std::map<std::string, Reads> reads;
  for (const Expr& e : nodes | std::views::reverse) {
    const double count = occurrences[e.get()];
    for (const Expr& arg : e->args) occurrences[arg.get()] += count;
    if (e->kind != NodeKind::Access) continue;
    ++reads[e->tensor].elements;
    reads[e->tensor].occurrences += count;
  }
  return reads;
}

/// Definitions whose declared domains say more than their formulas show, such as that max(x, 0) is a finite number.
/// Strict precision proves with them while bodies read them, and no longer once the formula stands in their place. Only
/// those that are cheap: the other inlining takes them in wherever they are read then.
std::set<std::string> unproved_promises(const Program& program) {
  std::set<std::string> names;
  if (program.precision == Precision::Fast) return names;
  FiniteValues known(program);
  for (const Definition& definition : program.definitions) {
    if (cost(definition.body) <= kTrivialCost && !known.shows_domain_of(definition)) names.insert(definition.name);
  }
  return names;
}

/// Definitions whose elements cancel, which strict and accurate precision keep.
std::set<std::string> cancelling(const Program& program) {
  return program.precision == Precision::Fast ? std::set<std::string>() : compared_elements(program);
}

class Inliner {
 public:
  /// Definitions in `kept` are not inlined.
  Inliner(const Program& program, std::set<std::string> kept)
      : room_(std::max(kRoomFactor * largest_tensor(program), largest_kept(program))),
        converted_(read_converted(program)),
        readers_(readers_of(program)),
        kept_(std::move(kept)) {}

  /// What one use does not take in is in memory, and so read by all: until that is found out, again from the start.
  Program run(const Program& program) {
    while (true) {
      refused_.clear();
      Program result = inlined(program);
      if (std::ranges::includes(stored_, refused_)) return result;
      stored_.merge(refused_);
    }
  }

 private:
  /// A definition that may be inlined. What it costs is asked for at every access.
  struct Candidate {
    Definition definition;
    double cost, length;
  };

  Program inlined(Program program) {
    candidates_.clear();
    for (Definition& definition : program.definitions) {
      consumer_ = &definition;
      reads_ = reads_of(definition.body);
      affordable_.clear();
      added_length_ = 0;
      const auto inline_access = [this](const Expr& expr, const Scope& scope) { return replaced(expr, scope); };
      definition.body = rewrite_bottom_up(definition.body, Scope::of(definition), inline_access);
      if (is_stored_as_computed(definition.dtype) && is_element_wise(definition.body) &&
          !is_carried(program, definition) && !kept_.contains(definition.name))
        candidates_.emplace(definition.name, Candidate{definition, cost(definition.body), length_of(definition.body)});
    }
    return program;
  }

  Expr replaced(const Expr& expr, const Scope& scope) {
    if (expr->kind != NodeKind::Access) return expr;
    const auto found = candidates_.find(expr->tensor);
    if (found == candidates_.end()) return expr;
    const Candidate& candidate = found->second;
    const Definition& producer = candidate.definition;
    if (reads_by_value(expr)) {
      refused_.insert(producer.name);
      return expr;
    }
    if (has_library_matrix(*consumer_)) {  // a library reads it from memory
      refused_.insert(producer.name);
      return expr;
    }
    // What a scan has computed is read by others, not computed again.
    const bool is_read = producer.scan && producer.scan != consumer_->scan;
    if (is_read || !worth_inlining(candidate, expr, scope) || !is_affordable(candidate)) {
      if (candidate.cost >= (is_triangle(producer) ? kTrivialCost : kTableCost) || steps_look_up(producer, expr))
        refused_.insert(producer.name);
      return expr;
    }
    const Expr body = substitute(producer.body, axes_by_subscripts(expr));
    return producer.dtype == computed_dtype(consumer_->dtype) ? body : call(to_string(producer.dtype), {body});
  }

  /// Whether the reader stays of bounded length and cost.
  bool is_affordable(const Candidate& producer) {
    const auto [verdict, is_new] = affordable_.try_emplace(producer.definition.name);
    if (!is_new) return verdict->second;
    const Reads& reads = reads_.at(producer.definition.name);
    const double length = reads.occurrences * producer.length;
    verdict->second = added_length_ + length <= kMaxAddedLength &&
                      (reads.elements == 1 || reads.elements * producer.cost <= kMaxRepeatedCost);
    if (verdict->second) added_length_ += length;
    return verdict->second;
  }

  bool worth_inlining(const Candidate& candidate, const Expr& use, const Scope& scope) const {
    const Definition& producer = candidate.definition;
    const bool is_repeated = candidate.cost >= kTableCost && repeats_elements(producer, use, scope);
    const double room = is_repeated ? std::max(room_, kElementsInCache) : room_;
    if (assumed_size(producer.axes) > room) return true;
    if (stored_.contains(producer.name)) return false;
    const double producer_cost = candidate.cost;
    // Readers over the same loops share a kernel, and read in place there what is not inlined. All that is asked of one
    // matrix shares a kernel only if the matrix stands in it.
    const bool is_matrix = consumer_->body->kind == NodeKind::LinearAlgebra;
    if (!is_matrix && producer_cost > most_recomputed(producer) && readers_.at(producer.name) > 1) return false;
    const bool has_long_axis =
        std::ranges::any_of(producer.axes, [](const AxisDecl& axis) { return is_long(axis.range); });
    if (!has_long_axis && (producer_cost >= kTableCost || converted_.contains(producer.name))) return false;
    if (producer_cost <= kTrivialCost && !steps_look_up(producer, use)) return true;
    if (is_triangle(producer) && !is_triangle(*consumer_)) return false;
    // A consumer that is itself about to go into others is no loop yet.
    if (producer_cost < kTableCost && !consumer_->output && is_element_wise(consumer_->body)) return true;
    // Loops around the use that the producer does not know repeat it, unless they are inner loops, which hoisting takes
    // care of.
    for (std::uint32_t k = 0; k < consumer_->axes.size(); ++k) {
      if (is_element_axis(*consumer_, k)) continue;
      if (!mentions_axis(use, Symbol::axis(k)) && assumed_extent(consumer_->axes[k].range) > 1) return false;
    }
    const auto outer_sum = std::ranges::find_if(scope.open, [&](const auto& entry) {
      return entry.first.kind() == Symbol::Kind::Free && is_long(entry.second) && !mentions_axis(use, entry.first);
    });
    return outer_sum == scope.open.end() && !is_repeated;
  }

  /// Whether every step of a scan would read again where values say, which takes longer than to load what came of it.
  bool steps_look_up(const Definition& producer, const Expr& use) const {
    if (!consumer_->scan || producer.scan || mentions_axis(use, Symbol::axis(0))) return false;
    bool found = false;
    visit(producer.body, [&](const Expr& e) { found |= reads_by_value(e); });
    return found;
  }

  /// Whether subscripts that several loops move, as those of a frame in a signal, come to each element often.
  static bool repeats_elements(const Definition& producer, const Expr& use, const Scope& scope) {
    double evaluations = 1;
    for (const auto& [symbol, range] : scope.open) {
      if (mentions_axis(use, symbol)) evaluations *= assumed_extent(range);
    }
    return evaluations > kMaxRepetitions * assumed_size(producer.axes);
  }

  double room_;
  std::set<std::string> converted_;  // in memory anyway, if they have no long axis
  std::map<std::string, int> readers_;
  const std::set<std::string> kept_;
  std::set<std::string> stored_, refused_;
  const Definition* consumer_ = nullptr;
  std::map<std::string, Reads> reads_;      // by the consumer
  std::map<std::string, bool> affordable_;  // of what the consumer reads
  double added_length_ = 0;                 // to the consumer
  std::map<std::string, Candidate> candidates_;
};

}  // namespace

Program inline_proved(const Program& program) {
  std::set<std::string> kept = unproved_promises(program);
  kept.merge(cancelling(program));
  return drop_unused(Inliner(program, std::move(kept)).run(program));
}

Program inline_definitions(const Program& program) {
  return drop_unused(Inliner(program, cancelling(program)).run(program));
}

Program drop_unused(const Program& program) {
  std::set<std::string> needed;
  std::vector<const Definition*> open;
  for (const Definition& definition : program.definitions) {
    if (definition.output && needed.insert(definition.name).second) open.push_back(&definition);
  }
  while (!open.empty()) {
    const Definition* user = open.back();
    open.pop_back();
    visit(user->body, [&](const Expr& e) {
      const Definition* used = e->kind == NodeKind::Access ? program.find_definition(e->tensor) : nullptr;
      if (used && needed.insert(used->name).second) open.push_back(used);
    });
  }
  Program result = program;
  std::erase_if(result.definitions, [&](const Definition& d) { return !needed.contains(d.name); });
  return result;
}

}  // namespace moxie
