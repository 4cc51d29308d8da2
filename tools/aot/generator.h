#pragma once
// Programs written in C++ as AOT libraries: a program of a few lines that is `moxie aot` for formulas of one's own.
//
//   MOXIE_AOT_PROGRAM(density) {
//     Program p("density");
//     ...
//     return p;
//   }
//   int main(int argc, char** argv) { return moxie::aot::generator_main(argc, argv); }
//
// It is built by CMake, linked with moxie::aot, and named behind GENERATOR in moxie_add_kernels().
#include <string>

#include "compiler/program/program.h"

namespace moxie::aot {

/// The command line of `moxie aot`, where registered formulas can be named besides files and built-in ones.
int generator_main(int argc, char** argv);

/// Registers a formula as long as the program runs; what MOXIE_AOT_PROGRAM defines.
class RegisteredProgram {
 public:
  RegisteredProgram(const std::string& name, Program (*make)());
};

}  // namespace moxie::aot

/// Defines the function that makes the formula, and registers it under this name.
#define MOXIE_AOT_PROGRAM(name)                                                                 \
  static moxie::Program moxie_make_##name();                                                    \
  static const moxie::aot::RegisteredProgram moxie_registered_##name(#name, moxie_make_##name); \
  static moxie::Program moxie_make_##name()
