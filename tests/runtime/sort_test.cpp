// Sorted rows and the order of their elements, on every device: against numpy, the evaluator and finite differences.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compiler/builder/builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using Values = std::vector<double>;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

constexpr const char* kRows = R"(
dim S dynamic, K
index s:S, k:K
input x[S,K]
output order[s,k]: i32 = argsort[k](x[s,k])
output y[s,k] = sort[k](x[s,k])
)";

/// The same numbers, NaN and signs of infinity included.
void check_same(const Values& found, const Values& expected, double tolerance = 0) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    CAPTURE(k);
    if (std::isnan(expected[k]) || std::isinf(expected[k]))
      CHECK((found[k] == expected[k] || std::isnan(found[k]) == std::isnan(expected[k])));
    else
      CHECK(std::abs(found[k] - expected[k]) <= tolerance);
  }
}

/// On every device in both precisions, and by the evaluator; on `cpu` with all dims as arguments too.
void check_everywhere(const std::string& text, const DimValues& dims, const TensorValues& inputs,
                      const TensorValues& expected, double tolerance = 0, const std::vector<std::string>& outputs = {},
                      const std::vector<std::string>& wrt = {}) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Program program = with_dtype(parse(text), dtype);
    if (!outputs.empty()) program = differentiate(program, outputs, wrt);
    CHECK(print(parse(print(program))) == print(program));
    CAPTURE(to_string(dtype));
    const TensorValues reference = evaluate(program, dims, inputs);
    for (const auto& [name, values] : expected) check_same(reference.at(name), values, tolerance);
    for (const auto& device : test::test_devices()) {
      for (const bool dynamic : {false, true}) {
        if (dynamic && device->name() != "cpu") continue;
        for (DimDecl& dim : program.dims) dim.dynamic = dynamic || dim.name == "S";
        CAPTURE(device->name());
        CAPTURE(dynamic);
        const TensorValues found = test::run_on(device, program, dims, inputs);
        for (const auto& [name, values] : expected) {
          CAPTURE(name);
          check_same(found.at(name), values, tolerance);
        }
      }
    }
  }
}

/// numpy: ((s*7919 + k*k*31 + k*7) % 211 - 100)/8, which has equal elements from K = 31 on
Values rows(int count, int size) {
  Values values;
  for (int s = 0; s < count; ++s)
    for (int k = 0; k < size; ++k) values.push_back(((s * 7919 + k * k * 31 + k * 7) % 211 - 100) / 8.0);
  return values;
}

/// numpy: (values*(1 + np.arange(values.size)%101)).sum()
double checksum(const Values& values) {
  double sum = 0;
  for (std::size_t k = 0; k < values.size(); ++k) sum += values[k] * static_cast<double>(1 + k % 101);
  return sum;
}

}  // namespace

TEST_CASE("ties keep their order, zeros of both signs are equal, NaN comes last") {
  const Values x = {3, kNan, -0.0, kInf, 0.0, -kInf, 3, kNan, -1, 0.0, 3, kInf};
  // numpy: np.argsort(x, kind='stable')
  const Values order = {5, 8, 2, 4, 9, 0, 6, 10, 3, 11, 1, 7};
  const Values sorted = {-kInf, -1, 0, 0, 0, 3, 3, 3, kInf, kInf, kNan, kNan};
  check_everywhere(kRows, {{"S", 1}, {"K", 12}}, {{"x", x}}, {{"order", order}, {"y", sorted}});
  Values long_row, long_order;
  for (std::size_t k = 0; k < 240; ++k) long_row.push_back(x[k % 12]);
  for (const auto& equal : {Values{5}, Values{8}, Values{2, 4, 9}, Values{0, 6, 10}, Values{3, 11}, Values{1, 7}}) {
    for (int repeat = 0; repeat < 20; ++repeat)
      for (const double k : equal) long_order.push_back(12 * repeat + k);
  }
  check_everywhere(kRows, {{"S", 1}, {"K", 240}}, {{"x", long_row}}, {{"order", long_order}});
}

TEST_CASE("rows of every length agree with numpy") {
  const struct {
    int size;
    double order, sorted;  // numpy: checksums of np.argsort(x, 1, 'stable') and np.sort(x, 1)
  } cases[] = {{1, 0, -42.125},         {2, 12, -89.625},          {31, 65632, 2326.5},    {32, 72237, 2365.875},
               {33, 79305, 2282.5},     {63, 284401, 4189.625},    {64, 297461, 3689.875}, {65, 314304, 4843.875},
               {257, 4911461, 11170.5}, {1000, 76034216, 70173.25}};
  for (const auto& [size, order, sorted] : cases) {
    CAPTURE(size);
    const DimValues dims = {{"S", 3}, {"K", size}};
    const TensorValues inputs = {{"x", rows(3, size)}}, values = evaluate(parse(kRows), dims, inputs);
    CHECK(checksum(values.at("order")) == order);
    CHECK(checksum(values.at("y")) == sorted);
    check_everywhere(kRows, dims, inputs, {{"order", values.at("order")}, {"y", values.at("y")}});
  }
}

