#pragma once
// CudaPreference: what is wanted of schedules instead of the cost model's choice: by a user (MOXIE_SCHEDULE), or by the
// tuner to be tried.
#include <map>
#include <string>
#include <string_view>

namespace moxie {

/// 0: as the cost model chooses. What a kernel cannot have is left out.
struct CudaPreference {
  int team = 0;     // threads that compute one element together: 1, a warp, or a block
  int threads = 0;  // of a block
  int width = 0;    // neighbouring elements that a thread loads and stores at once
  int blocks = 0;   // per multiprocessor, in launches whose threads take several elements each
  bool operator==(const CudaPreference&) const = default;
};

/// Preferences of a whole Program.
struct CudaPreferences {
  CudaPreference all;
  std::map<std::string, CudaPreference> of_kernels;  // instead of `all`
  const CudaPreference& of(const std::string& kernel) const {
    const auto own = of_kernels.find(kernel);
    return own == of_kernels.end() ? all : own->second;
  }
};

/// From words such as "team=32,threads=256". Throws TypeError that says which word is wrong, and what there is.
CudaPreference parse_cuda_preference(std::string_view text);
/// Parts between semicolons; that of one kernel begins with its name: "threads=128;k_y:team=32,blocks=4". Throws
/// TypeError.
CudaPreferences parse_cuda_preferences(std::string_view text);
/// What parse_cuda_preference() takes.
std::string print(const CudaPreference& preference);

}  // namespace moxie
