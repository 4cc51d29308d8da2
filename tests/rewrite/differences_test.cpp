// Functions of a difference of indices are read from tables: on every device the values are those of the formula.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "compiler/diff/differentiate.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/device_values.h"

using namespace moxie;

namespace {

Program formula(const std::string& body, int extent) {
  return specialise(parse("dim N, H = 3\nindex i:N, j:N, h:H\ninput x[N], l[2], m[H]\noutput " + body + "\n"),
                    {{"N", extent}});
}

std::ptrdiff_t count_tables(const Program& program) {
  return std::ranges::count_if(optimise(program).definitions, [](const Definition& definition) {
    return definition.name.find(".table") != std::string::npos;
  });
}

/// The formula has one table, and its values and gradients.
void check_table(const std::string& body) {
  CAPTURE(body);
  const Program program = formula(body, 90);
  CHECK(count_tables(program) == 1);
  test::check_values_on_devices(program, {});
  test::check_values_on_devices(differentiate(program, {"y"}, {"x", "l", "m"}), {});
}

}  // namespace

TEST_CASE("what depends on a difference of two long indices alone is computed once for each difference") {
  check_table("y[i] = sum[j](exp(-((i-j)*l[0])^2)*x[j])");
  check_table("y[i] = sum[j](exp(-abs(i-j)/(2 + l[1]))*x[j])");
  check_table("y[i] = sum[j in 0..i+1](exp(l[0]*(i-j)/9)*x[j])");
  check_table("y[i,j] = sin(l[0]*(i+j)/50)*x[i]");
  check_table("y[i,j] = exp(-(2*i - 2*j + l[1])^2/99)*x[j]");
  check_table("y[i] = sum[j](exp(0.1*(j - i))*x[j])");
  check_table("y[i,j] = sin((2*i - 2*j)/50 + l[1])*x[j]");
}

TEST_CASE("so is what depends on other indices besides, of the part of the differences that a condition selects") {
  check_table("y[h,i] = sum[j](where(j <= i, (1.5 + m[h])^(i-j)*x[j]/1e9, 0))");
  const Program program = formula("y[h,i] = sum[j](where(j <= i, (1.5 + m[h])^(i-j)*x[j], 0))", 90);
  const Program optimised = optimise(program);
  const auto table = std::ranges::find_if(
      optimised.definitions, [](const Definition& d) { return d.name.find(".table") != std::string::npos; });
  REQUIRE(table != optimised.definitions.end());
  REQUIRE(table->axes.size() == 2);
  CHECK(table->axes[0].extent == Affine(3));
  CHECK(table->axes[1].extent == Affine(90));  // no negative differences
}

TEST_CASE("there is no table of what is short, cheap, or sees its indices in other ways") {
  CHECK(count_tables(formula("y[i] = sum[j](exp(-((i-j)*l[0])^2)*x[j])", 20)) == 0);
  CHECK(count_tables(formula("y[i] = sum[j](abs(i-j)*x[j])", 90)) == 0);
  CHECK(count_tables(formula("y[i] = sum[j](exp(x[i]*(i-j))*x[j])", 90)) == 0);
  CHECK(count_tables(formula("y[i] = sum[j](exp((i-j)*(i-2*j)*l[0])*x[j])", 90)) == 0);
}

TEST_CASE("a step of a scan reads the table of all its distances to earlier steps") {
  const Program program = specialise(parse(R"(dim T = 80
index t:T, s:T
input x[T], l[1]
scan t {
  output y[t] = x[t] + sum[s in 0..t](exp(-(t-s)*(1 + l[0]^2))*y[s])
}
)"),
                                     {});
  CHECK(count_tables(program) == 1);
  test::check_values_on_devices(program, {});
  test::check_values_on_devices(differentiate(program, {"y"}, {"x", "l"}), {});
}

TEST_CASE("no table stands before a scan whose first step it reads") {
  const Program program = specialise(parse(R"(dim T = 3, N = 80
index t:T, i:N, j:N
input x[N]
scan t {
  output y[t,i] = where(t == 0, x[i], sum[j](exp(-abs(i-j)*y[0,0]^2)*x[j]))
}
)"),
                                     {});
  test::check_values_on_devices(program, {});
}
