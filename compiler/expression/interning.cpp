#include "compiler/expression/interning.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <mutex>
#include <utility>

#include "compiler/expression/functions.h"
#include "compiler/support/hash.h"

namespace moxie {
namespace {

/// The expressions alive in this process, by hash. Equal content is the same node; a node leaves the table when its
/// last Expr goes. Threads that plan kernels side by side seldom meet in one of its parts.
class InternTable {
 public:
  /// The node with the content of this one, whose hash is known. Most nodes that passes make are there already; of one
  /// that is not, `complete` derives the rest.
  template <class Complete>
  Expr intern(Node&& node, const Complete& complete) {
    const std::lock_guard lock(mutex_);
    if (Expr known = find_locked(node)) return known;
    complete(node);
    if (count_ == buckets_.size()) grow();
    const auto fresh = std::make_shared<Interned>(std::move(node));
    insert(fresh.get());
    ++count_;
    return Expr(fresh);
  }
  /// The part for a hash. Never destroyed: expressions in static storage may outlive any order of destruction.
  static InternTable& part_for(std::uint64_t hash) {
    static auto* parts = new std::array<InternTable, kParts>;
    return (*parts)[hash / (std::numeric_limits<std::uint64_t>::max() / kParts + 1)];
  }

 private:
  /// A node in a list of the table. It leaves the list when its last Expr goes; its children die after that, outside
  /// the lock, since their own deaths take it again.
  struct Interned : Node, std::enable_shared_from_this<Interned> {
    explicit Interned(Node&& node) : Node(std::move(node)) {}
    Interned(const Interned&) = delete;
    Interned& operator=(const Interned&) = delete;
    ~Interned() { part_for(hash).forget(this); }
    Interned* next = nullptr;
  };

  /// No pointer to a node ends here but the one that is returned: where another thread drops its last meanwhile, the
  /// node would die under the lock, which it takes. A weak pointer to a const node, made of one to a node that is not,
  /// holds the node for a moment.
  Expr find_locked(const Node& node) {
    for (Interned* known = bucket_of(node.hash); known; known = known->next) {
      if (known->hash != node.hash || !same(*known, node)) continue;
      if (std::shared_ptr<Interned> alive = known->weak_from_this().lock()) return Expr(std::move(alive));
    }
    return {};
  }
  Interned*& bucket_of(std::uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  void insert(Interned* node) {
    Interned*& first = bucket_of(node->hash);
    node->next = first;
    first = node;
  }
  void grow() {
    const std::vector<Interned*> before = std::exchange(buckets_, std::vector<Interned*>(2 * buckets_.size()));
    for (Interned* node : before) {
      while (node) insert(std::exchange(node, node->next));
    }
  }
  void forget(const Interned* dying) {
    const std::lock_guard lock(mutex_);
    Interned** link = &bucket_of(dying->hash);
    while (*link != dying) link = &(*link)->next;
    *link = dying->next;
    --count_;
  }
  static bool same(const Node& a, const Node& b) {
    const bool same_value = std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value);
    return a.kind == b.kind && same_value && a.function == b.function && a.reduce == b.reduce &&
           a.algebra == b.algebra && a.random == b.random && a.stream == b.stream && a.args == b.args &&
           a.tensor == b.tensor && a.affine == b.affine && a.subscripts == b.subscripts && a.range == b.range &&
           a.size == b.size && a.height == b.height;
  }

  static constexpr std::size_t kFirstBuckets = 64;  // always a power of two
  static constexpr std::size_t kParts = 64;         // a power of two, too

