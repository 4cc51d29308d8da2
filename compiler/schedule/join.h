#pragma once
// Joining: definitions of neighbouring kernels in one nest, whose outer loops they share. What an iteration of these
// loops reads is then in the nearest cache when the next definition reads it, and what one definition gives to another
// stays in registers.
#include <optional>
#include <vector>

#include "compiler/schedule/nest.h"

namespace moxie {

/// The definitions of both nests, as they would stand in one kernel: those of `second` after those of `first`. Nothing
/// where that cannot save anything, or would change values: they read no tensor in common, loops that are split over
/// threads do not run over the same range, or one reads elements of another that the iteration does not compute.
std::optional<Nest> join(const Nest& first, const Nest& second);
/// The second nest with the outer loops of the first one, up to the one that is split over threads, where its
/// definitions have axes of the same ranges.
std::optional<Nest> in_loops_of(const Nest& first, Nest second);
/// The second nest, whose definitions have the axes of definitions of the first one that they read, in all loops of
/// these; nothing where one reads none such.
std::optional<Nest> in_loops_of_producers(const Nest& first, Nest second);
/// The nest without register tiles.
Nest without_tiles(Nest nest);
/// Nests that compute what both do in shared loops: in those of either, with its register tiles or without.
std::vector<Nest> joint_nests(const Nest& first, const Nest& second);

}  // namespace moxie
