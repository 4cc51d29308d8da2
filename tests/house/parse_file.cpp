// Parses and verifies one .mox file.
#include <fstream>
#include <iostream>
#include <sstream>

#include "compiler/program/program.h"
#include "compiler/support/error.h"

int main(int argc, char** argv) {
  std::ostringstream text;
  if (argc == 2) text << std::ifstream(argv[1]).rdbuf();
  try {
    verify(moxie::parse(text.str(), argc == 2 ? argv[1] : "nothing"));
  } catch (const moxie::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
