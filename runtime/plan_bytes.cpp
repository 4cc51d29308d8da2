#include "runtime/plan_bytes.h"

#include <unordered_map>

#include "compiler/expression/functions.h"
#include "runtime/byte_archive.h"

namespace moxie {

// ---- Every type that is written member by member ----

template <>
inline constexpr int kMembers<Bound> = 2;
template <>
inline constexpr int kMembers<Range> = 2;
template <>
inline constexpr int kMembers<ValueDomain> = 2;
template <>
inline constexpr int kMembers<ValueDomain::Bound> = 2;
template <>
inline constexpr int kMembers<DimDecl> = 3;
template <>
inline constexpr int kMembers<IndexDecl> = 2;
template <>
inline constexpr int kMembers<Initialiser> = 4;
template <>
inline constexpr int kMembers<InputDecl> = 6;
template <>
inline constexpr int kMembers<AxisDecl> = 3;
template <>
inline constexpr int kMembers<Checkpoints> = 1;
template <>
inline constexpr int kMembers<Scan> = 3;
template <>
inline constexpr int kMembers<Definition> = 10;
template <>
inline constexpr int kMembers<Program> = 7;
template <>
inline constexpr int kMembers<ProductOperand> = 5;
template <>
inline constexpr int kMembers<MatrixProduct> = 13;
template <>
inline constexpr int kMembers<AlgebraCall> = 1;
template <>
inline constexpr int kMembers<OrderedOperand> = 3;
template <>
inline constexpr int kMembers<OrderedSelection> = 4;
template <>
inline constexpr int kMembers<OrderedSumCall> = 9;
template <>
inline constexpr int kMembers<BufferDecl> = 5;
template <>
inline constexpr int kMembers<ArrayDecl> = 4;
template <>
inline constexpr int kMembers<VarDecl> = 2;
template <>
inline constexpr int kMembers<CheckDecl> = 3;
template <>
inline constexpr int kMembers<Value> = 3;
template <>
inline constexpr int kMembers<LoopProgram> = 10;
template <>
inline constexpr int kMembers<op::Constant> = 1;
template <>
inline constexpr int kMembers<op::Number> = 1;
template <>
inline constexpr int kMembers<op::Load> = 3;
template <>
inline constexpr int kMembers<op::Subscript> = 4;
template <>
inline constexpr int kMembers<op::LoadArray> = 2;
template <>
inline constexpr int kMembers<op::ReadVar> = 1;
template <>
inline constexpr int kMembers<op::Call> = 2;
template <>
inline constexpr int kMembers<op::Convert> = 1;
template <>
inline constexpr int kMembers<op::Random> = 3;
template <>
inline constexpr int kMembers<op::CombineLanes> = 2;
template <>
inline constexpr int kMembers<op::PrefixLanes> = 2;
template <>
inline constexpr int kMembers<op::LastLane> = 1;
template <>
inline constexpr int kMembers<stmt::Let> = 1;
template <>
inline constexpr int kMembers<stmt::SetVar> = 2;
template <>
inline constexpr int kMembers<stmt::Store> = 3;
template <>
inline constexpr int kMembers<stmt::StoreArray> = 3;
template <>
inline constexpr int kMembers<stmt::For> = 8;
template <>
inline constexpr int kMembers<stmt::Check> = 4;
template <>
inline constexpr int kMembers<SplitLoop> = 7;
template <>
inline constexpr int kMembers<BufferUse> = 4;
template <>
inline constexpr int kMembers<LoweredKernel> = 7;
template <>
inline constexpr int kMembers<LoweredKernel::ForThreads> = 2;
template <>
inline constexpr int kMembers<LoweredScan> = 4;
template <>
inline constexpr int kMembers<SliceAxis> = 5;
template <>
inline constexpr int kMembers<SliceView> = 2;
template <>
inline constexpr int kMembers<SliceNumbers> = 5;
template <>
inline constexpr int kMembers<Slices> = 6;
template <>
inline constexpr int kMembers<LoweredSlices> = 2;
template <>
inline constexpr int kMembers<ScheduleChoice> = 5;

template <>
inline constexpr DType kLastValue<DType> = kLastDType;
template <>
inline constexpr ValueType kLastValue<ValueType> = ValueType::index;
template <>
inline constexpr Precision kLastValue<Precision> = Precision::Accurate;
template <>
inline constexpr ReduceKind kLastValue<ReduceKind> = kLastReduceKind;
template <>
inline constexpr RandomKind kLastValue<RandomKind> = RandomKind::Uniform;
template <>
inline constexpr NodeKind kLastValue<NodeKind> = NodeKind::Random;
template <>
inline constexpr LinearAlgebraKind kLastValue<LinearAlgebraKind> = kLastAlgebraKind;
template <>
inline constexpr Symbol::Kind kLastValue<Symbol::Kind> = Symbol::Kind::Value;
template <>
inline constexpr InputRole kLastValue<InputRole> = InputRole::State;
template <>
inline constexpr OutputRole kLastValue<OutputRole> = OutputRole::Next;
template <>
inline constexpr Initialiser::Kind kLastValue<Initialiser::Kind> = Initialiser::Kind::Values;

namespace {

// ---- The types that are written in other ways ----

class PlanWriter : public ByteWriter<PlanWriter> {
 public:
  using ByteWriter<PlanWriter>::put;

