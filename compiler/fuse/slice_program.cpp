#include "compiler/fuse/slice_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/library_product.h"

namespace moxie {
namespace {

constexpr std::string_view kFirst = "first.";

class SliceProgram {
 public:
  SliceProgram(const Program& program, const SliceGroup& group, const std::set<std::string>& products,
               const std::string& seed, const std::vector<std::uint32_t>& axes, const std::vector<std::int64_t>& blocks,
               const DimValues& extents)
      : program_(program), group_(group), products_(products) {
    result_.name = program.name;
    result_.default_dtype = program.default_dtype;
    result_.precision = program.precision;
    result_.dims = program.dims;
    result_.indices = program.indices;
    const Definition& whole = *program.find_definition(seed);
    for (std::size_t q = 0; q < axes.size(); ++q)
      slices_.axes.push_back(sliced(whole.axes[axes[q]], blocks[q], extents));
  }

  std::optional<ProgramPart> run() {
    for (const Definition& definition : program_.definitions) {
      if (!group_.members.contains(definition.name)) continue;
      auto slice = slice_of(definition);
      if (!slice) return std::nullopt;
      result_.definitions.push_back(std::move(*slice));
    }
    const auto is_taken = [&](const auto& view) {
      return program_.find_input(view.first) || program_.find_definition(view.first) ||
             program_.find_definition(view.second.tensor + ".in_slices");
    };
    if (std::ranges::any_of(slices_.views, is_taken) || std::ranges::any_of(slices_.parts, is_taken))
      return std::nullopt;
    return ProgramPart{std::move(result_), std::move(slices_), std::move(results_), std::move(copies_before_),
                       std::move(copies_behind_)};
  }

 private:
  SliceAxis sliced(const AxisDecl& axis, std::int64_t block, const DimValues& extents) {
    SliceAxis slice{axis.name, axis.extent, block, new_dim(std::string(kFirst) + axis.name), ""};
    const auto extent = static_cast<std::int64_t>(typical_extent(axis.extent, extents));
    const bool is_exact = block == 1 || (axis.extent.is_constant() && extent % block == 0);
    if (!is_exact) slice.count = new_dim("count." + axis.name);
    return slice;
  }

  std::string new_dim(const std::string& stem) {
    std::string name = stem;
    for (int k = 1; result_.find_dim(name); ++k) name = stem + "." + std::to_string(k);
    result_.dims.push_back({name, std::nullopt, true});
    return name;
  }

  Affine first_of(std::size_t q) const { return Symbol::dim(slices_.axes[q].first); }
  Affine count_of(std::size_t q) const {
    const SliceAxis& axis = slices_.axes[q];
    return axis.count.empty() ? Affine(axis.block) : Affine(Symbol::dim(axis.count));
  }
  bool is_single(std::size_t q) const { return slices_.axes[q].block == 1; }

  // ---- Definitions ----

  std::optional<Definition> slice_of(const Definition& definition) {
    axes_ = &group_.members.at(definition.name);
    Definition slice = definition;
    slice.output = false;
    slice.role = {};
    slice.axes.clear();
    possible_ = true;
    Replacement elements;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) elements.emplace_back(place_axis(definition, k, slice));
    const auto element = [&](Symbol symbol) -> const Affine* {
      const auto found = std::ranges::find(elements, symbol, &std::pair<Symbol, Affine>::first);
      return found == elements.end() ? nullptr : &found->second;
    };
    for (AxisDecl& axis : slice.axes) axis.range = axis.range.substitute(element);
    slice.body = substitute(slice_of(definition.body), elements);
    if (!possible_) return std::nullopt;
    if (!group_.inside.contains(definition.name)) make_view(definition, slice);
    return slice;
  }

  /// Adds an axis to the slice, if it has one there; what stands for the axis in the body.
  std::pair<Symbol, Affine> place_axis(const Definition& definition, std::uint32_t k, Definition& slice) {
    const auto place = std::ranges::find(*axes_, std::optional(k));
    const auto q = static_cast<std::size_t>(place - axes_->begin());
    const bool is_sliced = place != axes_->end();
    if (is_sliced && is_single(q)) {
      possible_ &= is_dense(definition.axes[k]);
      return {Symbol::axis(k), first_of(q)};
    }
    const Affine own(Symbol::axis(static_cast<std::uint32_t>(slice.axes.size())));
    AxisDecl axis = definition.axes[k];
    if (is_sliced) axis = {axis.name, count_of(q), range_in_slice(axis.range, q)};
    slice.axes.push_back(std::move(axis));
    return {Symbol::axis(k), is_sliced ? own + first_of(q) : own};
  }

