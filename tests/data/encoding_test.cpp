#include "data/encoding.h"

#include <doctest/doctest.h>

#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;

namespace {

Table table_of(std::string_view text) { return parse_table(text, "t.csv"); }
const std::vector<std::size_t> kFirstTwo{0, 1};

Encoding classification(const Table& table, Scaling scaling = Scaling::UnitRange) {
  return fit_encoding(table, {Task::Classification, {0, 1}, {2}, scaling}, kFirstTwo);
}
Encoding regression(const Table& table, std::vector<std::size_t> targets = {1}) {
  return fit_encoding(table, {Task::Regression, {0}, std::move(targets), Scaling::Standardise}, kFirstTwo);
}

constexpr std::string_view kPeople = "age,sex,income\n20,m,low\n40,f,high\n50,?,low\n";

}  // namespace

TEST_CASE("features: training range to [0, 1], categories one-hot, missing a category") {
  const Table table = table_of(kPeople);
  const Encoding encoding = classification(table);
  CHECK(encoding.feature_names() == std::vector<std::string>{"age", "sex=?", "sex=f", "sex=m"});
  CHECK(encoding.classes == std::vector<std::string>{"high", "low"});
  CHECK(encode_features(table, encoding).values == std::vector<float>{0, 0, 0, 1, 1, 0, 1, 0, 1.5F, 1, 0, 0});
  CHECK(encode_targets(table, encoding).values == std::vector<float>{0, 1, 1, 0, 0, 1});
}

TEST_CASE("classes that are numbers stand in the order of their values, before words") {
  TableOptions options;
  options.categorical = {"2"};
  const Table table = parse_table("1,10\n2,9\n3,-1.5\n4,two\n5,10\n6,1e3\n", "t.csv", options);
  CHECK(table.columns[1].categories == std::vector<std::string>{"-1.5", "9", "10", "1e3", "two"});
  CHECK(table.columns[1].codes == std::vector<std::uint32_t>{2, 1, 0, 4, 2, 3});
}

TEST_CASE("a missing number sets a flag, if the column had one") {
  const Table table = table_of("?,1,a\n4,2,b\n6,3,a\n");
  const Encoding encoding = classification(table);
  CHECK(encoding.feature_names() == std::vector<std::string>{"column 1", "column 1=?", "column 2"});
  CHECK(encode_features(table, encoding).values == std::vector<float>{0, 1, 0, 0, 0, 1, 0, 0, 2});
  const Encoding whole = classification(table_of("1,1,a\n2,2,b\n"));
  CHECK(data_error([&] { encode_features(table, whole); }) ==
        "t.csv:1: column 1: the value is missing, and the training rows had all; --unexpected unknown or skip goes on");
}

TEST_CASE("unscaled columns stay as they are") {
  const Table table = table_of("1 10\n? 30\n5 50\n");
  const Encoding encoding =
      fit_encoding(table, {.task = Task::Regression, .features = {0}, .targets = {1}, .unscaled = {0, 1}}, kFirstTwo);
  CHECK(encode_features(table, encoding).values == std::vector<float>{1, 0, 0, 1, 5, 0});
  CHECK(encoding.targets == std::vector<TargetEncoding>{{"column 2", 0, 1}});
  CHECK(encode_targets(table, encoding).values == std::vector<float>{10, 30, 50});
}

TEST_CASE("standardised features and targets; constant columns become zero") {
  const Table table = table_of("1 10\n3 30\n5 50\n");
  const Encoding encoding = regression(table);
  CHECK(encode_features(table, encoding).values == std::vector<float>{-1, 1, 3});
  CHECK(encoding.targets == std::vector<TargetEncoding>{{"column 2", 20, 10}});
  CHECK(encode_targets(table, encoding).values == std::vector<float>{-1, 1, 3});
  const Table constant = table_of("0.1 7\n0.1 7\n9 8\n");
  CHECK(encode_features(constant, regression(constant)).values == std::vector<float>{0, 0, 0});
  CHECK(encode_targets(constant, regression(constant)).values == std::vector<float>{0, 0, 1});
  const Encoding unit = classification(table_of("3,1,a\n3,2,b\n4,3,a\n"));
  CHECK(encode_features(table_of("3,1,a\n3,2,b\n4,3,a\n"), unit).values == std::vector<float>{0, 0, 0, 1, 0, 2});
}

