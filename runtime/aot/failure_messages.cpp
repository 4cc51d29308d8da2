#include "runtime/aot/failure_messages.h"

#include <fmt/format.h>

#include <limits>

namespace moxie::aot {
namespace {

using llvm_ir::Scalar;

/// The words of a KernelStatus.
constexpr std::int64_t kCheck = 1, kCoordinates = 2, kValue = 6;

/// As throw_if_failed() has it.
std::string message_format(const CheckDecl& check) {
  std::string text = escaped(check.message);
  for (std::size_t k = 0; k < check.coordinate_names.size(); ++k)
    text += fmt::format("{} {} = %lld", k ? "," : " at", escaped(check.coordinate_names[k]));
  return text + " (value %.9g)" + (check.advice.empty() ? "" : "; " + escaped(check.advice));
}

}  // namespace

void leave_where_failed(FunctionWriter& w, const Call& call, const LoopProgram& program, const Pointer& status) {
  w.leave_when(w.is("ne", w.load(status), w.integer(0)), outside_domain, [&] {
    const Val failed = w.load(w.word(status, kCheck));
    const Val value = w.ir().raw(Scalar::f64, 1, "load double, ptr " + w.word(status, kValue).text);
    // The sign of a NaN means nothing.
    const Val is_nan = w.ir().fcmp("uno", value, value);
    const Val shown = w.select(is_nan, w.ir().number(Scalar::f64, 1, std::numeric_limits<double>::quiet_NaN()), value);
    for (std::size_t check = 0; check < program.checks.size(); ++check) {
      w.when(w.is("eq", failed, w.integer(static_cast<std::int64_t>(check))), [&] {
        std::vector<Val> values;
        for (std::size_t k = 0; k < program.checks[check].coordinate_names.size(); ++k)
          values.push_back(w.load(w.word(status, kCoordinates + static_cast<std::int64_t>(k))));
        values.push_back(shown);
        complain(w, call.message, message_format(program.checks[check]), values);
      });
    }
  });
}

}  // namespace moxie::aot