  /// The result of a slice goes to its place in the whole tensor, whose sliced axes come first.
  void make_view(const Definition& definition, Definition& slice) {
    SliceView view{definition.name, {}};
    std::vector<std::string> summed;
    std::vector<std::uint32_t> order;
    for (std::size_t q = 0; q < axes_->size(); ++q) {
      const auto& axis = (*axes_)[q];
      (axis ? view.first : summed).push_back(slices_.axes[q].first);
      if (axis) order.push_back(*axis);
    }
    Definition whole = definition;
    if (!is_prefix(order)) {
      complete(order, definition.axes.size());
      whole = permuted(definition, definition.name + ".in_slices", order);
      copies_behind_.push_back(copy_of(definition, whole.name, inverse(order)));
      permute_slice(definition, order, slice);
      view.tensor = whole.name;
    }
    slice.name = view_name(definition.name);
    slice.output = true;
    results_.push_back(std::move(whole));
    const bool is_part = !summed.empty() && !products_.contains(definition.name);
    if (!summed.empty()) slices_.sums[slice.name] = summed;
    (is_part ? slices_.parts : slices_.views)[slice.name] = std::move(view);
  }

  // ---- Tensors whose sliced axes are not the first ----

  /// Whether the elements of a slice along these axes lie next to each other, if only the last has several elements.
  static bool is_prefix(const std::vector<std::uint32_t>& order) {
    for (std::uint32_t k = 0; k < order.size(); ++k) {
      if (order[k] != k) return false;
    }
    return true;
  }

  /// The other axes behind those in the order.
  static void complete(std::vector<std::uint32_t>& order, std::size_t rank) {
    for (std::uint32_t k = 0; k < rank; ++k) {
      if (std::ranges::find(order, k) == order.end()) order.push_back(k);
    }
  }

  /// Those that are axes of the result behind those in the order. What a product sums over then comes last, so that all
  /// rows of a slice are one matrix, not one matrix for each element along the sliced axis.
  static void complete_with_axes(std::vector<std::uint32_t>& order, const Node& access) {
    for (std::uint32_t k = 0; k < access.subscripts.size(); ++k) {
      const auto symbol = access.subscripts[k].as_symbol();
      const bool is_axis = symbol && symbol->kind() == Symbol::Kind::Axis;
      if (is_axis && std::ranges::find(order, k) == order.end()) order.push_back(k);
    }
  }

  static std::vector<std::uint32_t> inverse(const std::vector<std::uint32_t>& order) {
    std::vector<std::uint32_t> places(order.size());
    for (std::uint32_t k = 0; k < order.size(); ++k) places[order[k]] = k;
    return places;
  }

  /// A declaration with the axes in another order, for what slices compute.
  Definition permuted(const Definition& definition, const std::string& name, const std::vector<std::uint32_t>& order) {
    possible_ &= std::ranges::all_of(definition.axes, is_dense);
    Definition result = definition;
    result.name = name;
    result.output = false;
    result.role = {};
    for (std::size_t k = 0; k < order.size(); ++k) result.axes[k] = definition.axes[order[k]];
    result.body = constant(0);
    return result;
  }

  /// `definition` as a copy of a tensor whose axis places[k] is its axis k.
  static Definition copy_of(const Definition& definition, const std::string& tensor,
                            const std::vector<std::uint32_t>& places) {
    Definition copy = definition;
    std::vector<Affine> subscripts(places.size());
    for (std::uint32_t k = 0; k < places.size(); ++k) subscripts[places[k]] = Symbol::axis(k);
    copy.body = tensor_access(tensor, std::move(subscripts));
    return copy;
  }

  /// Puts the axes of a slice into this order of the whole axes. Those with one element in a slice are no axes of it.
  void permute_slice(const Definition& definition, const std::vector<std::uint32_t>& order, Definition& slice) {
    std::vector<std::optional<std::uint32_t>> place_in_slice(definition.axes.size());
    std::uint32_t next = 0;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      const auto q = std::ranges::find(*axes_, std::optional(k)) - axes_->begin();
      const bool is_single_axis = q < std::ssize(*axes_) && is_single(static_cast<std::size_t>(q));
      if (!is_single_axis) place_in_slice[k] = next++;
    }
    const std::vector<AxisDecl> axes = slice.axes;
    Replacement moved;
    std::uint32_t place = 0;
    for (const std::uint32_t k : order) {
      if (!place_in_slice[k]) continue;
      slice.axes[place] = axes[*place_in_slice[k]];
      moved.emplace_back(Symbol::axis(*place_in_slice[k]), Affine(Symbol::axis(place++)));
    }
    slice.body = substitute(slice.body, moved);
  }

