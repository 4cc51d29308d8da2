#include "compiler/fuse/slices.h"

#include <algorithm>
#include <functional>

#include "compiler/fuse/matrix_product.h"
#include "compiler/fuse/ordered_sum_call.h"
#include "compiler/fuse/slice_group.h"
#include "compiler/fuse/slice_program.h"

namespace moxie {
namespace {

/// How often a tensor must fill it before it is worth to compute it twice, which takes about as long as to move it to
/// memory and back.
constexpr double kMinRecomputedCaches = 32;
constexpr std::size_t kMaxSlicedRank = 5;
/// Multiply-adds of products for each byte that slices keep in the cache. Products of slices take up to a tenth longer
/// than those of whole tensors: from here on that is more than a byte takes from memory and back.
constexpr double kMaxWork = 64;
/// How often the slice of the fewest rows may fill the cache.
constexpr double kMaxSlice = 32;
/// Bytes of copies for each byte that slices keep in the cache.
constexpr double kMaxCopied = 0.5;
/// Rows of a slice even where they do not fit into the cache: products of fewer take longer for each.
constexpr double kMinRows = 64;

std::int64_t extent_of(const SliceAxis& axis, const DimValues& dims) {
  return axis.extent.evaluate([&](Symbol dim) { return dims.find(dim.name())->second; });
}

/// One way to cut a group.
struct Cut {
  std::string seed;
  std::vector<std::uint32_t> axes;
  std::vector<std::int64_t> blocks;
  double score = 0;  // elements of the last two axes of the seed in a slice: products of larger matrices take less time
  double others = 0;  // elements of its other axes, if it fits into the cache: products of many matrices at once, too
};

class Slicing {
 public:
  Slicing(const Program& program, const SliceTarget& target, const DimValues& extents)
      : program_(program),
        target_(target),
        extents_(extents),
        cache_bytes_(target.cache_bytes),
        products_(product_tensors(program, has_bands())),
        search_(program, extents) {
    if (target.has_library) added_ = product_tensors(program, target.has_bands).results;
  }

  /// The parts of the Program, if there is a group of definitions that is worth slices.
  std::vector<ProgramPart> run() const {
    for (const std::string& seed : seeds()) {
      std::vector<Cut> cuts = cuts_of(seed);
      std::ranges::stable_sort(cuts, {}, [](const Cut& cut) { return std::pair(-cut.score, -cut.others); });
      for (const Cut& cut : cuts) {
        const SliceGroup group = *search_.group(cut.seed, cut.axes);
        auto part = slice_program(program_, group, added_, cut.seed, cut.axes, cut.blocks, extents_);
        if (part && is_possible(*part) && keeps_products(group, part->program) && !copies_much(group, *part))
          return split(group, std::move(*part));
      }
      if (auto parts = with_copies(seed); !parts.empty()) return parts;
    }
    return {};
  }

 private:
  /// Kernels take the products that a library does not, so that these count as products, too.
  bool has_bands() const { return target_.has_bands || !target_.adds_parts || !target_.has_library; }
  bool is_possible(const ProgramPart& part) const { return target_.adds_parts || part.slices->parts.empty(); }

  /// The parts with tensors computed again where that makes groups, and only slices of them are ever stored.
  std::vector<ProgramPart> with_copies(const std::string& seed) const {
    if (search_.bytes_of(seed) < kMinRecomputedCaches * cache_bytes_) return {};
    for (const std::vector<std::uint32_t>& axes : sets_of_axes(seed)) {
      const auto program = search_.recomputed(seed, axes);
      if (!program) continue;
      std::vector<ProgramPart> parts = Slicing(*program, target_, extents_).run();
      if (!parts.empty() && !stores_whole(parts, search_.bytes_of(seed) / 2)) return parts;
    }
    return {};
  }

  /// Whether a tensor of at least this size is still stored whole.
  bool stores_whole(const std::vector<ProgramPart>& parts, double bytes) const {
    const auto is_whole = [&](const Definition& definition) {
      const Definition* original = program_.find_definition(definition.name);
      return typical_bytes(definition, extents_) >= bytes && !(original && original->output);
    };
    return std::ranges::any_of(parts, [&](const ProgramPart& part) {
      return part.slices ? std::ranges::any_of(part.results, is_whole)
                         : std::ranges::any_of(part.program.definitions, is_whole);
    });
  }

