#pragma once
// Overload: one function object out of several, for std::visit.

namespace moxie {

template <class... Functions>
struct Overload : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overload(Functions...) -> Overload<Functions...>;

}  // namespace moxie
