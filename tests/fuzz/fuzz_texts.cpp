// Labelled texts, and the numbers of their words.
#include <numeric>

#include "data/texts.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moxie;
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::allow_errors([&] { parse_texts(bytes, "fuzz", false); });
  fuzz::allow_errors([&] {
    const Texts texts = parse_texts(bytes, "fuzz");
    std::vector<std::size_t> rows(texts.rows.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    const Encoding encoding = fit_text_encoding(texts, {}, rows);
    const auto most = static_cast<float>(encoding.vocabulary.size());
    const Matrix x = encode_texts(texts, encoding);
    for (const float number : x.values) fuzz::require(number >= 0 && number <= most);
    const Matrix y = encode_labels(texts, encoding);
    fuzz::require(std::accumulate(y.values.begin(), y.values.end(), 0.0F) == static_cast<float>(rows.size()));
    fuzz::require(encoding_from_json(to_json(encoding), "fuzz") == encoding);
  });
  return 0;
}