TEST_CASE("several regression targets") {
  const Table table = table_of("1 10 2\n3 30 4\n");
  CHECK(encode_targets(table, regression(table, {1, 2})).values == std::vector<float>{-1, -1, 1, 1});
}

TEST_CASE("an encoding meets only what it knows") {
  const Encoding encoding = classification(table_of(kPeople));
  const auto error = [&](std::string_view text) {
    return data_error([&] { encode_features(table_of(text), encoding); });
  };
  CHECK(
      error("age,sex\n1,x\n") ==
      "t.csv:2: column 2 'sex': 'x' is not one of the known values '?' 'f' 'm'; --unexpected unknown or skip goes on");
  CHECK(error("age,s\n1,m\n") == "t.csv: has no column 'sex', which the model needs");
  CHECK(error("age,sex\n1,2\n") == "t.csv: column 2 'sex' holds numbers, but words are wanted");
  CHECK(encode_features(table_of("sex,age,more\nm,30,1\n"), encoding).values == std::vector<float>{0.5F, 0, 0, 1});
  const Encoding narrow = classification(table_of("0,1,a\n1e-300,2,b\n1,1,a\n"));
  CHECK(data_error([&] { encode_features(table_of("0,1,a\n1,2,b\n"), narrow); }) ==
        "t.csv:2: column 1: 1 is too far from the training values to be scaled");
}

TEST_CASE("columns that cannot play their role") {
  CHECK(data_error([] { classification(table_of("1,2,3\n4,5,6\n")); }) ==
        "t.csv: target column 3 'column 3' holds numbers; for classes declare it categorical");
  CHECK(data_error([] { classification(table_of("1,2,a\n4,5,a\n")); }) ==
        "t.csv: target column 3 'column 3' has 1 different values; classes must be 2 to 1000");
  CHECK(data_error([] { classification(table_of("1,2,a\n4,5,?\n")); }) ==
        "t.csv:2: column 3: the class is missing; --missing-target skip leaves such rows out");
  CHECK(data_error([] { regression(table_of("1 a\n2 b\n")); }) ==
        "t.csv: target column 2 'column 2' holds words ('a'); regression needs numbers");
  std::string names = "1,n0,a\n";
  for (int i = 1; i <= 1000; ++i) names += "1,n" + std::to_string(i) + ",b\n";
  CHECK(data_error([&] { classification(table_of(names)); }) ==
        "t.csv: column 2 'column 2' has 1001 different values, more than 1000: leave it out, or make it numbers");
  const auto fit = [](const Roles& roles) {
    return data_error([&] { fit_encoding(table_of("1,a\n2,b\n"), roles, kFirstTwo); });
  };
  CHECK(fit({Task::Classification, {}, {1}, Scaling::UnitRange}) == "t.csv: has no column left for features");
  CHECK(fit({Task::Classification, {0}, {0, 1}, Scaling::UnitRange}) ==
        "t.csv: classification needs one target column, not 2");
}

TEST_CASE("json round trip") {
  const Encoding people = classification(table_of(kPeople)), values = regression(table_of("1 10\n3 31\n"));
  CHECK(encoding_from_json(to_json(people), "c.json") == people);
  CHECK(encoding_from_json(to_json(values), "c.json") == values);
  std::string earlier = to_json(values);
  const std::size_t texts = earlier.find("\"vocabulary\": []");
  REQUIRE(texts != earlier.npos);
  earlier.replace(earlier.rfind(',', texts), earlier.find(']', texts) + 1 - earlier.rfind(',', texts), "");
  CHECK(encoding_from_json(earlier, "c.json") == values);
  for (const char* text : {"", "{}", "[1]", R"({"task": 3})"})
    CHECK(data_error([&] { encoding_from_json(text, "c.json"); }).find("c.json: is not an encoding of features: ") ==
          0);
}
