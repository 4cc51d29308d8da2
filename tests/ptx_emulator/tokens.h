#pragma once
// PTX text as tokens, without comments, debug sections and the directives that concern the assembler only.
#include <string_view>
#include <vector>

namespace moxie::ptx {

struct Token {
  std::string_view text;
  int line = 0;       // of the PTX
  int cuda_line = 0;  // of the CUDA text that it was made from; 0: unknown
};

/// Words (opcodes with their modifiers, names, numbers) and single punctuation characters. The views point into `text`.
std::vector<Token> tokenize(std::string_view text);

}  // namespace moxie::ptx
