// The LLVM plugin: text of a module in, object code out. Linked with LLVM's shared library and with nothing of moxie.
#include "runtime/cpu/llvm_plugin.h"

#include <dlfcn.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace {

/// Calls a function of LLVM's C interface when the pointer that it belongs to is dropped.
template <auto Dispose>
struct Disposer {
  template <class T>
  void operator()(T* pointer) const {
    Dispose(pointer);
  }
};
template <class Ref, auto Dispose>
using Owner = std::unique_ptr<std::remove_pointer_t<Ref>, Disposer<Dispose>>;

using Context = Owner<LLVMContextRef, LLVMContextDispose>;
using Module = Owner<LLVMModuleRef, LLVMDisposeModule>;
using Machine = Owner<LLVMTargetMachineRef, LLVMDisposeTargetMachine>;
using Buffer = Owner<LLVMMemoryBufferRef, LLVMDisposeMemoryBuffer>;
using PassOptions = Owner<LLVMPassBuilderOptionsRef, LLVMDisposePassBuilderOptions>;
using Message = Owner<char*, LLVMDisposeMessage>;

/// A compilation that failed; never leaves the plugin.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr std::array<const char*, 4> kPipelines{"default<O0>", MOXIE_LLVM_PIPELINE, "default<O2>", "default<O3>"};
constexpr std::array<LLVMCodeGenOptLevel, 4> kLevels{LLVMCodeGenLevelNone, LLVMCodeGenLevelDefault,
                                                     LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};

std::size_t level_index(int opt) { return static_cast<std::size_t>(std::clamp(opt, 0, 3)); }

void initialise() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();  // AOT libraries ask the processor in its own language
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

/// Makes fatal errors exceptions while a compilation runs: LLVM ends the process after one unless its handler leaves by
/// other means. Only as long, since the host program may use the same library, and its errors are its own.
class FatalErrorsAsExceptions {
 public:
  FatalErrorsAsExceptions() {
    const std::scoped_lock lock(mutex);
    if (users++ == 0) LLVMInstallFatalErrorHandler([](const char* reason) { throw Failure(reason); });
  }
  ~FatalErrorsAsExceptions() {
    const std::scoped_lock lock(mutex);
    if (--users == 0) LLVMResetFatalErrorHandler();
  }
  FatalErrorsAsExceptions(const FatalErrorsAsExceptions&) = delete;
  FatalErrorsAsExceptions& operator=(const FatalErrorsAsExceptions&) = delete;

 private:
  static inline std::mutex mutex;
  static inline int users = 0;
};

/// Keeps the first error of a context; without a handler LLVM writes to stderr and ends the process.
void record_diagnostic(LLVMDiagnosticInfoRef info, void* first_error) {
  auto& text = *static_cast<std::string*>(first_error);
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || !text.empty()) return;
  text = Message(LLVMGetDiagInfoDescription(info)).get();
}

Module parse(LLVMContextRef context, const char* ir) {
  LLVMModuleRef module = nullptr;
  char* message = nullptr;
  LLVMMemoryBufferRef text = LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, std::strlen(ir), "kernel");
  // Parsing takes the buffer over.
  const bool failed = LLVMParseIRInContext(context, text, &module, &message);
  const Message owned_message(message);
  if (failed) throw Failure(message);
  Module result(module);
  char* complaint = nullptr;
  const bool invalid = LLVMVerifyModule(module, LLVMReturnStatusAction, &complaint);
  const Message owned_complaint(complaint);
  if (invalid) throw Failure(complaint);
  return result;
}

Machine make_machine(const char* triple, const char* cpu, const char* features, int opt) {
  LLVMTargetRef target = nullptr;
  char* message = nullptr;
  const bool failed = LLVMGetTargetFromTriple(triple, &target, &message);
  const Message owned_message(message);
  if (failed) throw Failure(message);
  LLVMTargetMachineRef machine = LLVMCreateTargetMachine(target, triple, cpu, features, kLevels[level_index(opt)],
                                                         LLVMRelocPIC, LLVMCodeModelSmall);
  if (machine == nullptr) throw Failure(std::string("no code generator for ") + triple);
  return Machine(machine);
}

