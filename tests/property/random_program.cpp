#include "tests/property/random_program.h"

#include <algorithm>
#include <cmath>

#include "compiler/program/scans.h"
#include "compiler/support/error.h"
#include "tests/property/random_expr.h"

namespace moxie::test {
namespace {

constexpr double kMostElements = 6000;
constexpr unsigned kAttemptStride = 1U << 24;

const char* const kAxisNames[] = {"i", "j", "k"};

class ProgramMaker {
 public:
  explicit ProgramMaker(unsigned seed)
      : random_(seed), sample_{seed, {}, {}}, expr_(random_, sample_.program, sample_.dims) {}

  Sample make() {
    sample_.program.default_dtype = random_.chance(75) ? DType::f32 : DType::f64;
    add_dims();
    for (std::int64_t count = random_.between(1, 4); count > 0; --count) add_input();
    for (std::int64_t count = random_.between(1, 5); count > 0; --count) add_definitions();
    sample_.program.definitions.back().output = true;
    for (Definition& definition : sample_.program.definitions) {
      definition.body = with_plain_numbers(definition.body);
      definition.recomputed = why_kept(sample_.program, definition).empty() && random_.chance(50);
    }
    return sample_;
  }

 private:
  void add_dims() {
    const std::int64_t count = random_.between(2, 4);
    for (std::int64_t k = 0; k < count; ++k) {
      DimDecl dim{std::string(1, "SNRK"[k]), {}, k == 2 ? false : random_.chance(k == 0 ? 65 : 25)};
      // R is small, as the order of matrices and of double sums.
      const std::int64_t value = k == 2 ? random_.pick<std::int64_t>({1, 2, 3, 4, 5}) : extent();
      if (!dim.dynamic && random_.chance(50)) dim.value = value;
      sample_.dims[dim.name] = value;
      if (random_.chance(40)) {
        sample_.program.indices.push_back({std::string(1, "snrk"[k]), Range::extent(Symbol::dim(dim.name))});
      }
      sample_.program.dims.push_back(dim);
    }
  }

  std::int64_t extent() {
    if (random_.chance(2)) return 0;
    if (random_.chance(12)) return random_.pick<std::int64_t>({64, 65, 70, 128, 130, 200});
    return random_.pick<std::int64_t>({1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 19, 33});
  }

  DType dtype() {
    const DType other = sample_.program.default_dtype == DType::f32 ? DType::f64 : DType::f32;
    return random_.chance(15) ? other : sample_.program.default_dtype;
  }

  void add_input() {
    InputDecl input{"x" + std::to_string(sample_.program.inputs.size()), dtype(), {}, ValueDomain::Any};
    double elements = 1;
    for (std::int64_t rank = random_.pick<std::int64_t>({0, 1, 1, 2, 2, 2, 3}); rank > 0; --rank) {
      Affine size = expr_.extent();
      if (random_.chance(8))
        size = size * 2 - Affine(1);
      else if (random_.chance(6))
        size = size * 2 + Affine(random_.between(0, 2));
      if (elements * expr_.size_of(size) > kMostElements || expr_.size_of(size) < 0) continue;
      elements *= expr_.size_of(size);
      input.shape.push_back(size);
    }
    if (random_.chance(35))
      input.domain = random_.pick<ValueDomain>(
          {ValueDomain::Positive, ValueDomain::NonNegative, ValueDomain::Negative, ValueDomain::above(-0.5)});
    sample_.program.inputs.push_back(input);
  }

  Definition new_definition() {
    Definition definition;
    definition.name = "f" + std::to_string(sample_.program.definitions.size());
    definition.dtype = dtype();
    definition.output = random_.chance(35);
    return definition;
  }

  std::string axis_name(const Definition& definition, const Affine& size) {
    const auto taken = [&](const std::string& name) {
      return std::ranges::any_of(definition.axes, [&](const AxisDecl& axis) { return axis.name == name; });
    };
    for (const IndexDecl& index : sample_.program.indices) {
      if (index.range == Range::extent(size) && !taken(index.name)) return index.name;
    }
    // `k` may be declared: then it is no name for another range.
    const std::string name = kAxisNames[definition.axes.size()];
    return name == "k" ? "l" : name;
  }

