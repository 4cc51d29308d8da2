#include "compiler/codegen/cuda/cuda_names.h"

#include <array>
#include <cctype>
#include <string_view>

#include "compiler/loop/lower.h"
#include "compiler/support/error.h"

namespace moxie::cuda_text {
namespace {

/// Words of C++ and CUDA, and names of the fragments and of every kernel.
constexpr auto kReserved = std::to_array<std::string_view>({"alignas",
                                                            "alignof",
                                                            "and",
                                                            "asm",
                                                            "atomicCAS",
                                                            "auto",
                                                            "block",
                                                            "bool",
                                                            "break",
                                                            "case",
                                                            "catch",
                                                            "char",
                                                            "class",
                                                            "const",
                                                            "constexpr",
                                                            "continue",
                                                            "decltype",
                                                            "default",
                                                            "delete",
                                                            "do",
                                                            "double",
                                                            "else",
                                                            "enum",
                                                            "explicit",
                                                            "export",
                                                            "extern",
                                                            "false",
                                                            "float",
                                                            "for",
                                                            "friend",
                                                            "goto",
                                                            "if",
                                                            "inline",
                                                            "int",
                                                            "long",
                                                            "mutable",
                                                            "namespace",
                                                            "new",
                                                            "noexcept",
                                                            "not",
                                                            "nullptr",
                                                            "operator",
                                                            "or",
                                                            "private",
                                                            "protected",
                                                            "public",
                                                            "register",
                                                            "return",
                                                            "short",
                                                            "signed",
                                                            "sizeof",
                                                            "static",
                                                            "struct",
                                                            "switch",
                                                            "template",
                                                            "this",
                                                            "throw",
                                                            "true",
                                                            "try",
                                                            "typedef",
                                                            "typeid",
                                                            "typename",
                                                            "union",
                                                            "unsigned",
                                                            "using",
                                                            "virtual",
                                                            "void",
                                                            "volatile",
                                                            "while",
                                                            "xor",
                                                            "Index",
                                                            "Global",
                                                            "Status",
                                                            "RandomState",
                                                            "Sum",
                                                            "Product",
                                                            "Max",
                                                            "Min",
                                                            "EXTENT",
                                                            "SHARED",
                                                            "slice",
                                                            "fail",
                                                            "philox",
                                                            "infinity",
                                                            "power",
                                                            "half_power",
                                                            "lane",
                                                            "row",
                                                            "active",
                                                            "first",
                                                            "chunk",
                                                            "chunks",
                                                            "status",
                                                            "first_check",
                                                            "random",
                                                            "element",
                                                            "parts",
                                                            "combined",
                                                            "count",
                                                            "random_state",
                                                            "workspace",
                                                            "block_byte",
                                                            "place",
                                                            "turn",
                                                            "threadIdx",
                                                            "blockIdx",
                                                            "blockDim",
                                                            "gridDim",
                                                            "warpSize",
                                                            "exp",
                                                            "exp2",
                                                            "log",
                                                            "log2",
                                                            "log1p",
                                                            "expm1",
                                                            "sqrt",
                                                            "rsqrt",
                                                            "sin",
                                                            "cos",
                                                            "tan",
                                                            "tanh",
                                                            "pow",
                                                            "erf",
                                                            "erfc",
                                                            "normcdf",
                                                            "lgamma",
                                                            "fabs",
                                                            "fmin",
                                                            "fmax",
                                                            "floor",
                                                            "draw_normal",
                                                            "draw_uniform",
                                                            "combine_chunks",
                                                            "combine_rows",
                                                            "combine_lanes",
                                                            "combine_warp",
                                                            "Wide",
                                                            "Vector",
                                                            "load_wide",
                                                            "store_wide",
                                                            "pointer_cast",
                                                            "rows_f32",
                                                            "rows_f64",
                                                            "lanes_f32",
                                                            "lanes_f64",
                                                            "unix",
                                                            "linux",
                                                            "inside_extent",
                                                            "scratch",
                                                            "nearest_integer",
                                                            "nearest_long",
                                                            "nearest_within",
                                                            "truth_byte",
                                                            "exact_index",
                                                            "rounded_shift",
                                                            "half_number",
                                                            "F16",
                                                            "BF16",
                                                            "Packed"});

std::string identifier(std::string_view name) {
  std::string text;
  for (const char c : name) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) text.insert(text.begin(), '_');
  return text;
}

/// v12 and acc3 belong to values and vars.
bool is_numbered(const std::string& name) {
  const std::size_t letters = name.starts_with("acc") ? 3 : name.starts_with("v") ? 1 : 0;
  return letters > 0 && name.size() > letters && name.find_first_not_of("0123456789", letters) == std::string::npos;
}

}  // namespace

Names::Names(const LoopProgram& program) : taken_(kReserved.begin(), kReserved.end()) {
  taken_.insert(program.name);
  for (const std::string& argument : program.arguments) {
    const bool own = argument == argument::kChunk || argument == argument::kChunks || folded_step(argument);
    symbols_[Symbol::dim(argument)] = own ? argument.substr(1) : fresh(argument == kScanStep ? "t" : argument);
  }
  for (const BufferDecl& buffer : program.buffers) buffers_.push_back(fresh(buffer.name));
  for (const ArrayDecl& array : program.arrays) arrays_.push_back(fresh(array.name));
}

std::string Names::fresh(const std::string& wanted) {
  const std::string base = identifier(wanted);
  std::string name = is_numbered(base) ? base + "_" : base;
  for (int k = 1; !taken_.insert(name).second; ++k) name = base + "_" + std::to_string(k);
  return name;
}

const std::string& Names::symbol(Symbol symbol) const {
  const auto it = symbols_.find(symbol);
  if (it == symbols_.end())
    throw InternalError("a subscript uses '" + symbol.name() + "', which no loop or argument defines");
  return it->second;
}

std::string Names::open(const stmt::For& loop) {
  return symbols_[loop.variable] = fresh(loop.name.empty() ? "i" : loop.name);
}

void Names::close(const stmt::For& loop) {
  taken_.erase(symbols_.at(loop.variable));
  symbols_.erase(loop.variable);
}

}  // namespace moxie::cuda_text
