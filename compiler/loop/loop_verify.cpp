// The rules of a LoopProgram, checked in one walk in the order of execution.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "compiler/expression/functions.h"
#include "compiler/loop/loop_text.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

ValueType type_of(DType dtype) { return value_type(dtype); }

class Verifier {
 public:
  explicit Verifier(const LoopProgram& program)
      : program_(program), text_(program), assigned_(program.values.size()), visible_(program.values.size()) {}

  void run() {
    verify_declarations();
    block(program_.body);
  }

 private:
  // ---- messages ----
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> message, Args&&... args) const {
    if (!holds) fail(fmt::format(message, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail(const std::string& message) const {
    const std::string where = current_ ? fmt::format(", in `{}`", text_.line(*current_)) : "";
    throw InternalError(fmt::format("loop program {}: {}{}", program_.name, message, where));
  }

  // ---- declarations ----
  void verify_declarations() const {
    const std::set<std::string> names(program_.arguments.begin(), program_.arguments.end());
    require(names.size() == program_.arguments.size(), "two arguments have one name");
    for (const BufferDecl& buffer : program_.buffers) {
      for (const Affine& extent : buffer.shape) affine(extent);
      std::vector<std::uint32_t> axes = buffer.layout;
      std::ranges::sort(axes);
      bool permutation = axes.size() == buffer.shape.size();
      for (std::size_t i = 0; permutation && i < axes.size(); ++i) permutation = axes[i] == i;
      require(permutation, "the layout of buffer {} is not a permutation of its {} axes", buffer.name,
              buffer.shape.size());
    }
    for (const ArrayDecl& array : program_.arrays)
      for (const Affine& extent : array.extents) {
        affine(extent);
        require(!extent.is_constant() || extent.constant() >= 0, "scratch array {} has the extent {}", array.name,
                extent.constant());
      }
    for (const CheckDecl& check : program_.checks)
      require(check.coordinate_names.size() <= std::size(KernelStatus{}.coordinates),
              "check \"{}\" has {} coordinates; a status holds {}", check.message, check.coordinate_names.size(),
              std::size(KernelStatus{}.coordinates));
  }

  // ---- symbols; each returns whether the result varies between lanes ----
  bool affine(const Affine& value) const {
    bool varying = false;
    for (const auto& [symbol, coefficient] : value.terms()) {
      if (symbol.is_value())
        varying |= use(symbol.number(), ValueType::index).varying;
      else if (symbol.is_dim())
        require(std::ranges::count(program_.arguments, symbol.name()) > 0, "{} is not an argument", symbol.name());
      else
        require(std::ranges::count(loops_, symbol) > 0, "{} is not the variable of a loop around this", symbol.name());
    }
    return varying || (vector_loop_ && value.mentions(*vector_loop_));
  }
  bool affines(const std::vector<Affine>& values) const {
    bool varying = false;
    for (const Affine& value : values) varying |= affine(value);
    return varying;
  }
  bool subscripts(const std::vector<Affine>& values, std::size_t rank, const std::string& name) const {
    require(values.size() == rank, "{} has {} axes but {} subscripts", name, rank, values.size());
    return affines(values);
  }

  // ---- references ----
  template <class Declarations>
  const auto& declared(const Declarations& declarations, std::uint32_t id, std::string_view kind) const {
    require(id < declarations.size(), "{} {} does not exist; there are {}", kind, id, declarations.size());
    return declarations[id];
  }
  const Value& use(ValueId id) const {
    const Value& value = declared(program_.values, id, "value");
    require(visible_[id], "v{} is used {}", id,
            assigned_[id] ? "outside the block that assigns it" : "before it is assigned");
    return value;
  }
  const Value& use(ValueId id, ValueType type) const {
    const Value& value = use(id);
    require(value.type == type, "v{} is {} where {} is needed", id, type_text(value.type, false),
            type_text(type, false));
    return value;
  }
  const Value& use_number(ValueId id) const {
    const Value& value = use(id);
    require(is_number(value.type), "v{} is {} where a number is needed", id, type_text(value.type, false));
    return value;
  }

  // ---- operations; each returns whether the result varies between lanes ----
  static bool is_number(ValueType type) { return type == ValueType::f32 || type == ValueType::f64; }
  void number_wanted(const Value& v) const {
    require(is_number(v.type), "this operation gives a number, not a value of type {}", type_text(v.type, false));
  }
  bool verify_operation(const Value&, const op::Constant&) const { return false; }
  bool verify_operation(const Value& v, const op::Number& o) const {
    number_wanted(v);
    return affine(o.value);
  }
  bool verify_operation(const Value& v, const op::Subscript& o) const {
    require(v.type == ValueType::index, "a subscript is an index, not a value of type {}", type_text(v.type, false));
    const BufferDecl& buffer = declared(program_.buffers, o.buffer, "buffer");
    require(o.axis < buffer.shape.size(), "{} has no axis {}", buffer.name, o.axis);
    const bool varying = affine(o.value);
    return (o.guard && use(*o.guard, ValueType::truth).varying) || varying;
  }
  bool verify_operation(const Value& v, const op::Load& o) const {
    const BufferDecl& buffer = declared(program_.buffers, o.buffer, "buffer");
    if (v.type != ValueType::index) number_wanted(v);
    require(v.type != ValueType::index || holds_integers(buffer.dtype), "an index is read from {}, which holds {}",
            buffer.name, to_string(buffer.dtype));
    const bool varying = subscripts(o.subscripts, buffer.shape.size(), buffer.name);
    return (o.guard && use(*o.guard, ValueType::truth).varying) || varying;
  }
  bool verify_operation(const Value& v, const op::LoadArray& o) const {
    const ArrayDecl& array = declared(program_.arrays, o.array, "scratch array");
    require(v.type == type_of(array.dtype), "a load from {} gives {}", array.name, to_string(array.dtype));
    const bool varying = subscripts(o.subscripts, array.extents.size(), array.name);
    require(!(varying && array.varying), "{} holds one value per lane and is read at subscripts that vary", array.name);
    return varying || array.varying;
  }
  bool verify_operation(const Value& v, const op::ReadVar& o) const {
    const VarDecl& var = declared(program_.vars, o.var, "var");
    require(v.type == var.type, "acc{} is {}", o.var, type_text(var.type, false));
    return var.varying;
  }
  bool verify_operation(const Value& v, const op::Call& o) const {
    require(o.function != nullptr, "a call without a function");
    verify_call_types(v, o);
    return std::ranges::any_of(o.args, [&](ValueId id) { return program_.values[id].varying; });
  }
  bool verify_operation(const Value& v, const op::Convert& o) const {
    number_wanted(v);
    return use_number(o.value).varying;
  }
  bool verify_operation(const Value& v, const op::Random& o) const {
    number_wanted(v);
    for (const char* name : {"%seed", "%step"})
      require(std::ranges::count(program_.arguments, name) > 0, "random numbers need the argument {}", name);
    return affines(o.coordinates);
  }
  bool verify_operation(const Value& v, const op::CombineLanes& o) const {
    number_wanted(v);
    require(!vector_loop_, "lanes are combined inside the vector loop");
    require(o.kind < ReduceKind::LogSumExp, "lanes are combined by {}, which takes more than one step",
            to_string(o.kind));
    require(use(o.value, v.type).varying, "v{} is uniform and has no lanes to combine", o.value);
    return false;
  }

  bool verify_operation(const Value& v, const op::PrefixLanes& o) const {
    number_wanted(v);
    require(vector_loop_ && loops_.back() == *vector_loop_,
            "a prefix over lanes does not stand directly in their loop");
    require(o.kind < ReduceKind::LogSumExp, "lanes are combined by {}, which takes more than one step",
            to_string(o.kind));
    use(o.value, v.type);
    return true;
  }
  bool verify_operation(const Value& v, const op::LastLane& o) const {
    number_wanted(v);
    require(vector_loop_.has_value(), "the last lane outside the vector loop");
    require(use(o.value, v.type).varying, "v{} is uniform and has no last lane", o.value);
    return false;
  }

  void verify_call_types(const Value& v, const op::Call& o) const {
    const ScalarFunction& f = *o.function;
    const bool fits = f.arity < 0 ? o.args.size() >= 2 : o.args.size() == static_cast<std::size_t>(f.arity);
    require(fits, "{} takes {} arguments, not {}", f.name, f.arity < 0 ? "two or more" : std::to_string(f.arity),
            o.args.size());
    const bool truth = v.type == ValueType::truth;
    require(truth == (f.result == ResultType::Truth), "{} gives a {}", f.name, truth ? "number" : "truth value");
    const bool logic = f.name == "and" || f.name == "or" || f.name == "not";
    for (std::size_t i = 0; i < o.args.size(); ++i) {
      if (logic || (f.name == "where" && i == 0)) {
        use(o.args[i], ValueType::truth);
      } else {
        use(o.args[i], truth ? use_number(o.args[0]).type : v.type);
      }
    }
  }

  // ---- statements ----
  void verify_statement(const stmt::Let& s) {
    const Value& v = declared(program_.values, s.id, "value");
    require(!assigned_[s.id], "v{} is assigned twice", s.id);
    const bool varying = std::visit([&](const auto& o) { return verify_operation(v, o); }, v.operation);
    require(v.varying || !varying, "v{} is uniform but its operation varies between lanes", s.id);
    assigned_[s.id] = visible_[s.id] = true;
    scope_.push_back(s.id);
  }
  void verify_statement(const stmt::SetVar& s) {
    const VarDecl& var = declared(program_.vars, s.var, "var");
    require(var.varying || !use(s.value, var.type).varying, "acc{} is uniform and v{} varies between lanes", s.var,
            s.value);
  }
  void verify_statement(const stmt::Store& s) {
    const BufferDecl& buffer = declared(program_.buffers, s.buffer, "buffer");
    require(buffer.written, "buffer {} is not declared as written", buffer.name);
    const bool varying = subscripts(s.subscripts, buffer.shape.size(), buffer.name);
    const Value& value = use(s.value, type_of(buffer.dtype));
    require(varying || !vector_loop_, "all lanes store to one element of {}", buffer.name);
    require(varying || !value.varying, "v{} varies between lanes and is stored outside the vector loop", s.value);
  }
  void verify_statement(const stmt::StoreArray& s) {
    const ArrayDecl& array = declared(program_.arrays, s.array, "scratch array");
    const bool varying = subscripts(s.subscripts, array.extents.size(), array.name);
    require(!(varying && array.varying), "{} holds one value per lane and is stored to at subscripts that vary",
            array.name);
    const Value& value = use(s.value, type_of(array.dtype));
    require(varying || array.varying || !value.varying, "{} is uniform and v{} varies between lanes", array.name,
            s.value);
  }
  void verify_statement(const stmt::For& s) {
    require(s.variable.kind() == Symbol::Kind::Bound, "{} cannot be a loop variable", s.variable.name());
    require(std::ranges::count(loops_, s.variable) == 0, "a loop around this has the same variable {}",
            s.variable.name());
    require(!(s.vector && vector_loop_), "a vector loop inside a vector loop");
    require(!s.range.lows.empty() && !s.range.highs.empty(), "a loop without bounds");
    require(s.interleave >= 1, "a loop takes {} iterations at once", s.interleave);
    const auto is_loop = [](const Statement& inner) { return std::holds_alternative<stmt::For>(inner); };
    require(s.interleave == 1 || std::ranges::none_of(s.body, is_loop),
            "a loop around another takes {} iterations at once", s.interleave);
    for (const auto& ends : {s.range.lows, s.range.highs})
      for (const Bound& bound : ends) {
        require(bound.divisor > 0, "a loop bound with the divisor {}", bound.divisor);
        affine(bound.value);
      }
    if (s.vector) vector_loop_ = s.variable;
    loops_.push_back(s.variable);
    text_.enter(s);
    block(s.body);
    text_.leave(s);
    loops_.pop_back();
    if (s.vector) vector_loop_.reset();
  }
  void verify_statement(const stmt::Check& s) const {
    const CheckDecl& check = declared(program_.checks, s.check, "check");
    const std::size_t wanted = check.coordinate_names.size();
    require(s.coordinates.size() == wanted, "check {} names {} coordinates and is given {}", s.check, wanted,
            s.coordinates.size());
    affines(s.coordinates);
    const bool varying = use(s.bad, ValueType::truth).varying | use_number(s.value).varying;
    require(vector_loop_ || !varying, "a check outside the vector loop of values that vary between lanes");
  }

  void block(const Block& statements) {
    const std::size_t outer = scope_.size();
    for (const Statement& statement : statements) {
      current_ = &statement;
      std::visit([&](const auto& s) { verify_statement(s); }, statement);
    }
    for (; scope_.size() > outer; scope_.pop_back()) visible_[scope_.back()] = false;
  }

  const LoopProgram& program_;
  LoopText text_;
  std::vector<bool> assigned_, visible_;
  std::vector<ValueId> scope_;  // the visible values, in order of assignment
  std::vector<Symbol> loops_;
  std::optional<Symbol> vector_loop_;
  const Statement* current_ = nullptr;
};

}  // namespace

void verify(const LoopProgram& program) { Verifier(program).run(); }

}  // namespace moxie
