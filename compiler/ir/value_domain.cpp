#include "compiler/ir/value_domain.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace moxie {
namespace {

using Relation = ValueDomain::Relation;

constexpr std::array kRelations = {Relation::AtLeast, Relation::Above, Relation::Below};

/// By relation.
constexpr std::array<std::string_view, 4> kComparisons = {"", ">=", ">", "<"};

}  // namespace

std::span<const Relation> value_relations() { return kRelations; }

std::string_view comparison(Relation relation) { return kComparisons.at(static_cast<std::size_t>(relation)); }

std::string to_string(const ValueDomain& domain) {
  if (domain.relation == Relation::None) return "";
  return fmt::format("{} {}", comparison(domain.relation), domain.bound);
}

bool admits(const ValueDomain& domain, double value) {
  if (domain.relation != Relation::None && !std::isfinite(value)) return false;
  switch (domain.relation) {
    case Relation::None:
      return true;
    case Relation::AtLeast:
      return value >= domain.bound;
    case Relation::Above:
      return value > domain.bound;
    case Relation::Below:
      return value < domain.bound;
  }
  return false;
}

}  // namespace moxie
