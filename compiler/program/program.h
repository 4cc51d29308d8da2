#pragma once
// Program: an ordered list of inputs, definitions and outputs; the only input language of the compiler.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/expression/expr.h"
#include "compiler/expression/value_domain.h"
#include "compiler/program/precision.h"
#include "compiler/program/roles.h"

namespace moxie {

/// A named extent. A static dim without a value takes it from the shapes of the inputs and is then baked into the
/// kernels; a dynamic dim stays a kernel argument.
struct DimDecl {
  std::string name;
  std::optional<std::int64_t> value;
  bool dynamic = false;
  bool operator==(const DimDecl&) const = default;
};

/// A declared index: a name for axes and bound indices, and the range it runs over unless a use says otherwise.
struct IndexDecl {
  std::string name;
  Range range;
  bool operator==(const IndexDecl&) const = default;
};

struct InputDecl {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Affine> shape;  // affine in dims
  ValueDomain domain = ValueDomain::Any;
  InputRole role = InputRole::Data;
  Initialiser start = {};  // of parameters and states
  bool operator==(const InputDecl&) const = default;
};

/// One axis of a definition: a name for printing, and the range it runs over (affine in dims and in earlier axes).
/// Storage is the box of `extent`s; elements outside `range` do not exist and are never read.
struct AxisDecl {
  std::string name;
  Affine extent;
  Range range;
  bool operator==(const AxisDecl&) const = default;
};

/// Which states of a scan its derivatives keep: those of every that many steps, from which they compute the steps in
/// between again (docs/text-form.md, Scans). Without a number it is the square root of the number of steps.
struct Checkpoints {
  std::optional<Affine> every = {};  // a positive integer once dims have their values
  bool operator==(const Checkpoints&) const = default;
};
/// p.scan(t, recompute_every(64), ...); without a number the square root of the number of steps.
inline Checkpoints recompute_every(Affine steps) { return {std::move(steps)}; }
inline Checkpoints recompute_every() { return {}; }

/// Membership in a scan: consecutive definitions with the same number, over a common first axis whose steps are taken
/// in order, so that each of them may read all of them at earlier steps (later ones, if the steps are taken backwards).
struct Scan {
  std::uint32_t number = 0;
  bool backwards = false;
  std::optional<Checkpoints> checkpoints = {};  // none: derivatives keep every step
  /// Puts values of dims in.
  void substitute(const std::function<const Affine*(Symbol)>& replacement) {
    if (checkpoints && checkpoints->every) checkpoints->every = checkpoints->every->substitute(replacement);
  }
  bool operator==(const Scan&) const = default;
};

/// `name[axes] = body`, with the axes as Symbol::axis(0), axis(1), ... in the body.
struct Definition {
  std::string name;
  DType dtype = DType::f32;
  std::vector<AxisDecl> axes;
  Expr body;
  bool output = false;
  int line = 0;  // in the source text, 0 if there is none
  std::optional<Scan> scan = {};
  bool recomputed = false;  // within a scan: not kept from step to step, derivatives compute it again
  ValueDomain domain = {};  // what the author promises of the values; nothing proves it, MOXIE_CHECK=negvar checks it
  OutputRole role = {};     // of outputs that are not in a scan
  bool operator==(const Definition&) const = default;
};

/// What a definition in the C++ form declares beside its formula: a dtype (default: the program's), a domain, or both:
/// p.let("v", {s}, body, {ValueDomain::NonNegative, DType::f64}).
struct Declared {
  Declared() = default;
  Declared(DType type) : dtype(type) {}                         // NOLINT: p.let("v", {s}, body, DType::f64)
  Declared(std::optional<DType> type) : dtype(type) {}          // NOLINT
  Declared(ValueDomain values, std::optional<DType> type = {})  // NOLINT: p.let("v", {s}, body, ValueDomain::Positive)
      : domain(values), dtype(type) {}

  ValueDomain domain = {};
  std::optional<DType> dtype = {};
};

// The vocabulary of the C++ form, in compiler/builder/builder.h.
class Dim;
class Index;
class Tensor;
class ScanBody;
struct ScanIndex;
struct Dynamic {};
/// p.dim("S", dynamic)
inline constexpr Dynamic dynamic;
struct Backwards {};
/// p.scan(t, backwards, ...)
inline constexpr Backwards backwards;

struct Program {
  Program() = default;
  explicit Program(std::string program_name, DType dtype = DType::f32)
      : name(std::move(program_name)), default_dtype(dtype) {}