  Place add_axes(Definition& definition) {
    Place place = expr_.outermost();
    for (std::int64_t rank = random_.pick<std::int64_t>({0, 1, 1, 2, 2, 2, 3}); rank > 0; --rank) {
      const Affine size = expr_.extent();
      if (place.rounds * expr_.size_of(size) > kMostElements) continue;
      const Range range = random_.chance(85) ? Range::extent(size) : expr_.range(place, size, false);
      const auto position = static_cast<std::uint32_t>(definition.axes.size());
      definition.axes.push_back({axis_name(definition, size), size, range});
      place = place.with(Symbol::axis(position), size, range, expr_.size_of(size));
    }
    return place;
  }

  void add_definitions() {
    std::vector<Definition>& definitions = sample_.program.definitions;
    if (random_.chance(8) && add_algebra()) return;
    if (random_.chance(6)) return add_product();
    if (random_.chance(5)) return add_scan();
    if (!definitions.empty() && random_.chance(6)) return add_twin();
    Definition definition = new_definition();
    const Place place = add_axes(definition);
    definition.body = body(place);
    definitions.push_back(std::move(definition));
  }

  Expr body(const Place& place) {
    if (random_.chance(4)) return random_.real(-1, 1);
    if (random_.chance(6)) return expr_.read(place);
    if (random_.chance(25)) return expr_.idiom(place);
    return expr_.number(place, static_cast<int>(random_.between(1, 4)));
  }

  /// The content of an earlier definition once more.
  void add_twin() {
    Definition twin = random_.pick(sample_.program.definitions);
    twin.name = "f" + std::to_string(sample_.program.definitions.size());
    twin.output = random_.chance(60);
    twin.scan.reset();
    sample_.program.definitions.push_back(twin);
  }

  Definition& push(const std::string& name, std::vector<AxisDecl> axes, const Expr& body) {
    Definition definition = new_definition();
    definition.name += name;
    definition.axes = std::move(axes);
    definition.body = body;
    sample_.program.definitions.push_back(definition);
    return sample_.program.definitions.back();
  }

  /// A tensor over the two extents, in either order; the subscripts that read its element [row,column].
  Expr operand(const Affine& rows, const Affine& columns, Symbol row, Symbol column) {
    const bool turned = random_.chance(50);
    Place place = expr_.outermost();
    std::vector<AxisDecl> axes;
    for (const Affine& size : {turned ? columns : rows, turned ? rows : columns}) {
      const auto position = static_cast<std::uint32_t>(axes.size());
      axes.push_back({position == 0 ? "p" : "q", size, Range::extent(size)});
      place = place.with(Symbol::axis(position), size, Range::extent(size), expr_.size_of(size));
    }
    const std::string name = push("m", axes, expr_.number(place, 2)).name;
    return tensor_access(name, turned ? std::vector<Affine>{column, row} : std::vector<Affine>{row, column});
  }

  /// A matrix product, which a library computes where it looks large enough.
  void add_product() {
    const Affine rows = expr_.extent();
    const Affine columns = expr_.extent();
    const Affine depth = expr_.extent();
    const Symbol k = Symbol::fresh();
    const Expr body = operand(rows, depth, Symbol::axis(0), k) * operand(depth, columns, k, Symbol::axis(1));
    const Expr sum = reduce(ReduceKind::Sum, k, Range::extent(depth), body);
    push("p", {{"p", rows, Range::extent(rows)}, {"q", columns, Range::extent(columns)}},
         random_.chance(30) ? Expr(0.5) * sum : sum);
  }

  /// A recurrence: every member reads some member at the step before, those above it at this step, and other tensors.
  void add_scan() {
    const Affine steps = expr_.extent();
    const Affine width = expr_.extent();
    Scan scan{++scans_, random_.chance(40)};
    if (random_.chance(30))
      scan.checkpoints = random_.chance(30) ? recompute_every() : recompute_every(random_.between(1, 4));
    const Symbol t = Symbol::axis(0);
    const Symbol i = Symbol::axis(1);
    const Place place = expr_.outermost()
                            .with(t, steps, Range::extent(steps), expr_.size_of(steps))
                            .with(i, width, Range::extent(width), expr_.size_of(width));
    std::vector<Definition> members;
    for (std::int64_t count = random_.between(1, 3); count > 0; --count) {
      Definition member{"f" + std::to_string(sample_.program.definitions.size()) + "h" + std::to_string(count),
                        dtype(),
                        {},
                        {},
                        random_.chance(50)};
      member.axes = {{"t", steps, Range::extent(steps)}, {"u", width, Range::extent(width)}};
      member.scan = scan;
      members.push_back(std::move(member));
    }
    for (std::size_t k = 0; k < members.size(); ++k) {
      const std::string& other = random_.pick(members).name;
      Expr state = step_before(other, scan, steps, Affine(i));
      if (random_.chance(50)) {
        const Symbol j = Symbol::fresh();
        const Place inner = place.with(j, width, Range::extent(width), expr_.size_of(width));
        state = reduce(ReduceKind::Sum, j, Range::extent(width),
                       expr_.read(inner, j) * step_before(other, scan, steps, Affine(j)));
      }
      if (!scan.checkpoints && random_.chance(30)) state = over_steps_before(place, other, scan, steps, Affine(i));
      if (k > 0 && random_.chance(60)) state = state * tensor_access(members[k - 1].name, {t, i});
      members[k].body = call("tanh", {state + expr_.number(place, 2)});
    }
    for (Definition& member : members) sample_.program.definitions.push_back(std::move(member));
  }

