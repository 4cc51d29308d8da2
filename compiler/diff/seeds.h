#pragma once
// Derivatives at one element, and of all elements at once: the element's coordinates are symbols, and become axes.
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// As many symbols as the tensor has axes, which no dim of the program is called after. They stand for the coordinates
/// of one element. They must become axes before the Program is verified.
std::vector<Symbol> seeds_for(const Program& program, const std::string& tensor);

/// The program without its last input, a tangent or a cotangent, which is 1 at the element of the seeds and 0
/// elsewhere.
Program with_seeds(const Program& program, const std::vector<Symbol>& seeds);

/// Where the axes of the seeds stand in a result.
enum class SeedAxes : std::uint8_t { First, Last };

/// The Program for all elements of `tensor`: what depends on the seeds gets the tensor's axes as its last ones.
/// `results` get them in any case, and where `order` says; no other definition reads a result that has them first.
Program with_seed_axes(const Program& program, const std::vector<Symbol>& seeds, const std::string& tensor,
                       const std::vector<std::string>& results, SeedAxes order);

}  // namespace moxie