  /// Large tensors that matrix products write or read, the largest first: these are stored, whatever else is fused.
  std::vector<std::string> seeds() const {
    std::vector<std::string> names;
    for (const Definition& definition : program_.definitions) {
      const bool is_stored =
          products_.results.contains(definition.name) || products_.operands.contains(definition.name);
      if (is_stored && !definition.output && !definition.scan && search_.bytes_of(definition.name) > cache_bytes_)
        names.push_back(definition.name);
    }
    std::erase_if(names, [&](const std::string& name) { return has_large_product(name); });
    std::ranges::stable_sort(names, std::greater<>(), [&](const std::string& name) { return search_.bytes_of(name); });
    return names;
  }

  /// Whether a product that writes or reads it takes longer than any slices of it could save.
  bool has_large_product(const std::string& name) const {
    return std::ranges::any_of(program_.definitions, [&](const Definition& definition) {
      return products_.results.contains(definition.name) &&
             (definition.name == name || search_.reads(definition.name, name)) &&
             search_.multiply_adds(definition.name) > 2 * kMaxWork * search_.bytes_of(name);
    });
  }

  /// Every set of axes along which the group of the seed can be cut into slices that fit into the cache.
  std::vector<Cut> cuts_of(const std::string& seed) const {
    std::vector<Cut> cuts;
    for (const std::vector<std::uint32_t>& axes : sets_of_axes(seed)) {
      if (const auto group = search_.group(seed, axes)) {
        if (auto cut = cut_of(seed, axes, *group)) cuts.push_back(std::move(*cut));
      }
    }
    return cuts;
  }

  /// Those with most axes first. Of a tensor with many axes, those of the outer ones.
  std::vector<std::vector<std::uint32_t>> sets_of_axes(const std::string& seed) const {
    std::vector<std::vector<std::uint32_t>> sets;
    const std::size_t rank = std::min(program_.find_definition(seed)->axes.size(), kMaxSlicedRank);
    for (std::uint32_t set = 1; set < (1U << rank); ++set) {
      std::vector<std::uint32_t>& axes = sets.emplace_back();
      for (std::uint32_t k = 0; k < rank; ++k) {
        if (set & (1U << k)) axes.push_back(k);
      }
    }
    std::ranges::stable_sort(sets, std::greater<>(), [](const auto& axes) { return axes.size(); });
    return sets;
  }

  std::optional<Cut> cut_of(const std::string& seed, const std::vector<std::uint32_t>& axes,
                            const SliceGroup& group) const {
    const double bytes = search_.bytes_in_use(group);
    if (bytes < target_.least_caches * cache_bytes_ || !is_worth_it(group)) return std::nullopt;
    const std::vector<AxisDecl>& all = program_.find_definition(seed)->axes;
    Cut cut{seed, axes, std::vector<std::int64_t>(axes.size(), 1)};
    double slices = 1;
    for (const std::uint32_t axis : axes) slices *= extent_of(all[axis]);
    const AxisDecl& last = all[axes.back()];
    const bool is_row = axes.back() + 2 >= all.size();
    const double block = std::max(cache_bytes_ / (bytes / slices), is_row ? kMinRows : 0);
    if (block < 1) return std::nullopt;
    cut.blocks.back() = even_block(last, static_cast<std::int64_t>(std::min(block, extent_of(last))));
    const auto rows = static_cast<double>(cut.blocks.back());
    const bool is_whole = slices <= rows;  // one slice of all elements
    if (is_whole || bytes / slices * rows > kMaxSlice * cache_bytes_) return std::nullopt;
    cut.score = 1;
    for (std::size_t k = all.size() - std::min<std::size_t>(2, all.size()); k < all.size(); ++k) {
      const auto place = std::ranges::find(axes, k);
      cut.score *= place == axes.end()
                       ? extent_of(all[k])
                       : static_cast<double>(cut.blocks[static_cast<std::size_t>(place - axes.begin())]);
    }
    // even_block() takes up to twice of what fits.
    if (bytes / slices * rows <= 2 * cache_bytes_) cut.others = search_.bytes_of(seed) / slices * rows / cut.score;
    return cut;
  }

