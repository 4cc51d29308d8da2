#pragma once
// Reductions that a .mox text defines, and where the scans that they stand for are written.
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/program/monoid_scan.h"
#include "compiler/text/token_stream.h"

namespace moxie {

class Names;
class TextFunctions;

/// The definition whose body is being read: scans of its reductions are written above it.
struct DefinitionSite {
  Program& program;
  const Definition& definition;
  std::size_t position;  // among the definitions of the program, where the next one is inserted
};

class TextReductions {
 public:
  const Monoid* find(std::string_view name) const;
  /// The reduction and component of `welford.mean`; the longest name wins.
  const Monoid* find_component(std::string_view name, std::size_t& component) const;
  void add(Monoid monoid) { monoids_.push_back(std::move(monoid)); }
  const std::deque<Monoid>& all() const { return monoids_; }
  std::vector<std::string> names() const;

  /// The reduced state, as an expression of the definition at the site; equal scans are written once.
  State reduced(const Monoid& monoid, const MonoidReduction& reduction);

  DefinitionSite* site = nullptr;  // nullptr where no definition is read
  std::string_view being_defined;  // the name of the reduction whose combine is being read
  std::size_t uses = 0;            // how many reductions were written as scans

 private:
  struct Known {
    MonoidScan scan;
    std::string name;
  };
  std::deque<Monoid> monoids_;  // a deque, as addresses stay
  std::vector<Known> known_;
};

/// Reads `welford(n, mean, m2) identity (..) combine(a, b) = (..) finish = ..`; `domain` reads what a component's
/// values are declared to satisfy.
Monoid read_reduction(TokenStream& tokens, const Program& program, Names& names, TextFunctions& functions,
                      const std::function<ValueDomain()>& domain);

}  // namespace moxie
