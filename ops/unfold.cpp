#include "ops/unfold.h"

#include <fmt/format.h>

#include "compiler/support/error.h"

namespace moxie {
namespace {

class Unfolding {
 public:
  Unfolding(const Program& program, std::string_view dim, std::size_t count)
      : program_(program), dim_(Symbol::dim(dim)) {
    for (std::size_t k = 0; k < count; ++k) extents_.emplace_back(Symbol::dim(fmt::format("{}{}", dim, k)));
  }

  Program run() {
    Program result = program_;
    result.dims.clear();
    for (const DimDecl& dim : program_.dims) {
      for (const Affine& extent : extents_for(Symbol::dim(dim.name)))
        result.dims.push_back({extent.as_symbol()->name(), dim.value, dim.dynamic});
    }
    std::erase_if(result.indices, [&](const IndexDecl& index) { return index.range == Range::extent(dim_); });
    for (InputDecl& input : result.inputs) input.shape = unfold(input.shape);
    for (Definition& definition : result.definitions) unfold(definition);
    return result;
  }

 private:
  std::vector<Affine> extents_for(const Affine& extent) const {
    return extent == Affine(dim_) ? extents_ : std::vector<Affine>{extent};
  }

  std::vector<Affine> unfold(const std::vector<Affine>& shape) const {
    std::vector<Affine> result;
    for (const Affine& extent : shape) {
      for (const Affine& part : extents_for(extent)) result.push_back(part);
    }
    return result;
  }

  void unfold(Definition& definition) {
    std::vector<AxisDecl> axes;
    places_.clear();
    for (const AxisDecl& axis : definition.axes) {
      std::vector<Affine>& places = places_.emplace_back();
      require(axis.range == Range::extent(axis.extent));
      for (const Affine& extent : extents_for(axis.extent)) {
        const std::string name = extent == axis.extent ? axis.name : fmt::format("{}{}", axis.name, places.size());
        places.emplace_back(Symbol::axis(static_cast<std::uint32_t>(axes.size())));
        axes.push_back({name, extent, Range::extent(extent)});
      }
    }
    definition.axes = std::move(axes);
    definition.body = unfold(definition.body);
  }

  Expr unfold(const Expr& e) const {
    if (e->kind == NodeKind::Access && e->args.empty()) return tensor_access(e->tensor, subscripts(e->subscripts));
    if (e->kind == NodeKind::Random) return random(e->random, e->stream, subscripts(e->subscripts));
    require(e->kind == NodeKind::Constant || e->kind == NodeKind::Call);
    std::vector<Expr> args;
    for (const Expr& arg : e->args) args.push_back(unfold(arg));
    return with_args(e, std::move(args));
  }

  std::vector<Affine> subscripts(const std::vector<Affine>& old) const {
    std::vector<Affine> result;
    for (const Affine& subscript : old) {
      const std::optional<Symbol> axis = subscript.as_symbol();
      require(axis && axis->kind() == Symbol::Kind::Axis);
      for (const Affine& place : places_[axis->number()]) result.push_back(place);
    }
    return result;
  }

  void require(bool elementwise) const {
    if (!elementwise)
      throw TypeError(fmt::format("'{}' does not go element by element, so {} cannot stand for several axes",
                                  program_.name, dim_.name()));
  }

  const Program& program_;
  Symbol dim_;
  std::vector<Affine> extents_;
  std::vector<std::vector<Affine>> places_;  // of each axis among the new ones
};

}  // namespace

Program unfold(const Program& program, std::string_view dim, std::size_t count) {
  return Unfolding(program, dim, count).run();
}

}  // namespace moxie