  /// A sum over all steps before this one: by its range, or by a condition.
  Expr over_steps_before(const Place& place, const std::string& member, const Scan& scan, const Affine& steps,
                         const Affine& element) {
    const Symbol t = Symbol::axis(0);
    const Symbol s = Symbol::fresh();
    const bool by_range = random_.chance(60);
    const Range before = scan.backwards ? Range::half_open(Affine(t) + Affine(1), steps) : Range::half_open(0, t);
    const Range range = by_range ? before : Range::extent(steps);
    const Place inner = place.with(s, steps, range, expr_.size_of(steps));
    Expr state = tensor_access(member, {s, element});
    if (!by_range) {
      const Expr here = number_of(t), there = number_of(s);
      state = call("where", {call("<", {scan.backwards ? here : there, scan.backwards ? there : here}), state, 0});
    }
    return reduce(ReduceKind::Sum, s, range, expr_.read(inner, s) * state);
  }

  Expr step_before(const std::string& member, const Scan& scan, const Affine& steps, const Affine& element) {
    const Affine t = Symbol::axis(0);
    const Affine before = scan.backwards ? t + Affine(1) : t - Affine(1);
    const Expr exists =
        scan.backwards ? call("<", {number_of(before), number_of(steps)}) : call(">=", {number_of(before), 0});
    return call("where", {exists, tensor_access(member, {before, element}), random_.chance(50) ? 0.0 : 0.5});
  }

  /// A batch of matrices g g^T + c I over one small dim, and an operation on them.
  bool add_algebra() {
    std::vector<Affine> sizes;
    for (const DimDecl& dim : sample_.program.dims) {
      const std::int64_t value = sample_.dims.at(dim.name);
      if (!dim.dynamic && value >= 1 && value <= 8) sizes.emplace_back(Symbol::dim(dim.name));
    }
    if (sizes.empty()) return false;
    const Affine size = random_.pick(sizes);
    std::vector<AxisDecl> axes;
    Place place = expr_.outermost();
    if (random_.chance(70)) {
      const Affine batch = expr_.extent();
      if (expr_.size_of(batch) * expr_.size_of(size) * expr_.size_of(size) < kMostElements) {
        axes.push_back({"b", batch, Range::extent(batch)});
        place = place.with(Symbol::axis(0), batch, Range::extent(batch), expr_.size_of(batch));
      }
    }
    const std::vector<AxisDecl> batch = axes;
    const Symbol row = Symbol::axis(static_cast<std::uint32_t>(axes.size()));
    const Symbol col = Symbol::axis(static_cast<std::uint32_t>(axes.size() + 1));
    const Symbol u = Symbol::fresh();
    const Range all = Range::extent(size);
    axes.push_back({"p", size, all});
    axes.push_back({"q", size, all});
    const Place at_row = place.with(row, size, all, expr_.size_of(size));
    const Expr left = call("tanh", {expr_.number(at_row.with(u, size, all, expr_.size_of(size)), 1)});
    const Expr gram = reduce(ReduceKind::Sum, u, all, left * substitute(left, {{row, Affine(col)}}));
    const Expr diagonal = call("==", {number_of(Affine(row)), number_of(Affine(col))});
    const std::string matrix = push("a", axes, gram + call("where", {diagonal, Expr(random_.real(0.5, 2)), 0})).name;
    add_operation(matrix, batch, axes, place, size);
    return true;
  }

