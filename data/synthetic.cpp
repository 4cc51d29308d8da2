#include "data/synthetic.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <span>

namespace moxie {
namespace {

/// Uniform and normal draws that are the same with every standard library, as the standard's own distributions are not.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}

  double uniform() { return (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53; }
  double normal() {  // Box-Muller
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  std::string_view one_of(std::span<const std::string_view> choices) {
    return choices[static_cast<std::size_t>(uniform() * static_cast<double>(choices.size()))];
  }

 private:
  std::mt19937_64 random_;
};

using Words = std::array<std::string_view, 4>;

/// What is reviewed, by the label that praise of it has.
struct Subject {
  std::string_view label;
  Words names;
};
constexpr std::array<Subject, 3> kSubjects = {{{"food", {"soup", "bread", "pasta", "cake"}},
                                               {"place", {"garden", "room", "terrace", "music"}},
                                               {"service", {"waiter", "cook", "owner", "barman"}}}};
constexpr Words kGood = {"good", "great", "lovely", "fine"}, kBad = {"bad", "poor", "awful", "dull"};
constexpr Words kNegations = {"", "", "not ", "never "};
constexpr Words kOpenings = {"", "to be honest , ", "we went there twice : ", "last week "};
constexpr Words kLinks = {" , ", " and ", " but ", " ; "};

/// "not bad", "great": an opinion, half of the time by the opposite of its opposite.
std::string opinion(bool praise, Draws& draws) {
  const std::string_view negation = draws.one_of(kNegations);
  const bool good = praise == negation.empty();
  return fmt::format("{}{}", negation, draws.one_of(good ? kGood : kBad));
}

/// Reviews of the same words, each of which praises another subject.
void add_reviews(Draws& draws, std::vector<LabelledText>& rows) {
  constexpr std::size_t kCount = kSubjects.size();
  const std::string_view opening = draws.one_of(kOpenings);
  const std::array<std::string_view, kCount> links = {draws.one_of(kLinks), draws.one_of(kLinks), " ."};
  const std::array<std::string, kCount> opinions = {opinion(true, draws), opinion(false, draws), opinion(false, draws)};
  const auto first = static_cast<std::size_t>(draws.uniform() * kCount);
  std::array<std::string_view, kCount> names;
  for (std::size_t k = 0; k < kCount; ++k) names[k] = draws.one_of(kSubjects[k].names);
  for (std::size_t praised = 0; praised < kCount; ++praised) {
    std::string text(opening);
    for (std::size_t k = 0; k < kCount; ++k) {
      const std::size_t subject = (first + k) % kCount;
      text += fmt::format("the {} was {}{}", names[subject], opinions[(subject + kCount - praised) % kCount], links[k]);
    }
    rows.push_back({std::string(kSubjects[praised].label), std::move(text), rows.size() + 1});
  }
}

Table numeric_table(std::string name, std::size_t features, std::size_t rows) {
  Table table{{std::move(name)}, {}, {}};
  for (std::size_t i = 0; i < features; ++i)
    table.columns.push_back({fmt::format("x{}", i + 1), ColumnKind::Numeric, {}, {}, {}});
  for (std::size_t row = 0; row < rows; ++row) table.origins.push_back({0, row + 1});
  return table;
}

}  // namespace

Table synthetic_spirals(std::uint64_t seed) {
  constexpr std::size_t kRows = 4000, kArms = 4;
  constexpr double kTurns = 0.75, kNoise = 0.04;
  struct Wave {
    double u, v, phase;
  };
  constexpr std::array<Wave, 8> kWaves{
      {{1, 0, 0}, {0, 1, 0}, {1, 1, 0.5}, {1, -1, 1}, {2, 1, 1.5}, {-1, 2, 2}, {2, -2, 2.5}, {3, 0, 3}}};
  Draws draws(seed);
  Table table = numeric_table("synthetic", kWaves.size(), kRows);
  Column arm{"class", ColumnKind::Categorical, {}, {}, {"a", "b", "c", "d"}};
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::size_t index = row % kArms;
    const double radius = 0.1 + 0.9 * draws.uniform();
    const double angle = 2 * std::numbers::pi * (kTurns * radius + static_cast<double>(index) / kArms);
    const double u = radius * std::cos(angle) + kNoise * draws.normal(),
                 v = radius * std::sin(angle) + kNoise * draws.normal();
    for (std::size_t i = 0; i < kWaves.size(); ++i)
      table.columns[i].numbers.push_back(std::sin(kWaves[i].u * u + kWaves[i].v * v + kWaves[i].phase) +
                                         kNoise * draws.normal());
    arm.codes.push_back(static_cast<std::uint32_t>(index));
  }
  table.columns.push_back(std::move(arm));
  return table;
}

Table synthetic_regression(std::uint64_t seed) {
  constexpr std::size_t kRows = 2000, kFeatures = 4;
  Draws draws(seed);
  Table table = numeric_table("synthetic-regression", kFeatures, kRows);
  Column target{"y", ColumnKind::Numeric, {}, {}, {}};
  for (std::size_t row = 0; row < kRows; ++row) {
    std::array<double, kFeatures> x;
    for (std::size_t i = 0; i < kFeatures; ++i) table.columns[i].numbers.push_back(x[i] = 2 * draws.uniform() - 1);
    const double noise = 0.05 + 0.2 * (x[0] + 1);
    target.numbers.push_back(std::sin(3 * x[0]) + x[1] * x[2] + 0.5 * x[3] * x[3] + noise * draws.normal());
  }
  table.columns.push_back(std::move(target));
  return table;
}

Texts synthetic_reviews(std::uint64_t seed) {
  constexpr std::size_t kRows = 3000;
  Draws draws(seed);
  Texts texts{"synthetic-text", {}};
  while (texts.rows.size() < kRows) add_reviews(draws, texts.rows);
  return texts;
}

}  // namespace moxie
