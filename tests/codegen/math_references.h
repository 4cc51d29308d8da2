#pragma once
// References in long double for the accuracy tests.
#include <span>
#include <string_view>

namespace moxie::testing {

using LongFunction = long double (*)(long double);

struct Reference {
  std::string_view function;
  LongFunction value;
  double low, high;              // the whole range of arguments that is tested
  double dense_low, dense_high;  // where samples are dense
};

std::span<const Reference> references();

}  // namespace moxie::testing
