#include "compiler/text/foreign_words.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moxie {
namespace {

using ForeignWord = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kProductHere =
    "a product is a sum over the index that its factors share: sum[n](x[s,n]*w[n])";
constexpr std::string_view kPrefixHere =
    "a cumulative sum is one over a range that ends at the axis: sum[k in 0..n+1](x[k])";
constexpr std::string_view kChoiceHere = "a choice is written where(condition, a, b)";
constexpr std::string_view kTruthHere = "conditions are comparisons, such as x > 0; as a number, what is true is 1";
constexpr std::string_view kPowerHere = "a power is written x^2";
constexpr std::string_view kInverseHere =
    "write inverse[i,j](a[i,j]), or lu_inverse[i,j](..) where `a` is not symmetric and positive definite";

constexpr std::string_view kTimesHere = "a product is written `*`: 2*x";
constexpr std::string_view kMinusHere = "write the minus of a keyboard, `-`";
constexpr std::string_view kSumHere = "a sum is written sum[n](x[n])";
constexpr std::string_view kQuotesHere = "file names stand between \"; formulas have no quotes";

constexpr std::array kForeignWords = {
    ForeignWord{"!", "write `not` or `!=`"},
    ForeignWord{"\"", "there are no strings; `#` starts a comment"},
    ForeignWord{"&", "write `and`"},
    ForeignWord{"//", "a comment starts with `#`"},
    ForeignWord{";", "end a statement with a new line"},
    ForeignWord{"=", "a comparison is written `==`"},
    ForeignWord{"?", kChoiceHere},
    ForeignWord{"@", kProductHere},
    ForeignWord{"False", kTruthHere},
    ForeignWord{"PI", "write pi"},
    ForeignWord{"Pi", "write pi"},
    ForeignWord{"True", kTruthHere},
    ForeignWord{"\\", "formulas are written in plain words: sum[n](x[s,n])"},
    ForeignWord{"arccos", "write acos(x)"},
    ForeignWord{"arccosh", "write acosh(x)"},
    ForeignWord{"arcsin", "write asin(x)"},
    ForeignWord{"arcsinh", "write asinh(x)"},
    ForeignWord{"arctan", "write atan(x)"},
    ForeignWord{"arctan2", "write atan2(y, x)"},
    ForeignWord{"arctanh", "write atanh(x)"},
    ForeignWord{"chol", "write cholesky[i,j](a[i,j])"},
    ForeignWord{"clip", "write clamp(x, low, high)"},
    ForeignWord{"count", "write sum[n](where(condition, 1, 0))"},
    ForeignWord{"cummax", "a cumulative maximum is one over a range that ends at the axis: max[k in 0..n+1](x[k])"},
    ForeignWord{"cumprod", "a cumulative product is one over a range that ends at the axis: prod[k in 0..n+1](x[k])"},
    ForeignWord{"cumsum", kPrefixHere},
    ForeignWord{"det", "write determinant[i,j](a[i,j])"},
    ForeignWord{"detach", "write stop_gradient(x)"},
    ForeignWord{"dot", kProductHere},
    ForeignWord{"einsum", kProductHere},
    ForeignWord{"else", kChoiceHere},
    ForeignWord{"elu", "write where(x > 0, x, expm1(x))"},
    ForeignWord{"expit", "write sigmoid(x)"},
    ForeignWord{"fabs", "write abs(x)"},
    ForeignWord{"false", kTruthHere},
    ForeignWord{"fmax", "write max(a, b)"},
    ForeignWord{"fmin", "write min(a, b)"},
    ForeignWord{"for", "a loop is an index: sum[n](x[n]), or an axis of a definition, y[n] = x[n]"},
    ForeignWord{"gamma", "write exp(lgamma(x)), where x > 0"},
    ForeignWord{"heaviside", "write where(x > 0, 1, 0)"},
    ForeignWord{"hypot", "write sqrt(x^2 + y^2)"},
    ForeignWord{"if", kChoiceHere},
    ForeignWord{"inv", kInverseHere},
    ForeignWord{"layer_norm", "write (x[s,n] - mean[n](x[s,n]))/sqrt(variance[n](x[s,n]) + 1e-5)"},
    ForeignWord{"leaky_relu", "write where(x > 0, x, 0.01*x)"},
    ForeignWord{"lerp", "write a + w*(b - a)"},
    ForeignWord{"ln", "write log(x)"},
    ForeignWord{"logaddexp", "write max(a, b) + softplus(-abs(a - b))"},
    ForeignWord{"logistic", "write sigmoid(x)"},
    ForeignWord{"logit", "write log(x/(1 - x))"},
    ForeignWord{"matmul", kProductHere},
    ForeignWord{"maximum", "write max(a, b)"},
    ForeignWord{"median", "write sort[n](x[s,n])[(N-1)//2], where `N` is the extent"},
    ForeignWord{"minimum", "write min(a, b)"},
    ForeignWord{"mod", "write a % b"},
    ForeignWord{"norm", "write sqrt(sum[n](x[s,n]^2))"},
    ForeignWord{"normalize", "write x[s,n]/sqrt(sum[n](x[s,n]^2)), or softmax[n](x[s,n])"},
    ForeignWord{"outer", "an outer product is written a[i]*b[j]"},
    ForeignWord{"power", kPowerHere},
    ForeignWord{"reciprocal", "write 1/x"},
    ForeignWord{"relu6", "write clamp(x, 0, 6)"},
    ForeignWord{"sgn", "write sign(x)"},
    ForeignWord{"square", kPowerHere},
    ForeignWord{"std", "write sqrt(variance[n](x[s,n]))"},
    ForeignWord{"swish", "write silu(x)"},
    ForeignWord{"topk", "write sort[n](x[s,n])[N-1-k], where `N` is the extent and k in 0..K"},
    ForeignWord{"trace", "write sum[i](a[i,i])"},
    ForeignWord{"transpose", "a transpose has its indices in another order: a[j,i]"},
    ForeignWord{"true", kTruthHere},
    ForeignWord{"var", "write variance[n](x[s,n])"},
    ForeignWord{"|", "write `or`"},
    // By the bytes of UTF-8.
    ForeignWord{"\u00a0", "this space does not break lines; write a plain one"},
    ForeignWord{"\u00ac", "write `not`"},
    ForeignWord{"\u00b2", kPowerHere},
    ForeignWord{"\u00b3", kPowerHere},
    ForeignWord{"\u00b7", kTimesHere},
    ForeignWord{"\u00d7", kTimesHere},
    ForeignWord{"\u00f7", "write `/`"},
    ForeignWord{"\u03a3", kSumHere},
    ForeignWord{"\u03c0", "write pi"},
    ForeignWord{"\u2013", kMinusHere},
    ForeignWord{"\u2014", kMinusHere},
    ForeignWord{"\u2018", kQuotesHere},
    ForeignWord{"\u2019", kQuotesHere},
    ForeignWord{"\u201c", kQuotesHere},
    ForeignWord{"\u201d", kQuotesHere},
    ForeignWord{"\u2207", "derivatives are asked for where the formula is used: --grad"},
    ForeignWord{"\u220f", "a product over an index is written prod[n](x[n])"},
    ForeignWord{"\u2211", kSumHere},
    ForeignWord{"\u2212", kMinusHere},
    ForeignWord{"\u221a", "write sqrt(x)"},
    ForeignWord{"\u221e", "write inf"},
    ForeignWord{"\u2227", "write `and`"},
    ForeignWord{"\u2228", "write `or`"},
    ForeignWord{"\u2260", "write `!=`"},
    ForeignWord{"\u2264", "write `<=`"},
    ForeignWord{"\u2265", "write `>=`"},
    ForeignWord{"\u22c5", kTimesHere},
};
static_assert(std::ranges::is_sorted(kForeignWords, {}, &ForeignWord::first));

}  // namespace

std::string_view said_here(std::string_view word) {
  const auto found = std::ranges::lower_bound(kForeignWords, word, {}, &ForeignWord::first);
  return found != kForeignWords.end() && found->first == word ? found->second : std::string_view();
}

}  // namespace moxie
