// The C interface of an AOT library: what callers get wrong, and what a library holds.
#include <doctest/doctest.h>

#include <fstream>

#include "compiler/support/error.h"
#include "runtime/temporary_folder.h"
#include "tests/aot/aot_sample.h"

namespace moxie::test {
namespace {

constexpr const char* kFormula = R"(
dim S dynamic, N = 3
index s:S, n:N, m:N
input x[S,N], scale[N] > 0
let inverse_scale[n,m] = inverse[n,m](where(n == m, scale[n], 0))
output y[s,n] = x[s,n] * inverse_scale[n,n] + randn(1)
output total[n] = sum[s](x[s,n] * inverse_scale[n,n])
)";

aot::LibraryRequest request(const std::string& text = kFormula, const std::string& name = "f") {
  return {name, {{name, parse(text)}}, {}, {aot::parse_target(host_target())}};
}

/// The output of a program in C99, given the statements of main().
std::string run_c(const aot::LibraryRequest& library, const std::string& statements, const std::string& head = "") {
  const TemporaryFolder folder;
  aot::write_library(aot::make_library(library), folder.path());
  std::ofstream(folder.path() / "main.c")
      << "#include <stdio.h>\n#include <string.h>\n#include \"" << library.name << ".h\"\n"
      << head << "\nint main(void) {\n"
      << statements << "\nreturn 0;\n}\n";
  return shell("cd " + folder.path().string() +
               " && cc -std=c99 -Wall -Wextra -Wno-unused -Werror -pedantic main.c -L. -l" + library.name +
               " -o main && ./main");
}

/// Three rows, and all that a call needs.
constexpr const char* kCall = R"(
static float x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, scale[3] = {1, 4, 16}, y[9], total[3];
static char workspace[4096];
static moxie_message message;
static f_arguments good(void) {
  f_arguments a;
  memset(&a, 0, sizeof a);
  a.S = 3;
  a.x.data = x, a.x.count = 9;
  a.scale.data = scale, a.scale.count = 3;
  a.y.data = y, a.y.count = 9;
  a.total.data = total, a.total.count = 3;
  return a;
}
)";

std::string complaint(const std::string& change, const std::string& call = "f(&a, workspace, 4096, &message)") {
  return run_c(
      request(),
      "f_arguments a = good();\n" + change + ";\nprintf(\"%d \", (int)" + call + ");\nprintf(\"%s\", message.text);",
      kCall);
}

std::string failure_of(const aot::LibraryRequest& wanted) {
  try {
    aot::make_library(wanted);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a call from C99") {
  CHECK_EQ(run_c(request(),
                 "f_arguments a = good();\nprintf(\"%d\", (int)f(&a, workspace, 4096, &message));\n"
                 "printf(\" %g %g %g%s\", total[0], total[1], total[2], message.text);",
                 kCall),
           "0 12 3.75 1.125");
}

TEST_CASE("what is wrong with a call is said") {
  CHECK_EQ(complaint("a.S = -1"), "2 f: dim S = -1; 0 to 1099511627776 is possible");
  CHECK_EQ(complaint("a.S = 4"), "2 f: input x[S,3] has a count of 9, but 12 elements are wanted");
  CHECK_EQ(complaint("a.total.count = 2"), "2 f: output total[3] has a count of 2, but 3 elements are wanted");
  CHECK_EQ(complaint("a.scale.data = 0"), "1 f: input scale[3] is missing: its pointer is null");
  CHECK_EQ(complaint("", "f(0, workspace, 4096, &message)"), "1 f: no arguments: the pointer to them is null");
  CHECK_EQ(complaint("", "f(&a, workspace, 1, &message)").substr(0, 35), "3 f: the workspace has 1 bytes, but");
  CHECK_EQ(complaint("", "f(&a, 0, 4096, &message)"), "1 f: the workspace is missing: its pointer is null");
  CHECK_EQ(complaint("", "f_workspace(&a, 0, &message)"),
           "1 f_workspace: nowhere to put the size: the pointer is null");
  CHECK_EQ(complaint("scale[1] = -1").substr(0, 2), "4 ");
}

TEST_CASE("values outside a formula's domain are named") {
  const std::string text = R"(
dim N = 2
index i:N, j:N
input A[N,N]
output L[i,j] = cholesky[i,j](A[i,j])
)";
  const std::string said = run_c(request(text, "g"), R"(
  static float A[4] = {1, 2, 2, 1}, L[4];
  static char workspace[4096];
  static moxie_message message;
  g_arguments a = {{A, 4}, {L, 4}};
  printf("%d %s", (int)g(&a, workspace, 4096, &message), message.text);)");
  CHECK_EQ(said.substr(0, 2), "4 ");
  CHECK(said.find("not positive definite") != std::string::npos);
}