  void put(const Symbol& symbol) {
    put(symbol.kind());
    if (symbol.is_dim())
      put(symbol.name());
    else if (symbol.kind() == Symbol::Kind::Free)
      throw InternalError("an index that is open stands in a Plan");
    else
      put(symbol.number());
  }
  void put(const Affine& affine) {
    put(affine.constant());
    number(affine.terms().size());
    for (const Affine::Term& term : affine.terms()) put(term);
  }
  void put(const Statement& statement) { put(static_cast<const Statement::variant&>(statement)); }
  void put(const ScalarFunction* const& function) { put(std::string(function->name)); }

  /// A node is written where it is met first, after its children; later it is a number.
  void put(const Expr& expr) {
    if (!expr) return number(0);
    if (const auto known = nodes_.find(expr.get()); known != nodes_.end()) return number(known->second);
    number(1);
    put_node(*expr);
    nodes_.emplace(expr.get(), nodes_.size() + 2);
  }

 private:
  void put_node(const Node& node) {
    put(node.kind);
    put(node.args);
    switch (node.kind) {
      case NodeKind::Constant:
        return put(node.value);
      case NodeKind::IndexValue:
        return put(node.affine);
      case NodeKind::Access:
        put(node.tensor);
        return put(node.subscripts);
      case NodeKind::Call:
        return put(node.function);
      case NodeKind::Reduce:
        put(node.reduce);
        put(node.height);
        return put(node.range);
      case NodeKind::LinearAlgebra:
        put(node.algebra);
        put(node.height);
        put(node.size.rows);
        put(node.size.columns);
        return put(node.subscripts);
      case NodeKind::Random:
        put(node.random);
        put(node.stream);
        return put(node.subscripts);
    }
  }

  std::unordered_map<const Node*, std::size_t> nodes_;
};

class PlanReader : public ByteReader<PlanReader> {
 public:
  explicit PlanReader(std::string_view bytes) : ByteReader(bytes) {}
  using ByteReader<PlanReader>::get;

  template <class T>
  static T blank() {
    if constexpr (std::same_as<T, stmt::For>)
      return {Symbol::bound(0), {}, false, {}};
    else
      return {};
  }
  template <class T>
  T take_value() {
    T value = blank<T>();
    get(value);
    return value;
  }

