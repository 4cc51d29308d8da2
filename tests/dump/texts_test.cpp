// Line tables and differences of texts.
#include <doctest/doctest.h>

#include "compiler/support/line_table.h"
#include "runtime/dump/line_parsers.h"
#include "runtime/dump/text_diff.h"

using namespace moxie;

TEST_CASE("marks become a table, inner ones before outer ones") {
  std::string text;
  LineMarks marks;
  text += "head\n";
  marks.open(text.size(), {3});
  text += "for {\n";
  marks.open(text.size(), {4, 5});
  text += "x\n";
  marks.close(text.size());
  text += "}\n";
  marks.close(text.size());
  text += "end";
  CHECK(marks.table(text) == LineTable{{}, {3}, {4, 5}, {3}, {}});
  CHECK(marks.table("more\n" + text, 5) == LineTable{{}, {}, {3}, {4, 5}, {3}, {}});
}

TEST_CASE("definitions are found by name, derived ones by the name inside of theirs") {
  const std::string before = "dim N\ninput x[N], y[N,2]\nlet psi[n] = x[n]\noutput z = sum[n](psi[n])\n";
  const std::string after = "input y[N,2]\nlet adj.psi.1[n] = 1\noutput grad.x[n] = 2\nlet other = 3\n";
  CHECK(lines_by_name(after, before) == LineTable{{2}, {3}, {2}, {}});
}

TEST_CASE("instructions of LLVM name their own lines") {
  const std::string ir = "define void @k(ptr %x) {\nentry:\n  %a = load float, ptr %x\n  ret void\n}\n";
  const std::string with_lines = with_debug_lines(ir);
  CHECK(with_lines.find("load float, ptr %x, !dbg !2003\n") != std::string::npos);
  const TracedText traced = trace_llvm(with_lines);
  CHECK(traced.text.starts_with("define void @k(ptr %x) {\nentry:\n  %a = load float, ptr %x\n"));
  REQUIRE(traced.lines.size() >= 4);
  CHECK(traced.lines[2] == std::vector<int>{3});
  CHECK(traced.lines[3] == std::vector<int>{4});
  CHECK(trace_llvm("  %b = fadd <2 x float> %a, <float 1.0, float 1.0>\n  %c = x <float 1.0, float 2.0>\n").text ==
        "  %b = fadd <2 x float> %a, splat (float 1.0)\n  %c = x <float 1.0, float 2.0>\n");
}

TEST_CASE("assembly and PTX are traced by their .loc lines, calls that were inlined to where they stand") {
  const TracedText assembly =
      trace_assembly("k:\n\t.loc\t1 7 0 prologue_end\n\tret\n\t.section\t.debug_line\n\t.long 1\n\t.text\n");
  CHECK(assembly.text == "k:\n\tret\n\t.text\n");
  CHECK(assembly.lines == LineTable{{}, {7}, {}});
  const TracedText ptx = trace_ptx(
      "\t.loc\t1 4 2, function_name $L0, inlined_at 1 12 5\n\tadd.f32 %f1, %f2, %f3;\n\t.loc 1 13 1\n\tret;\n", 10);
  CHECK(ptx.text == "\tadd.f32 %f1, %f2, %f3;\n\tret;\n");
  CHECK(ptx.lines == LineTable{{2}, {3}});
  const TracedText sass = trace_sass(
      "\t//## File \"kernel.cu\", line 4 inlined at \"kernel.cu\", line 12\n        /*0000*/        MOV  R1, R2 ;   \n",
      10);
  CHECK(sass.text == "  /*0000*/ MOV R1, R2 ;\n");
  CHECK(sass.lines == LineTable{{2}});
}

TEST_CASE("texts that no compiler wrote are traced without a fault") {
  for (const char* text : {"", "\n", "  , !dbg !\n!1 = !DILocation(line: x)", ".loc", "\t.loc 1", "\t.loc\n ret",
                           "//## File", "let", "input ", "input x[,"}) {
    CHECK(trace_llvm(text).lines.size() == trace_llvm(text).lines.size());
    CHECK_NOTHROW(trace_assembly(text));
    CHECK_NOTHROW(trace_ptx(text, 3));
    CHECK_NOTHROW(trace_sass(text, 3));
    CHECK_NOTHROW(lines_by_name(text, text));
  }
}

TEST_CASE("a difference shows what went and what came, with its surroundings") {
  CHECK(text_diff("a\nb\n", "a\nb\n").empty());
  CHECK(text_diff("a\nb\nc\n", "a\nx\nc\n", 0) == "@@ line 2 -> line 2\n-b\n+x\n");
  CHECK(text_diff("a\nb\nc\n", "a\nx\nc\n", 1) == "@@ line 1 -> line 1\n a\n-b\n+x\n c\n");
  CHECK(text_diff("", "a\n", 0) == "@@ line 1 -> line 1\n+a\n");
  CHECK(text_diff("a\n", "", 0) == "@@ line 1 -> line 1\n-a\n");
  CHECK(text_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n3\n4\n5\n6\n7\n8\n9\n0\n", 1) ==
        "@@ line 1 -> line 1\n 1\n-2\n 3\n@@ line 9 -> line 8\n 9\n+0\n");
}
