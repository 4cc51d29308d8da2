#include "tests/codegen/math_module.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/plugin.h"

namespace moxie::testing {
namespace {

using namespace llvm_ir;

constexpr std::string_view kLogic[] = {"and", "or", "not"};

/// The positions at which a function takes truth values.
bool takes_truth(std::string_view function, int argument) {
  if (function == "where") return argument == 0;
  return std::ranges::find(kLogic, function) != std::end(kLogic);
}

Val load_argument(TextBuilder& builder, const MathKernel& kernel, Scalar type, int lanes, int i) {
  const std::string address = "%" + builder.fresh("address");
  builder.line(fmt::format("{} = getelementptr {}, ptr %input{}, i64 %i", address, type_name(type, 1), i));
  const Val value = builder.raw(type, lanes, fmt::format("load {}, ptr {}, align 4", type_name(type, lanes), address));
  return takes_truth(kernel.function, i) ? builder.fcmp("une", value, builder.number(type, lanes, 0)) : value;
}

void write_kernel(TextBuilder& builder, const MathKernel& kernel, Scalar type, int lanes) {
  builder.line(
      fmt::format("define void @\"moxie.{}\"(ptr %inputs, ptr %output, i64 %count) #0 {{\nentry:", kernel.function));
  for (int i = 0; i < kernel.arity; ++i) {
    builder.line(
        fmt::format("%slot{0} = getelementptr ptr, ptr %inputs, i64 {0}\n  %input{0} = load ptr, ptr %slot{0}", i));
  }
  builder.line("br label %loop\nloop:\n  %i = phi i64 [ 0, %entry ], [ %next, %latch ]");
  std::vector<Val> args;
  for (int i = 0; i < kernel.arity; ++i) args.push_back(load_argument(builder, kernel, type, lanes, i));
  const Val result = builder.convert(emit_function(builder, kernel.function, args), type);
  builder.line(fmt::format("%out = getelementptr {}, ptr %output, i64 %i", type_name(type, 1)));
  builder.line(fmt::format("store {} {}, ptr %out, align 4", type_name(type, lanes), result.text));
  builder.line("br label %latch\nlatch:");
  builder.line(fmt::format("%next = add i64 %i, {}\n  %more = icmp slt i64 %next, %count", lanes));
  builder.line("br i1 %more, label %loop, label %exit\nexit:\n  ret void\n}");
}

}  // namespace

std::string math_module_text(std::span<const MathKernel> kernels, Scalar type, int lanes) {
  TextBuilder builder;
  for (const MathKernel& kernel : kernels) write_kernel(builder, kernel, type, lanes);
  return builder.text() + builder.declarations() + "attributes #0 = { \"prefer-vector-width\"=\"512\" }\n";
}

template <typename T>
MathModule<T>::MathModule(std::span<const MathKernel> kernels, int lanes, const VectorMachine& machine)
    : lanes_(lanes) {
  const Scalar type = sizeof(T) == 4 ? Scalar::f32 : Scalar::f64;
  object_ = std::make_unique<LoadedObject>(compile_llvm(math_module_text(kernels, type, lanes), machine));
}

template <typename T>
std::vector<T> MathModule<T>::run(std::string_view function, std::vector<std::vector<T>> inputs) const {
  const std::size_t count = inputs[0].size();
  const std::size_t padded = (count + static_cast<std::size_t>(lanes_) - 1) / lanes_ * lanes_;
  std::vector<const T*> pointers;
  for (std::vector<T>& input : inputs) {
    input.resize(padded, T(1));
    pointers.push_back(input.data());
  }
  std::vector<T> output(padded);
  reinterpret_cast<Entry*>(object_->symbol("moxie." + std::string(function)))(pointers.data(), output.data(),
                                                                              static_cast<std::int64_t>(padded));
  output.resize(count);
  return output;
}

template class MathModule<float>;
template class MathModule<double>;

}  // namespace moxie::testing
