// libnvrtc.so.13 in front of the real one, whose file the build names: it compiles to PTX where machine code is asked
// for, and hands that out as the machine code.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Result = int;
using Program = void*;

void* library() {
  static void* const loaded = dlopen(MOXIE_NVRTC_FILE, RTLD_NOW | RTLD_LOCAL);
  if (loaded != nullptr) return loaded;
  std::fprintf(stderr, "PTX emulator: %s\n", dlerror());
  std::abort();
}

/// The real function of this name.
template <class R, class... A>
R forward(const char* name, A... arguments) {
  return reinterpret_cast<R (*)(A...)>(dlsym(library(), name))(arguments...);
}

}  // namespace

extern "C" {

Result nvrtcVersion(int* major, int* minor) { return forward<Result>(__func__, major, minor); }
Result nvrtcGetNumSupportedArchs(int* count) { return forward<Result>(__func__, count); }
Result nvrtcGetSupportedArchs(int* list) { return forward<Result>(__func__, list); }
const char* nvrtcGetErrorString(Result error) { return forward<const char*>(__func__, error); }
Result nvrtcCreateProgram(Program* program, const char* text, const char* name, int headers, const char* const* texts,
                          const char* const* names) {
  return forward<Result>(__func__, program, text, name, headers, texts, names);
}
Result nvrtcDestroyProgram(Program* program) { return forward<Result>(__func__, program); }

/// Without the assembler, which takes half of the time: its options are passed over.
Result nvrtcCompileProgram(Program program, int count, const char* const* options) {
  std::vector<std::string> changed;
  for (int k = 0; k < count; ++k) {
    std::string option = options[k];
    if (const std::size_t sm = option.find("=sm_"); sm != std::string::npos) option.replace(sm, 4, "=compute_");
    changed.push_back(std::move(option));
  }
  std::vector<const char*> pointers;
  for (const std::string& option : changed) pointers.push_back(option.c_str());
  return forward<Result>(__func__, program, static_cast<int>(pointers.size()),
                         static_cast<const char* const*>(pointers.data()));
}

Result nvrtcGetProgramLogSize(Program program, std::size_t* bytes) { return forward<Result>(__func__, program, bytes); }
Result nvrtcGetProgramLog(Program program, char* text) { return forward<Result>(__func__, program, text); }
Result nvrtcGetPTXSize(Program program, std::size_t* bytes) { return forward<Result>(__func__, program, bytes); }
Result nvrtcGetPTX(Program program, char* text) { return forward<Result>(__func__, program, text); }
Result nvrtcGetCUBINSize(Program program, std::size_t* bytes) { return nvrtcGetPTXSize(program, bytes); }
Result nvrtcGetCUBIN(Program program, char* text) { return nvrtcGetPTX(program, text); }

}  // extern "C"
