#pragma once
// The short form of a dump: the formula, and for every kernel how long it takes and what it moves.
#include <string>

#include "runtime/dump/dump.h"

namespace moxie {

/// A few lines for a terminal. Times are measured ones where the dump has them, else estimates that schedules were
/// chosen by, else rooflines.
std::string summary_text(const Dump& dump);

/// 7100000 as "7.1 M", 0 as "0".
std::string count_text(double count);
/// 13107.2 as "12.8 KiB".
std::string bytes_text(double bytes);
/// 5e-9 as "5 ns".
std::string time_text(double seconds);

}  // namespace moxie
