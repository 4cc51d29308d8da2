#pragma once
// What `moxie dump` can look at: a formula, a training run, an entry of the kernel cache, or a dump that was written
// before.
#include "runtime/dump/dump.h"
#include "tools/commands/common.h"

namespace moxie {

struct DumpSource {
  ProgramChoice program;
  DerivativeChoice derivatives;
  std::string device;  // whose kernels to show; empty: those of the stages that are asked for
};
void add_dump_source_options(OptionParser& parser, DumpSource& source);

/// What is there to dump.
struct DumpInput {
  std::optional<Compilation> compilation;  // of what can run
  Dump dump;
};
/// Whether the source is compiled to be dumped: a formula or a run, not a dump or an entry of the kernel cache.
bool is_compiled(const DumpSource& source);
DumpInput load_dump_input(const DumpSource& source, const DumpOptions& options);

}  // namespace moxie