TEST_CASE("equal requests give equal bytes") {
  const aot::Library a = aot::make_library(request()), b = aot::make_library(request());
  CHECK(a.archive == b.archive);
  CHECK_EQ(a.header, b.header);
  CHECK_EQ(a.manifest, b.manifest);
}

TEST_CASE("a library needs nothing but the C library, and shows nothing but its interface") {
  const TemporaryFolder folder;
  aot::write_library(aot::make_library(request()), folder.path());
  const std::string at = "cd " + folder.path().string() + " && ";
  CHECK_EQ(shell(at + "ld -r --whole-archive libf.a -o f.o && nm -u f.o"), "                 U snprintf\n");
  CHECK_EQ(shell(at + "cc -shared -Wl,--whole-archive libf.a -Wl,--no-whole-archive -o f.so && "
                      "nm -D --defined-only f.so | cut -d' ' -f3"),
           "f\nf_manifest\nf_workspace\n");
}

TEST_CASE("what cannot be made is refused") {
  CHECK_THROWS_WITH_AS(
      aot::parse_target("cpu:x86-64-v9"),
      "unknown target 'cpu:x86-64-v9'; known are cpu:x86-64-v4, cpu:x86-64-v3, cpu:x86-64, cpu:aarch64, "
      "cuda:sm_NN, cuda:compute_NN",
      CompileError);
  aot::LibraryRequest two = request();
  two.targets = {aot::parse_target("cpu:x86-64"), aot::parse_target("cpu:aarch64")};
  CHECK(failure_of(two).find("processors of two kinds") != std::string::npos);
  CHECK(failure_of(request("dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n]")).find('N') != std::string::npos);
  CHECK_EQ(failure_of(request("dim N dynamic\nindex i:N\ninput a[N]\noutput y[i] = sort[i](a[i])")),
           "the row that is sorted in y.argsort has N elements, which are not known when compiling; a kernel sorts "
           "rows of one "
           "size: declare the dims without `dynamic`, and give their values (--dim N=8)");
  CHECK_EQ(failure_of(request("input a.b, a_b\noutput y = a.b + a_b")),
           "a.b and a_b of f are both called a_b in C; rename one of them");
  aot::LibraryRequest twins = request();
  twins.functions.push_back({"f_workspace", twins.functions.front().program});
  CHECK_EQ(failure_of(twins),
           "f and f_workspace would both declare f_workspace in C; give one of the formulas another name");
}

TEST_CASE("a dim is at least as long as what the formula reads of it") {
  const Program program = parse(
      "dim T dynamic, V dynamic, S dynamic\nindex t:T, s:S\ninput x[T], E[V], k[S]: i32\n"
      "output last = x[T-1] + x[T-100]\noutput y[s] = E[k[s]]");
  std::map<std::string, std::int64_t> least;
  for (const aot::DimArgument& dim : aot::interface_of(program, "f", false).dims) least[dim.name] = dim.least;
  CHECK(least == std::map<std::string, std::int64_t>{{"S", 0}, {"T", 100}, {"V", 1}});
  CHECK_EQ(run_c(request("dim T dynamic\ninput x[T]\noutput last = x[T-1]", "g"), R"(
static float x[1] = {1}, last[1];
static char workspace[64];
static moxie_message message;
g_arguments a = {0, {x, 0}, {last, 1}};
printf("%d %s", (int)g(&a, workspace, 64, &message), message.text);)"),
           "2 g: dim T = 0; 1 to 1099511627776 is possible");
}

TEST_CASE("the least extent of a dim is none where it depends on another one") {
  std::map<std::string, std::int64_t> least;
  for (const aot::DimArgument& dim : aot::interface_of(parse(kMatrices), "f", false).dims) least[dim.name] = dim.least;
  CHECK(least == std::map<std::string, std::int64_t>{{"M", 0}, {"N", 0}, {"S", 0}});
}

TEST_CASE("functions have names that the C library has not") {
  CHECK(aot::function_name("gpn.mean") == "gpn_mean");
  CHECK(aot::function_name("main") == "main_");
  CHECK(aot::function_name("expf") == "expf_");
  CHECK(aot::function_name("gamma") == "gamma_");
  CHECK(aot::function_name("moxie_ok") == "moxie_ok_");
  CHECK(aot::function_name("half") == "half");
  CHECK(aot::c_name("NULL") == "NULL_");
  CHECK(aot::c_name("exp") == "exp");  // a member of a struct
}

}  // namespace moxie::test