TEST_CASE("the gradient of sorted values is the cotangent where the elements stand") {
  // numpy: g[s, order[s]] = cot[s]
  check_everywhere(
      kRows, {{"S", 2}, {"K", 5}},
      {{"x", {2, -1, .5, 2, 7, 1, 1, -3, 4, 0}}, {"cot.y", {-3.5, -2.5, -1.5, -.5, .5, 1.5, 2.5, 3.5, 4.5, 5.5}}},
      {{"grad.x", {-1.5, -3.5, -2.5, -.5, .5, 3.5, 4.5, 1.5, 5.5, 2.5}}}, 0, {"y"}, {"x"});
}

TEST_CASE("rows of any axis, of expressions, of integers and of sorted rows; elements that the text chooses") {
  constexpr const char* kText = R"(
    dim S dynamic, K
    index s:S, k:K, j:K
    input x[K,S], n[K]: i32
    output down[s,k]: i32 = argsort[k](-2*x[k,s])
    output rank[k,s] = argsort[k](argsort[j](x[j,s])[k])
    output middle[s] = sort[k](x[k,s])[K/2] + sort[k](x[k,s])[0]
    output back[s,k] = sort[j](x[j,s])[K-1-k]
    output integers[k] = sort[k](n[k]) + argsort[k](n[k])/8
    output none[s] = sum[k](where(k < 2, sort[j](x[j,s] + x[j,s])[k], 0))
  )";
  for (const int size : {5, 70}) {
    const DimValues dims = {{"S", 4}, {"K", size}};
    TensorValues inputs = {{"x", rows(size, 4)}, {"n", {}}};
    for (int k = 0; k < size; ++k) inputs["n"].push_back(16777216 + k * 5 % 3);
    const TensorValues values = evaluate(parse(kText), dims, inputs);
    if (size == 5) {
      // numpy: x.T[0] = [-12.5, 1.5, -10.875, 3.125, -9.25]
      const Values down = values.at("down"), rank = values.at("rank");
      CHECK(Values(down.begin(), down.begin() + 5) == Values{3, 1, 4, 2, 0});
      CHECK(Values{rank[0], rank[4], rank[8], rank[12], rank[16]} == Values{0, 3, 1, 4, 2});
    }
    TensorValues expected = values;
    expected.erase("integers");  // in f32 they are rounded to even numbers
    check_everywhere(kText, dims, inputs, expected);
  }
}

TEST_CASE("the first elements of sorted rows, without the others") {
  constexpr const char* kText = R"(
    dim S dynamic, K
    index s:S, k:K, j in 0..J
    input x[S,K]
    output top[s,j] = -sort[k](-x[s,k])[j]
    output at[s,j]: i32 = argsort[k](x[s,k])[j]
    output ends[s] = sort[k](x[s,k])[0] + sort[k](x[s,k])[J-1]
  )";
  const struct {
    int size, first;
  } cases[] = {{8, 1}, {24, 3}, {61, 7}, {70, 2}, {300, 37}, {300, 9}, {1000, 1}, {1000, 16}, {1000, 125}};
  for (const auto& [size, first] : cases) {
    CAPTURE(size);
    CAPTURE(first);
    std::string text = kText;
    for (std::size_t at = text.find('J'); at != std::string::npos; at = text.find('J'))
      text.replace(at, 1, std::to_string(first));
    text.replace(text.find("K\n"), 1, "K = " + std::to_string(size));
    const DimValues dims = {{"S", 3}, {"K", size}};
    TensorValues inputs = {{"x", rows(3, size)}};
    inputs["x"][2] = kNan;
    const Program program = parse(text);
    TensorValues expected = evaluate(program, dims, inputs);
    if (size == 1000 && first == 16) {
      inputs["x"][2] = rows(3, size)[2];
      expected = evaluate(program, dims, inputs);
      // numpy: checksums of -np.sort(-x, 1)[:, :16] and np.argsort(x, 1, 'stable')[:, :16]
      CHECK(checksum(expected.at("top")) == 15921.5);
      CHECK(checksum(expected.at("at")) == 558918);
    }
    check_everywhere(text, dims, inputs, expected);
    const Program y = parse(text.substr(0, text.find("output at")));
    CHECK(test::worst_gradient_error(y, {"top"}, {"x"}, dims, test::random_inputs(y, dims, 3)) < 1e-6);
  }
}

