#include "data/texts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "data/presets.h"
#include "data/synthetic.h"
#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;
using moxie::test::DataFolder;

namespace {

using Words = std::vector<std::string>;

std::string parse_error(std::string_view bytes) {
  return data_error([&] { parse_texts(bytes, "t.txt"); });
}

std::vector<std::size_t> all_rows(const Texts& texts) {
  std::vector<std::size_t> rows(texts.rows.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

/// Rows of two words that occur often, one that occurs once, and a label.
std::string ten_rows() {
  std::string text;
  for (int k = 0; k < 10; ++k) text += fmt::format("{}\tgood day once{}\n", k % 2 ? "odd" : "even", k);
  return text;
}

}  // namespace

TEST_CASE("lines are labels, tabs and texts") {
  const Texts texts = parse_texts("\xef\xbb\xbfgood\tA fine day.\r\n\n bad \t no\tway \nlast\tend", "t.txt");
  CHECK(texts.rows == std::vector<LabelledText>{{"good", "A fine day.", 1}, {"bad", "no\tway", 3}, {"last", "end", 4}});
  CHECK(parse_texts("a b\nc", "t.txt", false).rows == std::vector<LabelledText>{{"", "a b", 1}, {"", "c", 2}});
}

TEST_CASE("words are runs of letters, and other visible characters") {
  CHECK(words_of("It's NOT bad, 2x!") == Words{"it's", "not", "bad", ",", "2x", "!"});
  CHECK(words_of("Über  größe\t<unknown>") == Words{"Über", "größe", "<", "unknown", ">"});
  CHECK(words_of(" \x01\x7f ").empty());
}

TEST_CASE("malformed texts are refused with their place") {
  CHECK(parse_error("") == "t.txt: holds no texts");
  CHECK(parse_error(" \n\r\n") == "t.txt: holds no texts");
  CHECK(parse_error("a\tb\nno tab here\n") ==
        "t.txt:2: 'no tab here' has no tab; a label, a tab and the text are wanted");
  CHECK(parse_error("\ttext") == "t.txt:1: there is no label before the tab");
  CHECK(parse_error("label\t \n") == "t.txt:1: the text has no words");
}

TEST_CASE("what is not UTF-8 is refused, and all that is UTF-8 taken") {
  CHECK(parse_error("a\tb\nc\tx\xe9y\n") == "t.txt:2: byte 4 of the line (0xe9) is not UTF-8; convert the file to it");
  // A lone continuation, a long form of '/', a surrogate, beyond the last character, and two that are cut off.
  for (const char* wrong : {"\x80", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\xff"}) {
    CAPTURE(wrong);
    CHECK(parse_error(std::string("a\tb") + wrong).find("byte 4 of the line") != std::string::npos);
  }
  for (const char* right : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    CAPTURE(right);
    CHECK(parse_error(std::string("a\tb") + right).empty());
  }
}

TEST_CASE("the vocabulary is bounded, and what is not in it is one word") {
  const Texts texts = parse_texts("x\tb b a a c c c\ny\ta once\n", "t.txt");
  const auto vocabulary = [&](std::size_t most) {
    return fit_text_encoding(texts, {most, 64}, all_rows(texts)).vocabulary;
  };
  CHECK(vocabulary(9) == Words{"<unknown>", "a", "c", "b"});
  CHECK(vocabulary(3) == Words{"<unknown>", "a", "c"});
  const std::vector<std::size_t> second = {1};
  CHECK(fit_text_encoding(texts, {}, second).vocabulary == Words{"<unknown>"});
}

TEST_CASE("texts are numbers of words, cut off or padded to one length") {
  const Texts texts = parse_texts("x\ta b a b\ny\tb new\n", "t.txt");
  const Encoding whole = fit_text_encoding(texts, {}, all_rows(texts));
  CHECK(whole.feature_names() == Words{"word 1", "word 2", "word 3", "word 4"});
  CHECK(whole.classes == Words{"x", "y"});
  CHECK(encode_texts(texts, whole).values == std::vector<float>{3, 2, 3, 2, 2, 1, 0, 0});
  CHECK(encode_labels(texts, whole).values == std::vector<float>{1, 0, 0, 1});
  const Encoding cut = fit_text_encoding(texts, {2000, 3}, all_rows(texts));
  CHECK(encode_texts(texts, cut).values == std::vector<float>{3, 2, 3, 2, 1, 0});
  CHECK(encoding_from_json(to_json(cut), "") == cut);
}

TEST_CASE("labels and bounds that make no sense") {
  const Texts one = parse_texts("same\ta\nsame\tb\n", "t.txt"), two = parse_texts("a\tx\nb\ty\n", "u.txt");
  CHECK(data_error([&] { fit_text_encoding(one, {}, all_rows(one)); }) ==
        "t.txt: the 2 texts have 1 different labels, such as 'same'; classes must be 2 to 1000");
  CHECK(data_error([&] { fit_text_encoding(two, {1, 64}, all_rows(two)); }) ==
        "the vocabulary of texts is 1 words, but must be at least 2: one, and all others");
  CHECK(data_error([&] { fit_text_encoding(two, {2000, 0}, all_rows(two)); }) ==
        "the length of texts is 0 words, but must be positive");
  const Encoding encoding = fit_text_encoding(two, {}, all_rows(two));
  CHECK(data_error([&] { encode_labels(parse_texts("a\tx\n\nz\tx\n", "v.txt"), encoding); }) ==
        "v.txt:3: the label 'z' is not one of the 2 that the model knows");
}

TEST_CASE("text files: parts, options, and new texts with and without labels") {
  const DataFolder folder;
  const std::string name = "text:" + folder.write("t.txt", ten_rows()).string();
  LoadOptions options;
  const Dataset set = load_dataset(name, options);
  CHECK(set.train.rows() + set.validation.rows() + set.test.rows() == 10);
  CHECK(set.encoding.vocabulary == Words{"<unknown>", "day", "good"});
  options.test_file = folder.write("u.txt", "odd\tday\neven\tgood\n");
  CHECK(load_dataset(name, options).test.x.values == std::vector<float>{2, 0, 0, 3, 0, 0});

  options = {};
  options.encoding = &set.encoding;
  const auto predict = [&](const char* text) {
    return load_for_prediction("text:" + folder.write("p.txt", text).string(), options);
  };
  CHECK(predict("odd\tgood day\n").y.values == std::vector<float>{0, 1});
  CHECK(predict("good day\nbad day\n").x.values == std::vector<float>{3, 2, 0, 1, 2, 0});
  CHECK(predict("good day\n").y.columns == 0);
  CHECK(data_error([&] { predict("odd\tday\nday\n"); }).find("p.txt:2: 'day' has no tab") != std::string::npos);
  const Encoding spirals = load_dataset("synthetic").encoding;
  options.encoding = &spirals;
  CHECK(data_error([&] { predict("a\tb\n"); }).find("the model was not trained on texts") != std::string::npos);

  options = {};
  options.targets = {"1"};
  CHECK(data_error([&] {
          load_dataset(name, options);
        }).find("columns are for csv:FILE, npz:FILE and safetensors:FILE only") != std::string::npos);
  options = {};
  options.task = Task::Regression;
  CHECK(data_error([&] { load_dataset(name, options); }).find("labels are classes") != std::string::npos);
}

TEST_CASE("generated reviews: no count of words tells their classes apart") {
  const Texts texts = synthetic_reviews(0);
  REQUIRE(texts.rows.size() == 3000);
  CHECK(texts.rows == synthetic_reviews(0).rows);
  CHECK(texts.rows != synthetic_reviews(1).rows);
  std::map<Words, std::map<std::string, int>> labels_of_bag;
  for (const LabelledText& row : texts.rows) {
    Words bag = words_of(row.text);
    std::ranges::sort(bag);
    ++labels_of_bag[bag][row.label];
  }
  for (const auto& [bag, labels] : labels_of_bag) {
    std::set<int> counts;
    for (const auto& [label, count] : labels) counts.insert(count);
    REQUIRE(labels.size() == 3);
    REQUIRE(counts.size() == 1);  // as many rows of each class: whatever is said of the bag is right for a third
  }
  CHECK(labels_of_bag.size() > 900);
}
