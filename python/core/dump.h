#pragma once
// Dumps of a Program for Python: text of stages, or a page.
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie::python {

struct DumpRequest {
  std::vector<std::string> stages;  // empty: all
  std::string kernels;              // a regular expression for names of kernels; empty: all
  std::string device;               // "cpu", "cuda", or empty: those whose stages are asked for
  bool page = false;                // HTML instead of text
};

/// `dims` has a value for every static dim that declares none. Throws InputError's types: TypeError for an unknown
/// stage, ShapeError for a missing dim.
std::string dump_of(const Program& source, const Program& task, const DimValues& dims, const DumpRequest& request);

}  // namespace moxie::python
