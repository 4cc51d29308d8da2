#pragma once
// LoopProgram: one kernel as explicit loops, loads, stores and accumulators; what code generators and the interpreter
// read.
//
// A kernel is a function of buffers and of integer arguments (dims). At most one loop is the vector loop: everything
// inside it runs for `lanes` consecutive values of its variable at once. A value is *varying* if it may differ between
// lanes, else uniform. The interpreter runs the same text with one lane. Work is shared out by arguments alone: the
// bounds of a split loop are arguments
// (`%lo0`, `%hi0`, ...), and so is the number of the chunk that a call computes (`%chunk`), so that no code generator
// knows of threads.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/expression/expr.h"
#include "compiler/program/precision.h"

namespace moxie {

struct ScalarFunction;

/// An `index` is an integer of 64 bits that subscripts may mention, as Symbol::value() of its number; only op::Load and
/// op::Subscript give one.
enum class ValueType : std::uint8_t { f32, f64, truth, index };
/// In which elements of the dtype are computed.
ValueType value_type(DType dtype);

using ValueId = std::uint32_t;  // each is assigned exactly once, in the block where it is used or one around it
using VarId = std::uint32_t;    // accumulators: assigned any number of times
using BufferId = std::uint32_t;
using ArrayId = std::uint32_t;

/// A tensor in memory. Subscripts are in the order of `shape`; `layout` lists the axes from slowest to fastest in
/// storage.
struct BufferDecl {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Affine> shape;  // affine in dims
  std::vector<std::uint32_t> layout;
  bool written = false;
  bool operator==(const BufferDecl&) const = default;
};

/// Scratch memory of one call: `extents` elements, each of them one value (uniform) or one per lane (varying). Contents
/// are undefined at the start.
struct ArrayDecl {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Affine> extents;  // affine in dims
  bool varying = false;
  bool operator==(const ArrayDecl&) const = default;
};

struct VarDecl {
  ValueType type = ValueType::f32;
  bool varying = false;
  bool operator==(const VarDecl&) const = default;
};

// ---- Operations: what a value can be. Loop variables are Symbol::bound(k), arguments Symbol::dim(name). ----
namespace op {
struct Constant {
  double value;
  bool operator==(const Constant&) const = default;
};
/// An affine expression as a floating-point number.
struct Number {
  Affine value;
  bool operator==(const Number&) const = default;
};
/// Reads an element. Where `guard` (a truth value) is false nothing is read and the result is zero. Converts to the
/// value's type; an index is read from a tensor of integers.
struct Load {
  BufferId buffer;
  std::vector<Affine> subscripts;
  std::optional<ValueId> guard;
  bool operator==(const Load&) const = default;
};
/// A subscript that depends on values, moved into the tensor where it lies outside, so that reading there is safe. The
/// interpreter throws DataError instead, unless `guard` (a truth value) is false.
struct Subscript {
  BufferId buffer;
  std::uint32_t axis;
  Affine value;
  std::optional<ValueId> guard;
  bool operator==(const Subscript&) const = default;
};
struct LoadArray {
  ArrayId array;
  std::vector<Affine> subscripts;
  bool operator==(const LoadArray&) const = default;
};
struct ReadVar {
  VarId var;
  bool operator==(const ReadVar&) const = default;
};
/// A row of the scalar-function table, arithmetic, comparisons, logic and `where` included. All operands have the
/// result's type, except that comparisons take numbers of one type and give a truth value, and where takes (truth,
/// number, number).
struct Call {
  const ScalarFunction* function;
  std::vector<ValueId> args;
  bool operator==(const Call&) const = default;
};
/// f32 <-> f64
struct Convert {
  ValueId value;
  bool operator==(const Convert&) const = default;
};
/// Philox4x32-10, keyed by (argument %seed, stream, argument %step), countered by the coordinates.
struct Random {
  RandomKind kind;
  std::int64_t stream;
  std::vector<Affine> coordinates;
  bool operator==(const Random&) const = default;
};
/// Combines the lanes of a varying value into a uniform one, in a fixed order. Stands outside the vector loop.
struct CombineLanes {
  ReduceKind kind;
  ValueId value;
  bool operator==(const CombineLanes&) const = default;
};
/// Combines, in every lane, the lanes from the first one to this one. Stands directly inside the vector loop; in a
/// partial iteration, lanes outside the range add nothing. Only for programs that run on vectors of a processor.
struct PrefixLanes {
  ReduceKind kind;
  ValueId value;
  bool operator==(const PrefixLanes&) const = default;
};
/// The last lane of a varying value, inside the vector loop: of PrefixLanes, all lanes combined.
struct LastLane {
  ValueId value;
  bool operator==(const LastLane&) const = default;
};
}  // namespace op
using Operation = std::variant<op::Constant, op::Number, op::Load, op::Subscript, op::LoadArray, op::ReadVar, op::Call,
                               op::Convert, op::Random, op::CombineLanes, op::PrefixLanes, op::LastLane>;

struct Value {
  ValueType type = ValueType::f32;
  bool varying = false;
  Operation operation;
  bool operator==(const Value&) const = default;
};

// ---- Statements ----
struct Statement;
using Block = std::vector<Statement>;

namespace stmt {
/// Computes values[id] here.
struct Let {
  ValueId id;
  bool operator==(const Let&) const = default;
};
struct SetVar {
  VarId var;
  ValueId value;
  bool operator==(const SetVar&) const = default;
};
/// In the vector loop's last, partial round only the lanes inside its range store. A uniform store inside the vector
/// loop does not occur. A tensor stores stored_value() of the value, which has the type in which its elements are
/// computed.
struct Store {
  BufferId buffer;
  std::vector<Affine> subscripts;
  ValueId value;
  bool operator==(const Store&) const = default;
};
/// In a partial round, lanes outside the range leave scratch (and vars) that is used outside of the vector loop too
/// unchanged.
struct StoreArray {
  ArrayId array;
  std::vector<Affine> subscripts;
  ValueId value;
  bool operator==(const StoreArray&) const = default;
};
struct For {
  Symbol variable;
  Range range;  // affine in dims and outer loop variables; in that of the vector loop, each lane has its own iterations
  bool vector = false;
  Block body;
  std::string name = {};  // of the index, for printed text only; may be empty
  /// Rounds do not depend on each other: they may run in any order or at the same time, if each has its own vars and
  /// those arrays that no subscript in `variable` tells apart. A loop over samples whose rounds add to vars is not
  /// marked: code generators know it by its bounds.
  bool parallel = false;
  std::string comment = {};  // what its rounds compute, for printed text only; may be empty
  /// Iterations (of a vector loop: groups of lanes) that are taken together, so that one need not wait for the other:
  /// every var that the loop accumulates (compiler/loop/accumulations.h) has as many partial results, which are
  /// combined after the loop in a fixed order. A loop around other loops has 1. It changes nothing but rounding, and
  /// whoever runs a loop may ignore it, as the interpreter and GPUs do.
  int interleave = 1;
  bool operator==(const For&) const;
};
/// Records the first failure in the call's status: which check, the coordinates of the first bad lane, and the
/// offending value. Only active lanes count. `bad` is a truth value.
struct Check {
  ValueId bad;
  std::uint32_t check;
  std::vector<Affine> coordinates;
  ValueId value;
  bool operator==(const Check&) const = default;
};
}  // namespace stmt

struct Statement : std::variant<stmt::Let, stmt::SetVar, stmt::Store, stmt::StoreArray, stmt::For, stmt::Check> {
  using variant::variant;
};

/// What a failed Check means, for the message.
struct CheckDecl {
  std::string message;  // "cholesky of K[n,r,t]: the matrix is not positive definite"
  std::vector<std::string> coordinate_names;
  std::string advice = {};  // what to do, or where to look; may be empty
  bool operator==(const CheckDecl&) const = default;
};

struct LoopProgram {
  std::string name;
  Precision precision = Precision::Strict;  // of the Program: texts of code name it, and so do the keys of caches
  std::vector<std::string> arguments;       // names of the integer arguments, in the order in which a call passes them
  std::vector<BufferDecl> buffers;          // in the order in which a call passes them
  std::vector<ArrayDecl> arrays;
  std::vector<VarDecl> vars;
  std::vector<Value> values;
  std::vector<CheckDecl> checks;
  std::vector<std::string> comments;  // one line per definition computed: name and formula
  Block body;
  bool operator==(const LoopProgram&) const = default;
};

/// Readable text, one statement a line.
std::string print(const LoopProgram& program);
/// Checks that every value is assigned once before use, types agree, subscripts match ranks, the vector loop is not
/// nested and nothing varying is used where a uniform value must stand. Throws InternalError.
void verify(const LoopProgram& program);

/// Whether any of its values depends on the random state.
bool draws_random(const LoopProgram& program);

/// What a kernel call reports back: 0 checks failed, or the first one that did.
struct KernelStatus {
  std::int64_t failed = 0;           // 1 if a check failed
  std::int64_t check = 0;            // number of the check
  std::int64_t coordinates[4] = {};  // of the first bad element
  double value = 0;
};

}  // namespace moxie
