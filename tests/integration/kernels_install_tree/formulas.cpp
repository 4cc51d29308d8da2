#include <compiler/builder/builder.h>
#include <tools/aot/generator.h>

using namespace moxie;

MOXIE_AOT_PROGRAM(scaled) {
  Program p("scaled");
  Dim S = p.dim("S", dynamic);
  Index s(S);
  Tensor x = p.input("x", {S});
  p.output("y", {s}, 2 * x(s) + 1);
  return p;
}

int main(int argc, char** argv) { return aot::generator_main(argc, argv); }
