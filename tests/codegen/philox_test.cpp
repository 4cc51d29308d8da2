// The lowering of Philox4x32-10 against the known-answer vectors of Random123 (kat_vectors) and against the reference.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <random>

#include "compiler/arithmetic/philox.h"
#include "compiler/codegen/llvm/text_builder.h"
#include "compiler/support/error.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/cpu/plugin.h"

using namespace moxie;
using namespace moxie::llvm_ir;

namespace {

constexpr int kLanes = 8;

/// void f(ptr words): six vectors, counter and key, in; the four words of the result over the first four.
std::string philox_module() {
  TextBuilder builder;
  const std::string vector = type_name(Scalar::i32, kLanes);
  std::vector<Val> words;
  for (int i = 0; i < 6; ++i) {
    builder.line(fmt::format("%p{} = getelementptr {}, ptr %words, i64 {}", i, vector, i));
    const Val word = builder.raw(Scalar::i32, kLanes, fmt::format("load {}, ptr %p{}, align 4", vector, i));
    words.push_back(builder.extend(word, Scalar::i64, false));
  }
  const std::vector<Val> result = emit_philox(builder, {words[4], words[5]}, {words[0], words[1], words[2], words[3]});
  for (int i = 0; i < 4; ++i)
    builder.line(fmt::format("store {}, ptr %p{}, align 4", typed(builder.extend(result[i], Scalar::i32, false)), i));
  return "define void @f(ptr %words) {\n" + builder.text() + "  ret void\n}\n";
}

PhiloxCounter philox(const PhiloxCounter& counter, const PhiloxKey& key, int lane) {
  static const LoadedObject object(compile_llvm(philox_module(), host_machine()));
  std::uint32_t words[6][kLanes] = {};
  for (int i = 0; i < 4; ++i) words[i][lane] = counter[i];
  for (int i = 0; i < 2; ++i) words[4 + i][lane] = key[i];
  reinterpret_cast<void (*)(void*)>(object.symbol("f"))(words);
  return {words[0][lane], words[1][lane], words[2][lane], words[3][lane]};
}

}  // namespace

TEST_CASE("known answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}, 0) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}, 3) == PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, 7) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("agrees with the reference in every lane") {
  std::independent_bits_engine<std::mt19937, 32, std::uint32_t> random;
  for (int i = 0; i < 1000; ++i) {
    const PhiloxCounter counter{random(), random(), random(), random()};
    const PhiloxKey key{random(), random()};
    CHECK(philox(counter, key, i % kLanes) == philox4x32_10(counter, key));
  }
}

TEST_CASE("wrong numbers of words are refused") {
  TextBuilder builder;
  CHECK_THROWS_WITH_AS(emit_philox(builder, {}, {}), "emit_philox: takes 2 words of key and 4 of counter, not 0 and 0",
                       InternalError);
}
