#include "compiler/ir/sign_domain.h"

#include <array>

namespace moxie {
namespace {

constexpr std::array kDomains = {SignDomain::NonNegative, SignDomain::Positive, SignDomain::Negative};

/// By domain.
constexpr std::array<std::string_view, 4> kComparisons = {"", ">=", ">", "<"};
constexpr std::array<std::string_view, 4> kViolations = {"", "<", "<=", ">="};

}  // namespace

std::span<const SignDomain> sign_domains() { return kDomains; }

std::string_view comparison(SignDomain sign) { return kComparisons.at(static_cast<std::size_t>(sign)); }
std::string_view violation(SignDomain sign) { return kViolations.at(static_cast<std::size_t>(sign)); }

bool admits(SignDomain sign, double value) {
  switch (sign) {
    case SignDomain::Any: return true;
    case SignDomain::NonNegative: return value >= 0;
    case SignDomain::Positive: return value > 0;
    case SignDomain::Negative: return value < 0;
  }
  return false;
}

}  // namespace moxie
