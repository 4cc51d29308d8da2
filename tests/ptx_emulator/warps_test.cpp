// What threads do together: lanes apart and together again, memory, barriers, shuffles, calls; and what fails.
#include <doctest/doctest.h>

#include <numeric>

#include "tests/ptx_emulator/fault.h"
#include "tests/ptx_emulator/kernel_runner.h"

using namespace moxie::ptx;

namespace {

std::vector<std::uint32_t> run(const std::string& body, std::size_t elements, const Shape& shape,
                               const std::string& before = {}) {
  DeviceMemory memory(1 << 20);
  std::vector<std::uint32_t> values(elements);
  std::iota(values.begin(), values.end(), 0U);
  const Array<std::uint32_t> array(memory, values);
  run_kernel(kernel_text(body, 1, before), memory, {array.address()}, shape);
  return array.values();
}

/// %r1 is the number of the thread in the block, %rd1 the address of its element.
const std::string kStart = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %a0, %rd1;\n";
const std::string kShared =
    ".reg .b64 %s<4>; .shared .align 4 .b8 tile[256]; mov.u64 %s0, tile; mul.wide.u32 %s1, %r1, 4;\n"
    "add.s64 %s1, %s0, %s1;\n";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("lanes branch apart and meet again") {
  // Each lane adds 3 as often as its number says, and the even ones 100 as well.
  const auto values = run(kStart +
                              "mov.u32 %r2, 0; mov.u32 %r3, 0;\n"
                              "LOOP: setp.ge.u32 %p1, %r3, %r1; @%p1 bra DONE;\n"
                              "add.u32 %r2, %r2, 3; add.u32 %r3, %r3, 1; bra.uni LOOP;\n"
                              "DONE: and.b32 %r4, %r1, 1; setp.eq.u32 %p2, %r4, 0; @%p2 bra EVEN; bra.uni JOIN;\n"
                              "JOIN: activemask.b32 %r5; st.global.u32 [%rd1], %r2; ret;\n"
                              "EVEN: add.u32 %r2, %r2, 100; bra.uni JOIN;",
                          32, {.block = {32}});
  for (unsigned lane = 0; lane < 32; ++lane) CHECK(values[lane] == 3 * lane + (lane % 2 == 0 ? 100 : 0));
}

TEST_CASE("a predicate leaves out lanes") {
  const auto values = run(kStart +
                              "setp.lt.and.u32 %p1|%p2, %r1, 2, 1; mov.u32 %r2, 9;\n@!%p1 mov.u32 %r2, 7;\n"
                              "@%p2 add.u32 %r2, %r2, 1; st.global.u32 [%rd1], %r2;",
                          4, {.block = {4}});
  CHECK(values == std::vector<std::uint32_t>{9, 9, 8, 8});
}

TEST_CASE("threads know where they are") {
  const auto values =
      run("mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r1, %r2, %r3;\n"
          "mov.u32 %r5, %ctaid.x; mov.u32 %r6, %nctaid.x; mul.lo.s32 %r7, %r5, 6; add.s32 %r4, %r4, %r7;\n"
          "mul.wide.u32 %rd1, %r4, 4; add.s64 %rd1, %a0, %rd1; mad.lo.s32 %r8, %r6, 100, %r5;\n"
          "st.global.u32 [%rd1], %r8;",
          12, {.grid = {2}, .block = {3, 2}});
  CHECK(values == std::vector<std::uint32_t>{200, 200, 200, 200, 200, 200, 201, 201, 201, 201, 201, 201});
}

TEST_CASE("the threads of a block exchange values through shared memory") {
  const std::string reverse = kStart + kShared +
                              "st.shared.u32 [%s1], %r1; bar.sync 0; sub.u32 %r2, 63, %r1; mul.wide.u32 %s2, %r2, 4;\n"
                              "add.s64 %s2, %s0, %s2; ld.shared.u32 %r3, [%s2]; st.global.u32 [%rd1], %r3;";
  const auto values = run(reverse, 64, {.block = {64}});
  for (unsigned k = 0; k < 64; ++k) CHECK(values[k] == 63 - k);
}

TEST_CASE("blocks run in any order") {
  const std::string take_turn =
      "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 4; add.s64 %rd1, %a0, %rd1;\n"
      "atom.global.add.u32 %r2, [%a0+16], 1; st.global.u32 [%rd1], %r2;";
  CHECK(run(take_turn, 5, {.grid = {4}}) == std::vector<std::uint32_t>{4, 5, 6, 7, 8});
  CHECK(run(take_turn, 5, {.grid = {4}, .order = BlockOrder::descending}) == std::vector<std::uint32_t>{7, 6, 5, 4, 8});
  CHECK(run(take_turn, 5, {.grid = {4}, .order = BlockOrder::shuffled})[4] == 8);
}

TEST_CASE("shuffles") {
  const auto shuffled = [](const std::string& operation) {
    return run(kStart + "shfl.sync." + operation +
                   ", -1; selp.u32 %r3, 100, 0, %p1; add.u32 %r2, %r2, %r3;\n"
                   "st.global.u32 [%rd1], %r2;",
               32, {.block = {32}});
  };
  const auto down = shuffled("down.b32 %r2|%p1, %r1, 4, 31");
  CHECK(down[0] == 104);
  CHECK(down[28] == 28);  // beyond the last lane: its own value, and the predicate false
  const auto up = shuffled("up.b32 %r2|%p1, %r1, 1, 0");
  CHECK(up[0] == 0);
  CHECK(up[31] == 130);
  const auto across = shuffled("bfly.b32 %r2|%p1, %r1, 16, 31");
  CHECK(across[1] == 117);
  const auto segments = shuffled("idx.b32 %r2|%p1, %r1, 1, 6175");  // segments of 8 lanes: 24 << 8 | 31
  CHECK(segments[19] == 117);
}

TEST_CASE("votes and atomic operations") {
  const auto values =
      run(kStart +
              "setp.lt.u32 %p1, %r1, 5; vote.sync.ballot.b32 %r2, %p1, -1; vote.sync.any.pred %p2, %p1, -1;\n"
              "atom.global.max.u32 %r3, [%a0], %r1; red.global.add.u32 [%a0+4], 2;\n"
              "atom.global.cas.b32 %r5, [%a0+8], 2, 77; setp.eq.u32 %p3, %r1, 0;\n"
              "@%p3 st.global.u32 [%a0+12], %r2;",
          4, {.block = {32}});
  CHECK(values == std::vector<std::uint32_t>{31, 65, 77, 31});
}

TEST_CASE("functions with results in memory of the caller") {
  const std::string twice =
      ".func (.param .b32 result) twice(.param .b32 given) { .reg .b32 %r<3>; .reg .pred %p<2>; ld.param.u32 %r1, "
      "[given];\n"
      "setp.gt.u32 %p1, %r1, 2; @%p1 bra LARGE; mul.lo.u32 %r2, %r1, 2; st.param.b32 [result+0], %r2; ret;\n"
      "LARGE: st.param.b32 [result], 50; ret; }\n";
  const std::string call =
      "{ .param .b32 in; .param .b32 out; st.param.b32 [in+0], %r1; call.uni (out), twice, (in);\n"
      "ld.param.b32 %r1, [out+0]; }\n";
  CHECK(run(kStart + call + call + "st.global.u32 [%rd1], %r1;", 4, {.block = {4}}, twice) ==
        std::vector<std::uint32_t>{0, 4, 50, 50});
  CHECK(contains(fault_of("call.uni other, ();", {}), "there is no function other"));
}

TEST_CASE("variables of a module, local memory and generic addresses") {
  const std::string table = ".global .align 4 .u32 table[3] = {7, 8, 0x9};\n";
  const std::string body =
      kStart +
      ".local .align 8 .b8 depot[16]; .reg .b64 %l<4>; mov.u64 %l0, depot; cvta.local.u64 %l1, %l0;\n"
      "mov.u64 %rd2, table; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd2, %rd2, %rd3; ld.global.u32 %r2, [%rd2];\n"
      "st.u32 [%l1+8], %r2; cvta.to.local.u64 %l2, %l1; ld.local.u32 %r3, [%l2+8]; st.global.u32 [%rd1], %r3;";
  CHECK(run(body, 3, {.block = {3}}, table) == std::vector<std::uint32_t>{7, 8, 9});
}

TEST_CASE("loads and stores of narrow values extend and cut") {
  CHECK(run("mov.u32 %r1, 511; st.global.u8 [%a0], %r1; ld.global.s8 %r2, [%a0]; ld.global.u8 %r3, [%a0];\n"
            "st.global.v2.u32 [%a0], {%r2, %r3};",
            2, {}) == std::vector<std::uint32_t>{0xffffffff, 255});
}

// ---- What fails ----

TEST_CASE("accesses outside of memory, freed or misaligned") {
  CHECK(contains(fault_of("ld.global.f32 %f1, [%a0+256];", {}), "beyond the end of an allocation of 256 bytes"));
  CHECK(contains(fault_of("mov.u64 %rd1, 64; st.global.f32 [%rd1], 0f00000000;", {}), "in no allocation"));
  CHECK(contains(fault_of("ld.global.f64 %d1, [%a0+4];", {}), "misaligned"));
  CHECK(contains(fault_of(kStart + kShared + "ld.shared.u32 %r2, [%s0+256];", {}), "byte 256 of 256 of shared memory"));
  CHECK(fault_of(".loc 1 12 5\nld.global.f32 %f1, [%a0+256];", {.block = {3}})
            .starts_with("kernel k, block (0, 0, 0), thread (0, 0, 0): ld.global.f32 (PTX line 16, line 12 of the CUDA "
                         "text) accesses 4 bytes"));
}

TEST_CASE("shared memory that nothing has written, and races for it") {
  const Shape two_warps{.block = {64}};
  const Shape one_warp{.block = {32}};
  const std::string write = "st.shared.u32 [%s1], %r1;\n";
  const std::string read_first = "ld.shared.u32 %r2, [%s0];\n";
  CHECK(contains(fault_of(kStart + kShared + read_first, one_warp), "that nothing has written"));
  CHECK(contains(fault_of(kStart + kShared + "st.shared.u32 [%s0], %r1;", one_warp), "races for shared memory"));
  CHECK(contains(fault_of(kStart + kShared + write + read_first, two_warps), "with a write of warp 0, lane 0"));
  CHECK(contains(fault_of(kStart + kShared + write + "bar.sync 0;" + read_first + write, two_warps),
                 "with a read of warp"));
  CHECK(contains(fault_of(kStart + kShared + write + read_first, one_warp), "with a write of warp 0, lane 0"));
  CHECK(fault_of(kStart + kShared + write + "bar.warp.sync -1;" + read_first, one_warp).empty());
  CHECK(fault_of(kStart + kShared + write + "bar.sync 0;" + read_first + "bar.sync 0;" + write, two_warps).empty());
}

TEST_CASE("barriers that not all threads reach") {
  const std::string half = kStart + "setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 0;";
  CHECK(contains(fault_of(half, {.block = {64}}), "not all warps reach one barrier"));
  CHECK(contains(fault_of(kStart + "setp.lt.u32 %p1, %r1, 8; @%p1 bra HERE; bra.uni END;\nHERE: bar.sync 0; END:",
                          {.block = {32}}),
                 "lanes wait for lanes that never come; lanes 0 1 2 3 4 5 6 7 at bar.sync (PTX line 17)"));
}

TEST_CASE("shuffles of lanes that take no part") {
  CHECK(contains(
      fault_of(kStart + "setp.lt.u32 %p1, %r1, 16; @%p1 shfl.sync.down.b32 %r2, %r1, 8, 31, 65535;", {.block = {32}}),
      "reads the value of lane 16, which takes no part"));
  CHECK(contains(
      fault_of(kStart + "setp.lt.u32 %p1, %r1, 16; @%p1 shfl.sync.bfly.b32 %r2, %r1, 8, 31, -1;", {.block = {32}}),
      "lanes wait for lanes that never come"));
  CHECK(contains(fault_of(kStart + "shfl.sync.bfly.b32 %r2, %r1, 8, 31, 255;", {.block = {32}}),
                 "is not named by its member mask 0xff"));
}

TEST_CASE("a kernel that traps") { CHECK(contains(fault_of("trap;", {}), "trap (PTX line 15) ends the kernel")); }
