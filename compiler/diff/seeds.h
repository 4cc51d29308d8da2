#pragma once
// Derivatives at one element, and of all elements at once: the element's coordinates are symbols, and become axes.
#include <string>
#include <vector>

#include "compiler/ir/program.h"

namespace moxie {

/// As many symbols as the tensor has axes, which no dim of the program is called after. They stand for the coordinates
/// of one element, and where a Program is verified they must have become axes.
std::vector<Symbol> seeds_for(const Program& program, const std::string& tensor);

/// 1 where the access reads the element at the seeds, else 0.
Expr one_at_seeds(const Expr& access, const std::vector<Symbol>& seeds);

/// tangents() and differentiate() where the input moves (the output counts) at the element of the seeds alone. The
/// results, which depend on the seeds, are called `names`, in the order of `outputs` (of `wrt`).
Program tangents_at(const Program& program, const std::vector<std::string>& outputs, const std::string& input,
                    const std::vector<Symbol>& seeds, const std::vector<std::string>& names);
Program differentiate_at(const Program& program, const std::string& output, const std::vector<std::string>& wrt,
                         const std::vector<Symbol>& seeds, const std::vector<std::string>& names);

/// Where the axes of the seeds stand in a result.
enum class SeedAxes : std::uint8_t { First, Last };

/// The Program for all elements of `tensor`: what depends on the seeds gets the tensor's axes as its last ones.
/// `results` get them in any case, and where `order` says; no other definition reads a result that has them first.
Program with_seed_axes(const Program& program, const std::vector<Symbol>& seeds, const std::string& tensor,
                       const std::vector<std::string>& results, SeedAxes order);

}  // namespace moxie
