#pragma once
// A dump as one page that needs nothing else: linked panes of all stages, and a table of figures.
#include <string>

#include "runtime/dump/dump.h"

namespace moxie {

std::string dump_html(const Dump& dump);

}  // namespace moxie