  static std::string view_name(const std::string& tensor) { return tensor + ".slice"; }

  // ---- Bodies, whose axes are still those of the whole definition ----

  Expr slice_of(const Expr& expr) {
    if (expr->kind == NodeKind::Access) return slice_of_access(expr);
    if (expr->kind == NodeKind::Reduce) return slice_of_reduction(expr);
    return map_children(expr, [&](const Expr& child) { return slice_of(child); });
  }

  Expr slice_of_access(const Expr& access) {
    std::vector<Expr> values;
    for (const Expr& value : access->args) values.push_back(slice_of(value));
    const auto member = group_.members.find(access->tensor);
    if (member == group_.members.end()) return view_of(access, std::move(values));
    const bool is_inside = group_.inside.contains(access->tensor);
    std::vector<std::uint32_t> order;
    for (std::size_t q = 0; q < member->second.size() && !is_inside; ++q) {
      if (member->second[q]) order.push_back(*member->second[q]);
    }
    complete(order, access->subscripts.size());
    std::vector<Affine> subscripts;
    for (const std::uint32_t k : order) {
      const auto place = std::ranges::find(member->second, std::optional(k));
      const auto q = static_cast<std::size_t>(place - member->second.begin());
      if (place == member->second.end())
        subscripts.push_back(access->subscripts[k]);
      else if (!is_single(q))
        subscripts.push_back(access->subscripts[k] - first_of(q));
    }
    return tensor_access(is_inside ? access->tensor : view_name(access->tensor), std::move(subscripts),
                         std::move(values));
  }

  /// Which sliced index the subscript is.
  std::optional<std::size_t> sliced_index(const Affine& subscript) const {
    const auto symbol = subscript.as_symbol();
    if (!symbol) return std::nullopt;
    for (std::size_t q = 0; q < axes_->size(); ++q) {
      const auto& axis = (*axes_)[q];
      if (axis ? *symbol == Symbol::axis(*axis) : is_summed_over(q, *symbol)) return q;
    }
    return std::nullopt;
  }

  bool is_summed_over(std::size_t q, Symbol symbol) const {
    return std::ranges::find(summed_, std::pair(symbol, q)) != summed_.end();
  }

  /// The axes of what is read that are sliced, in the order of `q`: first those of which a slice has one element.
  std::vector<std::uint32_t> sliced_axes_of(const Expr& access) const {
    std::vector<std::pair<std::size_t, std::uint32_t>> found;
    for (std::uint32_t k = 0; k < access->subscripts.size(); ++k) {
      const auto q = sliced_index(access->subscripts[k]);
      const auto is_found = [&](const auto& other) { return other.first == *q; };
      if (q && input_extent(access->tensor, k) == slices_.axes[*q].extent && std::ranges::none_of(found, is_found))
        found.emplace_back(*q, k);
    }
    std::ranges::sort(found);
    std::vector<std::uint32_t> order;
    for (const auto& [q, k] : found) order.push_back(k);
    return order;
  }

  /// Reads a tensor that is there before the slices run through a view of the elements that belong to the slice. Where
  /// other axes than sliced ones come first, the view is one of a copy.
  Expr view_of(const Expr& access, std::vector<Expr> values) {
    std::vector<std::uint32_t> order = sliced_axes_of(access);
    const std::size_t sliced = order.size();
    std::string tensor = access->tensor;
    if (!is_prefix(order)) {
      complete_with_axes(order, *access);
      complete(order, access->subscripts.size());
      tensor = copy_before(access->tensor, order);
    }
    complete(order, access->subscripts.size());
    SliceView view{tensor, {}};
    InputDecl input{tensor, program_.dtype_of(access->tensor), {}, program_.domain_of(access->tensor)};
    std::vector<Affine> subscripts;
    if (sliced > 0) input.name = view_name(tensor);
    for (std::size_t k = 0; k < order.size(); ++k) {
      const Affine& subscript = access->subscripts[order[k]];
      const auto q = k < sliced ? sliced_index(subscript) : std::nullopt;
      if (q) {
        input.name += "." + slices_.axes[*q].first.substr(kFirst.size());  // which no other slices have
        view.first.push_back(slices_.axes[*q].first);
        if (is_single(*q)) continue;
      }
      subscripts.push_back(q ? subscript - first_of(*q) : subscript);
      input.shape.push_back(q ? count_of(*q) : input_extent(access->tensor, order[k]));
    }
    if (sliced > 0) slices_.views.emplace(input.name, std::move(view));
    const std::string name = input.name;
    if (!result_.find_input(name)) result_.inputs.push_back(std::move(input));
    return tensor_access(name, std::move(subscripts), std::move(values));
  }

