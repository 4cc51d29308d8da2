#pragma once
// The order in which definitions are put into kernels: what they read comes first, and among what is ready, what lets
// kernels of the same loops become neighbours.
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/fuse/matrix_product.h"
#include "compiler/fuse/prefix_blocks.h"

namespace moxie {

/// Definitions that stay together: one, or those of a scan.
using Group = std::span<const Definition>;

std::set<std::string> tensors_read(const Expr& expr);
/// What a definition of a scan reads at its own step.
std::set<std::string> read_at_step(const Definition& definition);

std::vector<Group> in_fusing_order(const Program& program, const ProductTensors& products, const PrefixPlans& prefixes);
/// The definitions of a scan, in the order in which every step computes them.
std::vector<Group> in_step_order(const Group& scan, const ProductTensors& products);

}  // namespace moxie