  std::mutex mutex_;
  std::vector<Interned*> buckets_ = std::vector<Interned*>(kFirstBuckets);
  std::size_t count_ = 0;
};

/// Whether the symbol is an index. The terms of a sum stand in one order whether a definition has an axis for the index
/// or a reduction binds it: what both compute is one value then.
bool is_anonymous(Symbol symbol) {
  return symbol.kind() == Symbol::Kind::Axis || symbol.kind() == Symbol::Kind::Bound ||
         symbol.kind() == Symbol::Kind::Free;
}

/// As Affine::hash, with indices told apart by their coefficients only.
std::uint64_t shape_hash(const Affine& affine) {
  std::uint64_t h = mix(1, static_cast<std::uint64_t>(affine.constant()));
  std::uint64_t anonymous = 0;  // a sum, since the order of anonymous terms carries no meaning
  for (const auto& [symbol, coefficient] : affine.terms()) {
    if (is_anonymous(symbol))
      anonymous += mix(3, static_cast<std::uint64_t>(coefficient));
    else
      h = mix(mix(h, symbol.hash()), static_cast<std::uint64_t>(coefficient));
  }
  return mix(h, anonymous);
}

std::uint64_t shape_hash(const Range& range) {
  std::uint64_t h = mix(2, range.lows.size());
  for (const auto* bounds : {&range.lows, &range.highs}) {
    for (const Bound& bound : *bounds)
      h = mix(mix(h, static_cast<std::uint64_t>(bound.divisor)), shape_hash(bound.value));
  }
  return h;
}

/// Of a tensor's name without its digits, so that the terms of a sum stand in one order in all steps of an unrolled
/// scan, and in all layers of a network: what differs in such numbers only is one kernel.
std::uint64_t shape_hash(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (std::ranges::none_of(name, is_digit)) return hash_text(name);
  std::string letters(name);
  std::erase_if(letters, is_digit);
  return hash_text(letters);
}

template <class HashName, class HashAffine, class HashRange, class HashChild>
std::uint64_t hash_with(const Node& node, HashName name, HashAffine affine, HashRange range, HashChild child) {
  std::uint64_t h = mix(static_cast<std::uint64_t>(node.kind), std::bit_cast<std::uint64_t>(node.value));
  h = mix(h, name(node.tensor));
  h = mix(h, node.function ? hash_text(node.function->name) : 0);
  h = mix(h, static_cast<std::uint64_t>(node.reduce) * 64 + static_cast<std::uint64_t>(node.algebra) * 8 +
                 static_cast<std::uint64_t>(node.random));
  h = mix(mix(h, static_cast<std::uint64_t>(node.stream)), affine(node.affine));
  h = mix(mix(h, range(node.range)), affine(node.size.rows));
  if (node.size.columns != node.size.rows) h = mix(h, affine(node.size.columns));
  for (const Affine& subscript : node.subscripts) h = mix(h, affine(subscript));
  for (const Expr& arg : node.args) h = mix(h, child(*arg));
  return h;
}

void add_symbols(std::vector<Symbol>& symbols, const Affine& affine) {
  for (const auto& term : affine.terms()) symbols.push_back(term.first);
}

void add_symbols(std::vector<Symbol>& symbols, const Range& range) {
  for (const auto* bounds : {&range.lows, &range.highs}) {
    for (const Bound& bound : *bounds) add_symbols(symbols, bound.value);
  }
}

bool binds(const Node& node, Symbol symbol) {
  if (symbol.kind() != Symbol::Kind::Bound) return false;
  if (node.kind == NodeKind::Reduce) return symbol.number() == node.height;
  if (node.kind == NodeKind::LinearAlgebra) return symbol.number() == node.height || symbol.number() + 1 == node.height;
  return false;
}

bool is_binder(const Node& node) { return node.kind == NodeKind::Reduce || node.kind == NodeKind::LinearAlgebra; }

void derive_hash(Node& node) {
  if (!is_binder(node)) {
    for (const Expr& arg : node.args) node.height = std::max(node.height, arg->height);
  }
  node.hash = mix(hash_with(
                      node, hash_text, [](const Affine& a) { return a.hash(); },
                      [](const Range& r) { return r.hash(); }, [](const Node& child) { return child.hash; }),
                  node.height);
}

/// Both are sorted. Most children depend on what their siblings depend on.
void unite(std::vector<Symbol>& symbols, std::vector<Symbol>&& more) {
  if (symbols.empty()) {
    symbols = std::move(more);
  } else if (!std::ranges::includes(symbols, more)) {
    std::vector<Symbol> both;
    both.reserve(symbols.size() + more.size());
    std::ranges::set_union(symbols, more, std::back_inserter(both));
    symbols = std::move(both);
  }
}

/// Adds the symbols of the node itself. Values in subscripts are not free symbols: they stand for arguments.
void add_own_symbols(Node& node) {
  std::vector<Symbol> own;
  add_symbols(own, node.affine);
  add_symbols(own, node.range);
  add_symbols(own, node.size.rows);
  add_symbols(own, node.size.columns);
  for (const Affine& subscript : node.subscripts) add_symbols(own, subscript);
  if (own.empty()) return;
  std::erase_if(own, [](Symbol symbol) { return symbol.is_value(); });
  std::ranges::sort(own);
  const auto repeated = std::ranges::unique(own);
  own.erase(repeated.begin(), repeated.end());
  unite(node.free_symbols, std::move(own));
}

void derive_free_symbols(Node& node) {
  for (const Expr& arg : node.args) {
    if (std::ranges::includes(node.free_symbols, arg->free_symbols)) continue;
    unite(node.free_symbols, std::vector<Symbol>(arg->free_symbols));
  }
  if (is_binder(node)) std::erase_if(node.free_symbols, [&](Symbol symbol) { return binds(node, symbol); });
  add_own_symbols(node);
}

/// Derives what find_locked() does not compare.
void complete(Node& node) {
  derive_free_symbols(node);
  node.gathers = (node.kind == NodeKind::Access && !node.args.empty()) ||
                 std::ranges::any_of(node.args, [](const Expr& arg) { return arg->gathers; });
  node.shape_hash = hash_with(
      node, [](std::string_view name) { return shape_hash(name); }, [](const Affine& a) { return shape_hash(a); },
      [](const Range& r) { return shape_hash(r); }, [](const Node& child) { return child.shape_hash; });
}

}  // namespace

Expr intern(Node&& node) {
  derive_hash(node);
  return InternTable::part_for(node.hash).intern(std::move(node), complete);
}

}  // namespace moxie
