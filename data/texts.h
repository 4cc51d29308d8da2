#pragma once
// Labelled texts, and their words as numbers.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/encoding.h"

namespace moxie {

struct TextOptions {
  std::size_t vocabulary = 2000;  // most different words, with kUnknownWord
  std::size_t length = 200;       // most words of a text; what is behind them is left out
};

struct LabelledText {
  std::string label, text;
  std::size_t line = 0;  // from 1
  bool operator==(const LabelledText&) const = default;
};

struct Texts {
  std::string file;
  std::vector<LabelledText> rows;

  /// "file:line", the place of a row in messages.
  std::string place(std::size_t row) const;
};

/// The first word of every vocabulary: all that are not in it. No text has it, since `<` is a word of its own.
inline constexpr std::string_view kUnknownWord = "<unknown>";

/// One text a line, in UTF-8: the label, a tab, and the text; or, where `labelled` is false, the text alone. Empty
/// lines are skipped. Throws DataError, naming file and line.
Texts parse_texts(std::string_view bytes, const std::string& file, bool labelled = true);

/// Runs of letters, digits and apostrophes; every other visible character is a word of its own. Capitals A to Z become
/// small; all characters beyond ASCII are taken for letters and stay what they are.
std::vector<std::string> words_of(std::string_view text);

/// Classes come from all rows; the vocabulary holds the words that training rows have most often, and more than once,
/// so that there are unknown ones to learn from. The length is that of the longest training row, up to that of the
/// options. Throws DataError.
Encoding fit_text_encoding(const Texts& texts, const TextOptions& options, std::span<const std::size_t> training_rows);

/// The numbers of the words in the encoding's vocabulary, from 1, and 0 behind the last. Throws DataError.
Matrix encode_texts(const Texts& texts, const Encoding& encoding);
Matrix encode_labels(const Texts& texts, const Encoding& encoding);

}  // namespace moxie