  Symbol symbol() {
    const auto kind = take_value<Symbol::Kind>();
    if (kind == Symbol::Kind::Dim) return Symbol::dim(take_value<std::string>());
    const auto number = take_value<std::uint32_t>();
    if (kind == Symbol::Kind::Free) refuse();
    if (kind == Symbol::Kind::Value) return Symbol::value(number);
    return kind == Symbol::Kind::Axis ? Symbol::axis(number) : Symbol::bound(number);
  }
  void get(Affine& affine) {
    affine = Affine(take_value<std::int64_t>());
    for (std::size_t left = length(); left > 0; --left) {
      const Symbol of = symbol();
      affine += Affine(of) * take_value<std::int64_t>();
    }
  }
  void get(Symbol& value) { value = symbol(); }
  void get(Statement& statement) { get(static_cast<Statement::variant&>(statement)); }
  void get(const ScalarFunction*& function) {
    function = find_function(take_value<std::string>());
    if (function == nullptr) refuse();
  }
  void get(Expr& expr) {
    const std::uint64_t which = number();
    if (which == 0) {
      expr = Expr();
    } else if (which == 1) {
      nodes_.push_back(node());
      expr = nodes_.back();
    } else {
      if (which - 2 >= nodes_.size()) refuse();
      expr = nodes_[which - 2];
    }
  }

 private:
  Expr node() {
    const auto kind = take_value<NodeKind>();
    auto args = take_value<std::vector<Expr>>();
    for (const Expr& arg : args) {
      if (!arg) refuse();
    }
    const auto has = [&](std::size_t least, std::size_t most) {
      if (args.size() < least || args.size() > most) refuse();
    };
    switch (kind) {
      case NodeKind::Constant:
        return constant(take_value<double>());
      case NodeKind::IndexValue:
        return index_value(take_value<Affine>());
      case NodeKind::Access: {
        auto tensor = take_value<std::string>();
        auto subscripts = take_value<std::vector<Affine>>();
        for (const Affine& subscript : subscripts) {
          for (const auto& [symbol, coefficient] : subscript.terms()) {
            if (symbol.is_value() && symbol.number() >= args.size()) refuse();
          }
        }
        return tensor_access(std::move(tensor), std::move(subscripts), std::move(args));
      }
      case NodeKind::Call:
        return call(*take_value<const ScalarFunction*>(), std::move(args));
      case NodeKind::Reduce: {
        has(1, 2);
        const auto reduction = take_value<ReduceKind>();
        const auto index = Symbol::bound(take_value<std::uint32_t>());
        return reduce(reduction, index, take_value<Range>(), args[0], args.size() > 1 ? args[1] : Expr());
      }
      case NodeKind::LinearAlgebra: {
        has(1, 2);
        const auto algebra = take_value<LinearAlgebraKind>();
        const auto height = take_value<std::uint32_t>();
        if (height < 2) refuse();
        const auto rows = take_value<Affine>(), columns = take_value<Affine>();
        return linear_algebra(algebra, Symbol::bound(height), Symbol::bound(height - 1), {rows, columns}, args[0],
                              args.size() > 1 ? args[1] : Expr(), take_value<std::vector<Affine>>());
      }
      case NodeKind::Random: {
        const auto random_kind = take_value<RandomKind>();
        const auto stream = take_value<std::int64_t>();
        return random(random_kind, stream, take_value<std::vector<Affine>>());
      }
    }
    refuse();
  }

  std::vector<Expr> nodes_;
};

}  // namespace

std::string to_bytes(const Program& program) {
  PlanWriter writer;
  writer.put(program);
  return writer.bytes();
}

std::string to_bytes(const Plan& plan) {
  PlanWriter writer;
  writer.put(plan.fused.program);
  writer.put(plan.fused.layouts);
  writer.put(plan.fused.folded);
  writer.put(plan.steps);
  writer.put(plan.choices);
  return writer.bytes();
}

Plan plan_from_bytes(std::string_view bytes, Program program) {
  Plan plan;
  plan.program = std::move(program);
  PlanReader reader(bytes);
  try {
    reader.get(plan.fused.program);
    reader.get(plan.fused.layouts);
    reader.get(plan.fused.folded);
    reader.get(plan.steps);
    reader.get(plan.choices);
    if (!reader.at_end()) PlanReader::refuse();
    for (const PlanStep& step : plan.steps) {
      for (const LoweredKernel* kernel : kernels_of(step)) verify(kernel->program);
    }
  } catch (const CacheError&) {
    throw;
  } catch (const Error& error) {
    throw CacheError(std::string("a plan cannot be read: ") + error.what());
  }
  return plan;
}

}  // namespace moxie