  void add_operation(const std::string& matrix, const std::vector<AxisDecl>& batch, const std::vector<AxisDecl>& axes,
                     const Place& place, const Affine& size) {
    using enum LinearAlgebraKind;
    const Symbol row = Symbol::fresh();
    const Symbol col = Symbol::fresh();
    std::vector<Affine> subscripts;
    for (std::uint32_t k = 0; k < batch.size(); ++k) subscripts.emplace_back(Symbol::axis(k));
    subscripts.insert(subscripts.end(), {Affine(row), Affine(col)});
    const Expr a = tensor_access(matrix, subscripts);
    const Affine first = Symbol::axis(static_cast<std::uint32_t>(batch.size()));
    const Affine second = Symbol::axis(static_cast<std::uint32_t>(batch.size() + 1));
    std::vector<AxisDecl> one = batch;
    one.push_back(axes[batch.size()]);
    const auto rhs = [&] { return expr_.read(place.with(row, size, Range::extent(size), 1), row); };
    const auto make = [&](LinearAlgebraKind kind, const Expr& b, std::vector<Affine> element) {
      return linear_algebra(kind, row, col, size, a, b, std::move(element));
    };
    switch (random_.between(0, 6)) {
      case 5:
        push("c", axes, make(CholeskyInverse, {}, {first, second}));
        break;
      case 0:
        push("v", axes, make(Inverse, {}, {first, second}));
        break;
      case 1:
        push("l", axes, make(Cholesky, {}, {first, second}));
        break;
      case 2:
        push("d", batch, make(LogDet, {}, {}));
        break;
      case 3:
        push("s", one, make(Solve, rhs(), {first}));
        break;
      case 4:
        push("t", one, make(TriSolve, rhs(), {first}));
        break;
      default:
        push("u", one, make(TriSolveTransposed, rhs(), {first}));
        break;
    }
  }

  Random random_;
  Sample sample_;
  RandomExpr expr_;
  std::uint32_t scans_ = 0;
};

bool is_valid(const Sample& sample) {
  try {
    verify(sample.program);
    verify(specialise(sample.program, static_dims(sample)));
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

}  // namespace

Sample random_sample(unsigned seed) {
  // An idiom repeats a read at another index, where its guard may not suffice.
  for (unsigned attempt = 0;; ++attempt) {
    Sample sample = ProgramMaker(seed + attempt * kAttemptStride).make();
    sample.seed = seed;
    if (is_valid(sample)) return sample;
  }
}

TensorValues sample_inputs(const Program& program, const DimValues& dims, unsigned seed) {
  TensorValues values;
  for (const InputDecl& input : program.inputs) {
    double count = 1;
    for (const Affine& extent : input.shape)
      count *= static_cast<double>(extent.evaluate([&](Symbol dim) { return dims.at(dim.name()); }));
    std::vector<double> tensor(static_cast<std::size_t>(std::max(count, 0.0)));
    Random random(seed + static_cast<unsigned>(std::hash<std::string>()(input.name)));
    for (double& x : tensor) {
      x = random.real(-1, 1);
      if (input.domain == ValueDomain::Positive) x = 0.3 + std::abs(x);
      if (input.domain == ValueDomain::NonNegative) x = std::abs(x);
      if (input.domain == ValueDomain::Negative) x = -0.3 - std::abs(x);
      if (input.domain == ValueDomain::above(-0.5)) x = std::abs(x) - 0.49;
      x = static_cast<float>(x);  // the same in both precisions
    }
    values.emplace(input.name, std::move(tensor));
  }
  return values;
}

DimValues static_dims(const Sample& sample) {
  DimValues values;
  for (const DimDecl& dim : sample.program.dims) {
    if (!dim.dynamic) values[dim.name] = sample.dims.at(dim.name);
  }
  return values;
}

Sample with_other_extents(Sample sample) {
  Random random(sample.seed);
  for (const DimDecl& dim : sample.program.dims) {
    if (!dim.dynamic) continue;
    // No input has 2*S-1 elements for S = 0.
    const bool may_be_empty = std::ranges::none_of(sample.program.inputs, [](const InputDecl& input) {
      return std::ranges::any_of(input.shape, [](const Affine& extent) { return extent.constant() < 0; });
    });
    sample.dims[dim.name] = random.pick<std::int64_t>({may_be_empty ? 0 : 3, 1, 2, 7, 18, 40, 150});
  }
  return sample;
}

}  // namespace moxie::test
