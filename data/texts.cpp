#include "data/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "compiler/support/error.h"
#include "data/table_fields.h"

namespace moxie {
namespace {

/// More would rather be texts than labels of texts.
constexpr std::size_t kMostClasses = 1000;
/// Of a matrix: 16 GiB of floats.
constexpr std::size_t kMostTextValues = std::size_t{1} << 32;
/// That of kUnknownWord.
constexpr float kUnknownNumber = 1;

/// How many bytes the character at `at` has; 0 if it is none of UTF-8's.
std::size_t utf8_length(std::string_view text, std::size_t at) {
  struct Form {
    unsigned mask, lead;
    std::uint32_t least;  // a longer form than needed is none
  };
  static constexpr Form kForms[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[at + k]); };
  for (std::size_t length = 1; length <= std::size(kForms) && at + length <= text.size(); ++length) {
    const Form& form = kForms[length - 1];
    if ((byte(0) & form.mask) != form.lead) continue;
    std::uint32_t code = byte(0) & ~form.mask;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(k) & 0xc0) != 0x80) return 0;
      code = code << 6 | (byte(k) & 0x3f);
    }
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    return code >= form.least && code < 0x110000 && !surrogate ? length : 0;
  }
  return 0;
}

void require_utf8(std::string_view line, const std::string& place) {
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t length = utf8_length(line, at);
    if (length == 0)
      throw DataError(fmt::format("{}: byte {} of the line (0x{:02x}) is not UTF-8; convert the file to it", place,
                                  at + 1, static_cast<unsigned char>(line[at])));
    at += length;
  }
}

LabelledText parse_line(std::string_view line, std::size_t number, const std::string& place, bool labelled) {
  require_utf8(line, place);
  const std::size_t tab = labelled ? line.find('\t') : 0;
  if (tab == line.npos)
    throw DataError(fmt::format("{}: '{}' has no tab; a label, a tab and the text are wanted", place, excerpt(line)));
  LabelledText row{std::string(trim(line.substr(0, tab))), std::string(trim(line.substr(tab))), number};
  if (labelled && row.label.empty()) throw DataError(fmt::format("{}: there is no label before the tab", place));
  if (words_of(row.text).empty()) throw DataError(fmt::format("{}: the text has no words", place));
  return row;
}

bool is_letter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || c == '\'' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string lower(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::vector<std::string> fit_classes(const Texts& texts) {
  std::vector<std::string> classes;
  for (const LabelledText& row : texts.rows) classes.push_back(row.label);
  std::ranges::sort(classes);
  const auto repeated = std::ranges::unique(classes);
  classes.erase(repeated.begin(), repeated.end());
  if (classes.size() < 2 || classes.size() > kMostClasses)
    throw DataError(fmt::format("{}: the {} texts have {} different labels, such as '{}'; classes must be 2 to {}",
                                texts.file, texts.rows.size(), classes.size(), excerpt(classes.front()), kMostClasses));
  return classes;
}

/// The most frequent words first; of equally frequent ones, in the order of their bytes.
std::vector<std::string> fit_vocabulary(std::map<std::string, std::size_t> counts, std::size_t most) {
  std::erase_if(counts, [](const auto& word) { return word.second < 2; });
  std::vector<std::pair<std::string, std::size_t>> ranked(counts.begin(), counts.end());
  std::ranges::stable_sort(ranked, std::greater(), [](const auto& word) { return word.second; });
  ranked.resize(std::min(ranked.size(), most - 1));
  std::vector<std::string> vocabulary = {std::string(kUnknownWord)};
  for (const auto& [word, count] : ranked) vocabulary.push_back(word);
  return vocabulary;
}

void check(const TextOptions& options) {
  if (options.vocabulary < 2)
    throw DataError(fmt::format("the vocabulary of texts is {} words, but must be at least 2: one, and all others",
                                options.vocabulary));
  if (options.length < 1) throw DataError("the length of texts is 0 words, but must be positive");
}

}  // namespace

std::string Texts::place(std::size_t row) const { return fmt::format("{}:{}", file, rows[row].line); }

Texts parse_texts(std::string_view bytes, const std::string& file, bool labelled) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  Texts texts{file, {}};
  for (std::size_t number = 1; !bytes.empty(); ++number) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    const std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (!trim(line).empty())
      texts.rows.push_back(parse_line(line, number, fmt::format("{}:{}", file, number), labelled));
  }
  if (texts.rows.empty()) throw DataError(fmt::format("{}: holds no texts", file));
  return texts;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_letter(text[end])) ++end;
    end = std::max(end, at + 1);
    const bool visible = static_cast<unsigned char>(text[at]) > ' ' && text[at] != '\x7f';
    if (visible) words.push_back(lower(text.substr(at, end - at)));
    at = end;
  }
  return words;
}

Encoding fit_text_encoding(const Texts& texts, const TextOptions& options, std::span<const std::size_t> training_rows) {
  check(options);
  std::map<std::string, std::size_t> counts;
  std::size_t longest = 0;
  for (const std::size_t row : training_rows) {
    const std::vector<std::string> words = words_of(texts.rows[row].text);
    longest = std::max(longest, words.size());
    for (const std::string& word : words) ++counts[word];
  }
  Encoding encoding;
  encoding.class_column = "label";
  encoding.classes = fit_classes(texts);
  encoding.vocabulary = fit_vocabulary(std::move(counts), options.vocabulary);
  for (std::size_t t = 0; t < std::min(longest, options.length); ++t)
    encoding.features.push_back({fmt::format("word {}", t + 1), ColumnKind::Numeric, {}, false, {}});
  return encoding;
}

Matrix encode_texts(const Texts& texts, const Encoding& encoding) {
  std::unordered_map<std::string_view, float> numbers;
  for (const std::string& word : encoding.vocabulary) numbers.emplace(word, static_cast<float>(numbers.size() + 1));
  const std::size_t length = encoding.feature_count();
  if (length > kMostTextValues / texts.rows.size())
    throw DataError(fmt::format("{}: {} texts of {} words are too many; choose a smaller --text-length", texts.file,
                                texts.rows.size(), length));
  Matrix out(texts.rows.size(), length);
  for (std::size_t row = 0; row < out.rows; ++row) {
    const std::vector<std::string> words = words_of(texts.rows[row].text);
    for (std::size_t t = 0; t < std::min(words.size(), length); ++t) {
      const auto found = numbers.find(words[t]);
      out(row, t) = found == numbers.end() ? kUnknownNumber : found->second;
    }
  }
  return out;
}

Matrix encode_labels(const Texts& texts, const Encoding& encoding) {
  Matrix out(texts.rows.size(), encoding.classes.size());
  for (std::size_t row = 0; row < out.rows; ++row) {
    const std::string& label = texts.rows[row].label;
    const auto found = std::ranges::find(encoding.classes, label);
    if (found == encoding.classes.end())
      throw DataError(fmt::format("{}: the label '{}' is not one of the {} that the model knows", texts.place(row),
                                  excerpt(label), encoding.classes.size()));
    out(row, static_cast<std::size_t>(found - encoding.classes.begin())) = 1;
  }
  return out;
}

}  // namespace moxie