  /// A copy of a tensor with the axes in this order.
  std::string copy_before(const std::string& tensor, const std::vector<std::uint32_t>& order) {
    std::string name = tensor + ".in_slices";
    for (const std::uint32_t axis : order) name += "." + std::to_string(axis);
    const bool is_there = program_.find_input(name);  // for the slices before these
    if (is_there || std::ranges::find(copies_before_, name, &Definition::name) != copies_before_.end()) return name;
    Definition whole;
    whole.name = name;
    whole.dtype = program_.dtype_of(tensor);
    for (const std::uint32_t k : order) {
      const Affine extent = input_extent(tensor, k);
      whole.axes.push_back({fmt::format("i{}", k), extent, Range::extent(extent)});
    }
    copies_before_.push_back(copy_of(whole, tensor, order));
    return name;
  }

  Affine input_extent(const std::string& tensor, std::size_t axis) const { return program_.shape_of(tensor)[axis]; }

  /// A sum over a sliced index becomes one over the elements of the slice.
  Expr slice_of_reduction(const Expr& expr) {
    const OpenedReduce opened = open(expr);
    const auto q = summed_index(opened);
    if (!q) return map_opened(expr, opened, [&](const Expr& child) { return slice_of(child); });
    summed_.emplace_back(opened.index, *q);
    const Expr body = slice_of(opened.body);
    summed_.pop_back();
    if (is_single(*q)) {
      possible_ &= opened.range == Range::extent(slices_.axes[*q].extent);
      return substitute(body, {{opened.index, first_of(*q)}});
    }
    return reduce(expr->reduce, opened.index, range_in_slice(opened.range, *q),
                  substitute(body, {{opened.index, Affine(opened.index) + first_of(*q)}}));
  }

  Range range_in_slice(const Range& range, std::size_t q) const {
    if (range == Range::extent(slices_.axes[q].extent)) return Range::extent(count_of(q));
    Range part = Range::extent(count_of(q));
    for (const Bound& low : range.lows) {
      if (low.value != Affine(0)) part.lows.push_back({low.divisor, low.value - first_of(q) * low.divisor});
    }
    for (const Bound& high : range.highs) {
      if (high.divisor != 1 || high.value != slices_.axes[q].extent - Affine(1))
        part.highs.push_back({high.divisor, high.value - first_of(q) * high.divisor});
    }
    return part;
  }

  /// Which sliced index the reduction runs over: that of a tensor of the group.
  std::optional<std::size_t> summed_index(const OpenedReduce& opened) const {
    std::optional<std::size_t> found;
    visit(opened.body, [&](const Expr& e) {
      const auto member = e->kind == NodeKind::Access ? group_.members.find(e->tensor) : group_.members.end();
      if (member == group_.members.end()) return;
      for (std::size_t q = 0; q < axes_->size(); ++q) {
        const auto& axis = member->second[q];
        if (!(*axes_)[q] && axis && e->subscripts[*axis] == Affine(opened.index)) found = q;
      }
    });
    return found;
  }

  const Program& program_;
  const SliceGroup& group_;
  const std::set<std::string>& products_;
  Program result_;
  Slices slices_;
  std::vector<Definition> results_, copies_before_, copies_behind_;
  const SlicedAxes* axes_ = nullptr;  // the sliced axes of the current definition
  std::vector<std::pair<Symbol, std::size_t>> summed_;
  bool possible_ = true;
};

}  // namespace

std::optional<ProgramPart> slice_program(const Program& program, const SliceGroup& group,
                                         const std::set<std::string>& products, const std::string& seed,
                                         const std::vector<std::uint32_t>& axes,
                                         const std::vector<std::int64_t>& blocks, const DimValues& extents) {
  return SliceProgram(program, group, products, seed, axes, blocks, extents).run();
}

}  // namespace moxie