  std::string name;
  DType default_dtype = DType::f32;
  Precision precision = Precision::Strict;
  std::vector<DimDecl> dims;
  std::vector<IndexDecl> indices;
  std::vector<InputDecl> inputs;
  std::vector<Definition> definitions;
  bool operator==(const Program&) const = default;

  const DimDecl* find_dim(std::string_view name) const;
  const InputDecl* find_input(std::string_view name) const;
  const Definition* find_definition(std::string_view name) const;
  Definition* find_definition(std::string_view name);
  /// Shape, dtype and declared domain of an input or definition; throws TypeError for an unknown name.
  std::vector<Affine> shape_of(std::string_view tensor) const;
  DType dtype_of(std::string_view tensor) const;
  ValueDomain domain_of(std::string_view tensor) const;

  // ---- compiler/builder/builder.cpp: growing a Program from C++. Each call throws what verify() would and then has
  // changed nothing. ----
  Dim dim(const std::string& dim_name);
  Dim dim(const std::string& dim_name, std::int64_t value);
  Dim dim(const std::string& dim_name, Dynamic);
  /// A shape is affine in dims; without one the input is a scalar.
  Tensor input(const std::string& input_name, const std::vector<Expr>& shape = {},
               ValueDomain domain = ValueDomain::Any, std::optional<DType> dtype = {});
  Tensor let(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
             const Declared& declared = {});
  Tensor output(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                const Declared& declared = {});
  // ---- What makes a model of a Program; docs/models.md has the rules. ----
  /// An input that training changes, and how it starts.
  Tensor parameter(const std::string& input_name, const std::vector<Expr>& shape, const Initialiser& start,
                   std::optional<DType> dtype = {});
  /// An input that keeps its value from step to step; next() says what it becomes.
  Tensor state(const std::string& input_name, const std::vector<Expr>& shape, const Initialiser& start,
               std::optional<DType> dtype = {});
  /// Defines `next.NAME`, the value of the state after a step.
  Tensor next(const Tensor& state, const std::vector<Index>& axes, const Expr& body);
  /// An output that the trained model is asked for, and that other definitions may read.
  Tensor predict(const std::string& tensor, const std::vector<Index>& axes, const Expr& body,
                 const Declared& declared = {});
  /// The scalar output that training minimises: a mean over samples.
  Tensor loss(const std::string& tensor, const Expr& body, const Declared& declared = {});
  /// A recurrence over `steps`; `write` is called once and defines what steps together.
  void scan(const Index& steps, const std::function<void(ScanBody&)>& write);
  void scan(const Index& steps, Backwards, const std::function<void(ScanBody&)>& write);
  void scan(const Index& steps, const Checkpoints& checkpoints, const std::function<void(ScanBody&)>& write);
  void scan(const Index& steps, Backwards, const Checkpoints& checkpoints, const std::function<void(ScanBody&)>& write);
  /// The same over all pairs of two indices, the inner one first: see skew_scan() for what becomes of it.
  void scan(const ScanIndex& outer, const ScanIndex& inner, const std::function<void(ScanBody&)>& write);
  /// Makes an output of a definition that is there.
  void output(const Tensor& defined);
};

/// Values of dims by name.
using DimValues = std::map<std::string, std::int64_t, std::less<>>;

/// Puts the values of all static dims into shapes, ranges and subscripts; an extent that becomes negative is 0. Dynamic
/// dims stay symbols. Throws ShapeError if a static dim has no value.
Program specialise(const Program& program, const DimValues& values);
/// Replaces the program's default dtype: every tensor that had the old default gets the new one; explicit other dtypes
/// stay.
Program with_dtype(Program program, DType dtype);

// compiler/program/printer.cpp
/// The program as .mox text; parse(print(p)) == p.
std::string print(const Program& program);
/// An expression as text, with the given axis names.
std::string print(const Expr& expr, const Program& program, const std::vector<AxisDecl>& axes);
std::string print(const Affine& affine, const std::vector<AxisDecl>& axes = {});

// compiler/text/parser.cpp
/// Parses .mox text; `file` stands in messages. Throws ParseError, TypeError, ShapeError.
Program parse(std::string_view text, std::string_view file = "<text>");

// compiler/analysis/verify.cpp
/// Checks every rule of the language: names, ranks, ranges, subscripts inside their tensors (proved by interval
/// arithmetic where dims are known or symbolic extents match), truth values where a condition is wanted. Throws
/// TypeError or ShapeError.
void verify(const Program& program);

}  // namespace moxie
