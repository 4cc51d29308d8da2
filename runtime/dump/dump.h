#pragma once
// Dump: what the compiler makes of a Program, stage by stage, as plain values: texts with line tables, and figures of
// every kernel.
#include <optional>
#include <string>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/support/line_table.h"
#include "runtime/dump/figures.h"
#include "runtime/dump/stages.h"
#include "runtime/plan.h"
#include "runtime/program_options.h"

namespace moxie {

/// What is dumped.
struct Compilation {
  Program source;                         // as written
  Program task;                           // with gradients where they were asked for; specialised
  std::optional<Plan> cpu;                // what the device `cpu` runs for these dims, where it is to be shown
  std::optional<Plan> gpu;                // what GPUs run, where it is to be shown
  DimValues dims;                         // dynamic dims may be missing
  std::vector<std::string> assumed = {};  // static dims of `task` whose values nobody gave
};

/// One text of a stage.
struct StageText {
  std::string stage;  // "rewrite"
  std::string title;  // "rewrite.04_inline": unique in its program or kernel; the stage's name where it has one text
  std::string extension;      // of a file that holds the text
  std::string preamble = {};  // goes before the text in a file; the same in all kernels, and not counted in lines
  std::string text = {};
  std::string missing = {};  // why there is no text
  std::string origin = {};   // the title of the text that `lines` are of
  LineTable lines = {};
  std::string diff = {};  // to the text before it in the same stage
  std::string file = {};  // a name that the text must have as a file
  bool operator==(const StageText&) const = default;
};

struct KernelDump {
  std::string name;
  std::vector<StageText> stages;
  KernelFigures figures;
  bool operator==(const KernelDump&) const = default;
};

struct Dump {
  std::string name;
  DimValues dims;
  std::vector<std::string> assumed;  // dims whose values nobody gave
  std::string gpu;                   // the model that figures are for
  bool gpu_is_assumed = true;        // by its data sheet
  std::vector<StageText> program;
  std::vector<KernelDump> kernels;
  bool operator==(const Dump&) const = default;
};

struct DumpOptions {
  std::string kernels = {};  // a regular expression that is found in the names of kernels to show; empty: all
  std::vector<std::string> stages = {};  // those to show; empty: all
  GpuModel gpu = gpu_model("H200");
  bool gpu_is_assumed = true;        // no driver was asked for its limits
  std::string no_gpu_code = {};      // why kernels are not compiled for the GPU; empty: they are
  std::string schedule = {};         // as in DeviceOptions
  std::string cache_directory = {};  // as in DeviceOptions
  ProgramOptions programs = {};      // as in DeviceOptions
};

/// A value for every static dim that neither the Program nor `dims` gives one; `assumed` gets their names.
DimValues with_assumed_dims(const Program& program, DimValues dims, std::vector<std::string>& assumed);
/// The plans for these devices, those of Sessions on them.
Compilation compile_for(const DumpedDevices& devices, Program source, Program task, DimValues dims,
                        const DumpOptions& options);
Dump make_dump(const Compilation& compilation, const DumpOptions& options = {});

bool is_wanted(const DumpOptions& options, std::string_view stage);
/// Whether the regular expression is found in the name. Throws TypeError for one that is none.
bool matches(const std::string& name, const std::string& filter);
const StageText* find_stage(const std::vector<StageText>& stages, std::string_view title);

}  // namespace moxie