TEST_CASE("sorts in the steps of a scan") {
  constexpr const char* kText = R"(
    dim T
    index t:T, k in 0..6
    input x[T,6], w[6]
    scan t {
      let before[t,k] = where(t == 0, w[k], h[t-1,k])
      output h[t,k] = sort[k](x[t,k] + before[t,k])/2
    }
  )";
  const DimValues dims = {{"T", 4}};
  const TensorValues inputs = {{"x", rows(4, 6)}, {"w", rows(1, 6)}};
  check_everywhere(kText, dims, inputs, {{"h", evaluate(parse(kText), dims, inputs).at("h")}}, 1e-5);
}

TEST_CASE("gradients through sorts agree with finite differences") {
  const char* texts[] = {
      "dim S dynamic, K\nindex s:S, k:K\ninput x[S,K], w[K]\noutput y = sum[s,k](w[k]*tanh(sort[k](x[s,k]*w[k])))",
      "dim S dynamic, K\nindex s:S, k:K, j:K\ninput x[S,K], w[S,K]\n"
      "let order[s,k]: i32 = argsort[k](x[s,k])\noutput y = sum[s,k](w[s,order[s,k]]^2*k + "
      "sort[k](x[s,k])[K-1-k]*w[s,k])",
  };
  for (const char* text : texts) {
    CAPTURE(text);
    for (const int size : {3, 70}) {
      const Program program = parse(text);
      const DimValues dims = {{"S", 3}, {"K", size}};
      CHECK(test::worst_gradient_error(program, {"y"}, {"x", "w"}, dims, test::random_inputs(program, dims, 3)) < 1e-6);
    }
  }
  const Program positions = parse("dim K\nindex k:K\ninput x[K]\noutput y = sum[k](k*argsort[k](x[k]))");
  const Program gradient = differentiate(positions, {"y"}, {"x"});
  CHECK(evaluate(gradient, {{"K", 3}}, {{"x", {2, 0, 1}}, {"cot.y", {1}}}).at("grad.x") == Values{0, 0, 0});
}

TEST_CASE("the C++ form of sorts") {
  Program built("p");
  const Dim S = built.dim("S", dynamic), K = built.dim("K");
  const Index s(S), k(K);
  const Tensor x = built.input("x", {S, K});
  built.output("order", {s, k}, argsort(k, x(s, k)), {ValueDomain::Any, DType::i32});
  built.output("y", {s, k}, sort(k, x(s, k)));
  built.output("z", {s}, sort(k, x(s, k), 0) + argsort(k, x(s, k), 1));
  const Program parsed = parse(std::string(kRows) + "output z[s] = sort[k](x[s,k])[0] + argsort[k](x[s,k])[1]\n");
  REQUIRE(built.definitions.size() == parsed.definitions.size());
  for (std::size_t i = 0; i < built.definitions.size(); ++i)
    CHECK(built.definitions[i].body == parsed.definitions[i].body);
}

TEST_CASE("what is wrong with a sort is said where it stands") {
  const auto fails = [](const std::string& body, const std::vector<std::string>& parts) {
    const std::string text = "dim S, K\nindex s:S, k:K, j in 1..K\ninput x[S,K]\noutput y[s] = " + body + "\n";
    CAPTURE(body);
    for (const std::string& part : parts) CHECK_THROWS_WITH(verify(parse(text)), doctest::Contains(part.c_str()));
  };
  fails("sort[k](x[s,k])", {"4:20", "`sort` over `k` has one subscript, but no element is chosen", "sort[k](...)[0]"});
  fails("sort[j](x[s,j])[0]", {"4:20", "`sort` sorts whole rows, but `j` does not run from 0 to an extent"});
  fails("argsort[k,j](x[s,k])[0]", {"`argsort` is over one index"});
  fails("argsort[q](x[s,q])[0]", {"4:23", "index `q` is not declared"});
  fails("argsort[k](x[s,k] > 0)[0]", {"`x[s,k] > 0` is a condition, but a number is wanted"});
  fails("argsort[k](x[s,k])[K]", {"subscript K of `argsort[k](x[s,k])[K]` can leave 0..K"});
  fails("sort(x[s,0])", {"`sort` needs its index", "write sort[index](...)"});
  fails("x[s,argsort[k](x[s,k])[0]]", {"stands in a subscript", "let j[s]: i32 = argsort[..](..)"});
  const Program named = parse("dim K\nindex k:K\ninput sort[K], argsort\noutput y[k] = sort[k]*argsort\n");
  CHECK(parse(print(named)) == named);
}
