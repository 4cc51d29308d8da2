#include "runtime/aot/flush_to_zero.h"

#include <fmt/format.h>

namespace moxie::aot {
namespace {

using llvm_ir::Scalar;
using llvm_ir::typed;

constexpr std::int64_t kFlushOfMxcsr = 1 << 15, kFlushOfFpcr = 1 << 24;

void on_x86(FunctionWriter& w, const std::function<void()>& body) {
  w.module().declare("declare void @llvm.x86.sse.stmxcsr(ptr)");
  w.module().declare("declare void @llvm.x86.sse.ldmxcsr(ptr)");
  const Pointer before = w.words(1), inside = w.words(1);
  const auto load = [&](const Pointer& from) {
    w.ir().line(fmt::format("call void @llvm.x86.sse.ldmxcsr(ptr {})", from.text));
  };
  w.store(before, w.integer(0));  // the mode has four bytes of the eight
  w.ir().line(fmt::format("call void @llvm.x86.sse.stmxcsr(ptr {})", before.text));
  w.store(inside, w.ir().binary("or", w.load(before), w.integer(kFlushOfMxcsr)));
  load(inside);
  body();
  load(before);
}

void on_aarch64(FunctionWriter& w, const std::function<void()>& body) {
  w.module().declare("declare i64 @llvm.aarch64.get.fpcr()");
  w.module().declare("declare void @llvm.aarch64.set.fpcr(i64)");
  const auto set = [&](const Val& mode) {
    w.ir().line(fmt::format("call void @llvm.aarch64.set.fpcr({})", typed(mode)));
  };
  const Val before = w.ir().raw(Scalar::i64, 1, "call i64 @llvm.aarch64.get.fpcr()");
  set(w.ir().binary("or", before, w.integer(kFlushOfFpcr)));
  body();
  set(before);
}

}  // namespace

void with_flush_to_zero(FunctionWriter& writer, std::string_view triple, const std::function<void()>& body) {
  if (triple.starts_with("x86_64")) return on_x86(writer, body);
  if (triple.starts_with("aarch64")) return on_aarch64(writer, body);
  body();
}

}  // namespace moxie::aot
