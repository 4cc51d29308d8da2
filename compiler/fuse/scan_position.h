#pragma once
// Where a scan is, and the arguments that tell the kernels of its steps.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moxie {

/// The argument that holds the step of a scan.
inline constexpr const char* kScanStep = "%t";

/// The step, and how many steps are still to be taken after it.
struct ScanPosition {
  std::int64_t step = 0;
  std::int64_t left = 0;
};
/// After `taken` of `steps` steps.
ScanPosition scan_position(std::int64_t taken, std::int64_t steps, bool is_backwards);

/// The step that was taken `lag` steps before, of a tensor that keeps the last `count` steps only (see fold_storage.h).
/// The last step of all lies at 0, the one before it at 1: a step at those left after it, modulo the count.
struct FoldedStep {
  std::int64_t lag = 0;
  std::int64_t count = 1;

  /// The argument that holds where it lies, "%folded_1_of_2".
  std::string argument() const;
  std::int64_t place(const ScanPosition& at) const {
    const std::int64_t step = at.left + lag;
    return (count & (count - 1)) == 0 ? step & (count - 1) : step % count;  // a division takes as long as a short step
  }
};
/// What argument() names; none for other arguments.
std::optional<FoldedStep> folded_step(std::string_view argument);

/// Whether the argument tells where the scan is.
bool is_scan_argument(std::string_view argument);
/// The value of such an argument; none for others.
std::optional<std::int64_t> scan_argument(std::string_view argument, const ScanPosition& at);

/// What an argument that tells where the scan is says at each step, without its name.
class ScanArgument {
 public:
  /// `argument` is one of a scan: see is_scan_argument().
  explicit ScanArgument(std::string_view argument) : folded_(folded_step(argument)) {}
  std::int64_t value(const ScanPosition& at) const { return folded_ ? folded_->place(at) : at.step; }

 private:
  std::optional<FoldedStep> folded_;  // none: the step itself
};

}  // namespace moxie
