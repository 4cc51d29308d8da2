// A table, and the encoding of its columns; the first byte chooses how the text is read.
#include <cmath>
#include <numeric>

#include "data/encoding.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace moxie;

void encode(const Table& table, Task task, Scaling scaling) {
  const std::size_t target = table.columns.size() - 1;
  Roles roles{task, std::vector<std::size_t>(target), {target}, scaling};
  std::iota(roles.features.begin(), roles.features.end(), std::size_t{0});
  std::vector<std::size_t> rows(table.rows());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const Encoding encoding = fit_encoding(table, roles, rows);
  fuzz::require(encoding.feature_names().size() == encoding.feature_count());
  const Matrix x = encode_features(table, encoding), y = encode_targets(table, encoding);
  for (const float value : x.values) fuzz::require(std::isfinite(value));
  for (const float value : y.values) fuzz::require(std::isfinite(value));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  TableOptions options;
  options.separator = static_cast<Separator>(data[0] & 3);
  if (data[0] & 4) options.header = (data[0] & 8) != 0;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  fuzz::allow_errors([&] {
    const Table table = parse_table(text, "fuzz", options);
    fuzz::allow_errors([&] { encode(table, Task::Regression, Scaling::Standardise); });
    fuzz::allow_errors([&] { encode(table, Task::Classification, Scaling::UnitRange); });
    fuzz::require(concatenate(table, table).rows() == 2 * table.rows());
  });
  return 0;
}