void optimise(LLVMModuleRef module, LLVMTargetMachineRef machine, int opt) {
  const PassOptions options(LLVMCreatePassBuilderOptions());
  if (LLVMErrorRef error = LLVMRunPasses(module, kPipelines[level_index(opt)], machine, options.get())) {
    const std::unique_ptr<char, Disposer<LLVMDisposeErrorMessage>> message(LLVMGetErrorMessage(error));
    throw Failure(message.get());
  }
}

std::string emit(LLVMModuleRef module, LLVMTargetMachineRef machine, int want) {
  if (want == moxie_llvm_optimised_ir) return Message(LLVMPrintModuleToString(module)).get();
  const LLVMCodeGenFileType type = want == moxie_llvm_assembly ? LLVMAssemblyFile : LLVMObjectFile;
  LLVMMemoryBufferRef emitted = nullptr;
  char* message = nullptr;
  const bool failed = LLVMTargetMachineEmitToMemoryBuffer(machine, module, type, &message, &emitted);
  const Message owned_message(message);
  if (failed) throw Failure(message);
  const Buffer buffer(emitted);
  return {LLVMGetBufferStart(emitted), LLVMGetBufferSize(emitted)};
}

std::string compile(const char* ir, const char* triple, const char* cpu, const char* features, int opt, int want) {
  initialise();
  const FatalErrorsAsExceptions handler;
  const Context context(LLVMContextCreate());
  std::string first_error;
  LLVMContextSetDiagnosticHandler(context.get(), record_diagnostic, &first_error);
  const Module module = parse(context.get(), ir);
  const Machine machine = make_machine(triple, cpu, features, opt);
  const std::unique_ptr<std::remove_pointer_t<LLVMTargetDataRef>, Disposer<LLVMDisposeTargetData>> layout(
      LLVMCreateTargetDataLayout(machine.get()));
  LLVMSetModuleDataLayout(module.get(), layout.get());
  optimise(module.get(), machine.get(), opt);
  std::string output = emit(module.get(), machine.get(), want);
  if (!first_error.empty()) throw Failure(first_error);
  return output;
}

void* copy(const char* data, std::size_t size) {
  void* result = std::malloc(std::max<std::size_t>(size, 1));
  if (result != nullptr) std::memcpy(result, data, size);
  return result;
}

}  // namespace

#define MOXIE_EXPORT extern "C" __attribute__((visibility("default")))

MOXIE_EXPORT moxie_llvm_compile_fn moxie_llvm_compile;
MOXIE_EXPORT moxie_llvm_free_fn moxie_llvm_free;
MOXIE_EXPORT moxie_llvm_version_fn moxie_llvm_version;
MOXIE_EXPORT moxie_llvm_library_fn moxie_llvm_library;
MOXIE_EXPORT moxie_llvm_abi_fn moxie_llvm_abi;

int moxie_llvm_compile(const char* ir, const char* triple, const char* cpu, const char* features, int opt, int want,
                       void** data, size_t* size, char** message) {
  *data = nullptr, *size = 0, *message = nullptr;
  try {
    const std::string output = compile(ir, triple, cpu, features, opt, want);
    *data = copy(output.data(), output.size());
    *size = output.size();
    return *data == nullptr ? 1 : 0;
  } catch (const std::exception& error) {
    *message = static_cast<char*>(copy(error.what(), std::strlen(error.what()) + 1));
    return 1;
  }
}

void moxie_llvm_free(void* data) { std::free(data); }

const char* moxie_llvm_version() {
  static const std::string text = [] {
    unsigned major = 0, minor = 0, patch = 0;
    LLVMGetVersion(&major, &minor, &patch);
    return "LLVM " + std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  }();
  return text.c_str();
}

const char* moxie_llvm_library() {
  Dl_info found;
  return dladdr(reinterpret_cast<void*>(&LLVMGetVersion), &found) != 0 ? found.dli_fname : "";
}

const char* moxie_llvm_abi() { return MOXIE_LLVM_ABI; }
