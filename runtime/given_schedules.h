#pragma once
// Schedules that a user gave: MOXIE_SCHEDULE and DeviceOptions::schedule, taken apart.
#include <string>
#include <string_view>

#include "compiler/codegen/cuda/cuda_preference.h"
#include "compiler/schedule/choose.h"

namespace moxie {

struct GivenByUser {
  GivenSchedules nests;  // on a CPU
  CudaPreferences gpu;
};

/// Parts between semicolons: `NAME: lanes(n) parallel(s)`, whose steps have brackets, is the schedule of a definition
/// on a CPU; all other parts are for GPUs, see parse_cuda_preferences(). `@FILE` stands for the text of a file, where
/// the end of a line ends a part too and # begins a comment. Throws ParseError that names the definition and the step
/// that is wrong, TypeError for a part of a GPU, DataError for a file that cannot be read.
GivenByUser parse_given_schedules(std::string_view text);
/// What DeviceOptions::schedule says or, where that is empty, MOXIE_SCHEDULE.
GivenByUser given_schedules(const std::string& option);

}  // namespace moxie
