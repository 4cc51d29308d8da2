#pragma once
// The parts of a dump as JSON, and back. Texts themselves are not among them.
#include <nlohmann/json.hpp>

#include "runtime/dump/dump.h"

namespace moxie {

using Json = nlohmann::ordered_json;

Json head_to_json(const Dump& dump);
Dump head_from_json(const Json& json);
Json stage_to_json(const StageText& text);
StageText stage_from_json(const Json& json);
Json figures_to_json(const KernelFigures& figures);
KernelFigures figures_from_json(const Json& json);
/// For every line 0, its one origin, or a list of them.
Json lines_to_json(const LineTable& lines);

}  // namespace moxie
