#include "runtime/aot/call_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace moxie::aot {
namespace {

using llvm_ir::Scalar;
using llvm_ir::typed;

/// The size of moxie_message in codegen_templates/aot/abi.h.
constexpr std::int64_t kMessageBytes = 512;
/// Larger dims are mistakes, and smaller ones let affine sizes be computed without a thought of overflow.
constexpr std::int64_t kLargestDim = std::int64_t{1} << 40;

}  // namespace

std::string escaped(std::string text) {
  for (std::size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 2)) text.insert(at, 1, '%');
  return text;
}

Pointer begin_message(FunctionWriter& w) {
  const Pointer own = w.words(kMessageBytes / 8);
  const Pointer given{"%message"};
  const Pointer message = w.select(w.is_null(given), own, given);
  w.ir().line(fmt::format("store i8 0, ptr {}", message.text));
  return message;
}

Call begin_call(FunctionWriter& w, const Interface& interface) {
  const Call call{{"%arguments"}, begin_message(w)};
  w.leave_when(w.is_null(call.arguments), wrong_argument, [&] {
    complain(w, call.message, escaped(interface.name) + ": no arguments: the pointer to them is null");
  });
  return call;
}

void complain(FunctionWriter& w, const Pointer& message, const std::string& format, const std::vector<Val>& values) {
  w.module().declare("declare i32 @snprintf(ptr, i64, ptr, ...)");
  std::string operands;
  for (const Val& value : values) operands += ", " + typed(value);
  w.ir().raw(Scalar::i32, 1,
             fmt::format("call i32 (ptr, i64, ptr, ...) @snprintf(ptr {}, i64 {}, ptr {}{})", message.text,
                         kMessageBytes, w.module().text(format).text, operands));
}

DimMath::Values checked_dims(FunctionWriter& w, const Interface& interface, const Call& call) {
  DimMath::Values values;
  for (std::size_t k = 0; k < interface.dims.size(); ++k) {
    const Val value = w.load(w.word(call.arguments, interface.word_of_dim(k)));
    const std::int64_t least = interface.dims[k].least;
    const Val above = least == 0 ? value : w.sub(value, w.integer(least));
    w.leave_when(w.is("ugt", above, w.integer(kLargestDim - least)), wrong_shape, [&] {
      complain(w, call.message,
               fmt::format("{}: dim {} = %lld; {} to {} is possible", escaped(interface.name),
                           escaped(interface.dims[k].name), least, kLargestDim),
               {value});
    });
    values.emplace(interface.dims[k].name, value);
  }
  return values;
}

std::vector<Pointer> checked_tensors(FunctionWriter& w, const Interface& interface, const Call& call, DimMath& math) {
  std::vector<Pointer> addresses;
  for (std::size_t k = 0; k < interface.tensors.size(); ++k) {
    const TensorArgument& tensor = interface.tensors[k];
    const std::string who = escaped(fmt::format("{}: {} {}{}", interface.name, tensor.output ? "output" : "input",
                                                tensor.name, shape_text(tensor.shape)));
    const Val wanted = math.count(tensor.shape);
    const Val given = w.load(w.word(call.arguments, interface.word_of_tensor(k) + 1));
    w.leave_when(w.is("ne", wanted, given), wrong_shape, [&] {
      complain(w, call.message, who + " has a count of %lld, but %lld elements are wanted", {given, wanted});
    });
    addresses.push_back(w.load_pointer(w.word(call.arguments, interface.word_of_tensor(k))));
    const Val missing = w.both(w.is_null(addresses.back()), w.is("ne", wanted, w.integer(0)));
    w.leave_when(missing, wrong_argument, [&] { complain(w, call.message, who + " is missing: its pointer is null"); });
  }
  return addresses;
}

void check_workspace(FunctionWriter& w, const Interface& interface, const Call& call, const Val& wanted) {
  const Val given{Scalar::i64, 1, "%workspace_bytes"};
  const std::string name = escaped(interface.name);
  w.leave_when(w.is("slt", given, wanted), small_workspace, [&] {
    complain(w, call.message,
             name + ": the workspace has %lld bytes, but %lld are wanted; ask " + name + "_workspace() for the size",
             {given, wanted});
  });
  const Val missing = w.both(w.is_null({"%workspace"}), w.is("ne", wanted, w.integer(0)));
  w.leave_when(missing, wrong_argument,
               [&] { complain(w, call.message, name + ": the workspace is missing: its pointer is null"); });
}

}  // namespace moxie::aot
