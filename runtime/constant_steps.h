#pragma once
// Steps of a Plan that compute the same in every run: tables of sines and cosines, windows, positions of nodes.
#include <vector>

#include "runtime/plan.h"

namespace moxie {

/// For each step of the plan, whether its results depend on nothing but the extents: it reads what such steps wrote and
/// nothing else, draws no random numbers, checks nothing, and writes no output, whose memory is the caller's. An
/// executable, which has one set of extents, runs such steps in its first run only; plan_memory() keeps their results.
std::vector<bool> constant_steps(const Plan& plan);

}  // namespace moxie