  /// Copies move as many bytes as slices of tensors of their size save.
  bool copies_much(const SliceGroup& group, const ProgramPart& part) const {
    double copied = 0;
    for (const auto* copies : {&part.copies_before, &part.copies_behind}) {
      for (const Definition& copy : *copies) copied += typical_bytes(copy, extents_);
    }
    return copied > kMaxCopied * bytes_inside(group);
  }

  /// Products of small matrices take longer, what they write and read then less.
  bool is_worth_it(const SliceGroup& group) const {
    double work = 0;
    for (const auto& [name, axes] : group.members) {
      if (products_.results.contains(name)) work += search_.multiply_adds(name);
    }
    return work < kMaxWork * bytes_inside(group);
  }

  double bytes_inside(const SliceGroup& group) const {
    double bytes = 0;
    for (const std::string& name : group.inside) bytes += search_.bytes_of(name);
    return bytes;
  }

  double extent_of(const AxisDecl& axis) const { return typical_extent(axis.extent, extents_); }

  /// About `near`: a divisor of the extent where one is near, so that all slices have the same size, if there is one a
  /// multiple of 16; else such that slices have about the same size.
  std::int64_t even_block(const AxisDecl& axis, std::int64_t near) const {
    const auto extent = static_cast<std::int64_t>(extent_of(axis));
    for (const std::int64_t unit : {16, 1}) {
      for (std::int64_t block = near * 2 / unit * unit; block > near / 2; block -= unit) {
        if (block <= extent && extent % block == 0) return block;
      }
    }
    const std::int64_t count = ceil_div(extent, near);
    return ceil_div(extent, count);
  }

  /// Whether slices have the same matrix products, since what a library does not compute any more would be slower, and
  /// else kernels.
  bool keeps_products(const SliceGroup& group, const Program& slice) const {
    const std::set<std::string> products = product_tensors(slice, has_bands()).results;
    if (!ordered_sum_calls(slice, extents_).empty()) return false;
    return std::ranges::all_of(group.members, [&](const auto& member) {
      const std::string& name = member.first;
      if (program_.find_definition(name)->body->kind == NodeKind::LinearAlgebra) return false;
      return !products_.results.contains(name) || products.contains(name) || products.contains(name + ".slice");
    });
  }

  /// What slices depend on comes before them, and all else behind.
  std::vector<ProgramPart> split(const SliceGroup& group, ProgramPart slices) const {
    const std::set<std::string> earlier = search_.before(group);
    ProgramPart before{program_, {}}, behind{program_, {}};
    before.program.dims = behind.program.dims = slices.program.dims;  // so that no other part takes their names
    std::erase_if(before.program.definitions,
                  [&](const Definition& definition) { return !earlier.contains(definition.name); });
    std::erase_if(behind.program.definitions, [&](const Definition& definition) {
      return earlier.contains(definition.name) || group.members.contains(definition.name);
    });
    for (Definition& definition : before.program.definitions) {
      const bool is_kept = read_by(slices, definition.name) || is_read(definition.name, behind.program.definitions);
      definition.output |= is_kept;
      if (is_kept) behind.program.inputs.push_back(as_input(definition.name));
    }
    for (const Definition& result : slices.results) behind.program.inputs.push_back(declared(result));
    for (Definition& copy : slices.copies_before) {
      behind.program.inputs.push_back(declared(copy));
      copy.output = true;
      before.program.definitions.push_back(std::move(copy));
    }
    auto& copied = behind.program.definitions;
    copied.insert(copied.begin(), slices.copies_behind.begin(), slices.copies_behind.end());
    std::vector<ProgramPart> parts = cut_again(before);
    parts.push_back(std::move(slices));
    for (ProgramPart& part : cut_again(behind)) parts.push_back(std::move(part));
    return parts;
  }

  static InputDecl declared(const Definition& definition) {
    InputDecl input{definition.name, definition.dtype, {}, definition.domain};
    for (const AxisDecl& axis : definition.axes) input.shape.push_back(axis.extent);
    return input;
  }

  InputDecl as_input(const std::string& name) const {
    return {name, program_.dtype_of(name), program_.shape_of(name), program_.domain_of(name)};
  }

  bool is_read(const std::string& tensor, const std::vector<Definition>& definitions) const {
    return std::ranges::any_of(definitions,
                               [&](const Definition& definition) { return search_.reads(definition.name, tensor); });
  }

  static bool read_by(const ProgramPart& part, const std::string& tensor) {
    return part.program.find_input(tensor) ||
           std::ranges::any_of(part.slices->views, [&](const auto& view) { return view.second.tensor == tensor; }) ||
           std::ranges::any_of(part.copies_before, [&](const Definition& copy) { return copy.body->tensor == tensor; });
  }

  std::vector<ProgramPart> cut_again(const ProgramPart& part) const {
    if (part.program.definitions.empty()) return {};
    return in_slices(part.program, target_, extents_);
  }

  const Program& program_;
  SliceTarget target_;
  const DimValues& extents_;
  double cache_bytes_;
  ProductTensors products_;
  std::set<std::string> added_;  // products of which the library adds those of slices up
  SliceSearch search_;
};

/// Whether the definitions take that much memory: most Programs do not.
bool is_large(const Program& program, const DimValues& extents, double bytes) {
  double sum = 0;
  for (const Definition& definition : program.definitions) {
    if (!definition.output) sum += typical_bytes(definition, extents);
  }
  return sum >= bytes;
}

/// Elements of a slice.
std::int64_t block_of(const SliceAxis& axis, std::int64_t extent) {
  if (axis.block > 0) return axis.block;
  std::int64_t block = 1;
  while (block * block < extent) ++block;
  return block;
}

std::int64_t count_along(const SliceAxis& axis, const DimValues& dims) {
  const std::int64_t extent = std::max<std::int64_t>(extent_of(axis, dims), 0);
  return ceil_div(extent, block_of(axis, extent));
}

}  // namespace

std::int64_t slice_count(const Slices& slices, const DimValues& dims) {
  std::int64_t count = 1;
  for (const SliceAxis& axis : slices.axes) count = checked_mul(count, count_along(axis, dims));
  return count;
}

void set_dims_of_run(const Slices& slices, std::int64_t done, DimValues& dims) {
  set_slice_dims(slices, slices.backwards ? slice_count(slices, dims) - 1 - done : done, dims);
}

void set_slice_dims(const Slices& slices, std::int64_t number, DimValues& dims) {
  if (const auto& names = slices.numbers) {
    const std::int64_t count = slice_count(slices, dims);
    const std::int64_t left = slices.backwards ? number : count - 1 - number;
    dims[names->number] = number;
    dims[names->next] = number + 1;
    dims[names->turn] = std::abs(left) % 2;
    dims[names->other] = (std::abs(left) + 1) % 2;
    dims[names->slots] = count + 1;
  }
  for (auto axis = slices.axes.rbegin(); axis != slices.axes.rend(); ++axis) {
    const std::int64_t extent = extent_of(*axis, dims);
    const std::int64_t block = block_of(*axis, extent);
    const std::int64_t count = std::max<std::int64_t>(count_along(*axis, dims), 1);
    const std::int64_t first = number % count * block;
    number /= count;
    dims[axis->first] = first;
    if (!axis->count.empty()) dims[axis->count] = std::clamp<std::int64_t>(extent - first, 0, block);
  }
}

bool is_later(const std::vector<std::string>& firsts, const DimValues& dims) {
  return std::ranges::any_of(firsts, [&](const std::string& first) { return dims.find(first)->second != 0; });
}

std::vector<ProgramPart> in_slices(const Program& optimised, const SliceTarget& target, const DimValues& extents) {
  if (!is_large(optimised, extents, target.least_caches * target.cache_bytes)) return {{optimised, std::nullopt}};
  std::vector<ProgramPart> parts = Slicing(optimised, target, extents).run();
  if (parts.empty()) parts.push_back({optimised, std::nullopt});
  return parts;
}

}  // namespace moxie
