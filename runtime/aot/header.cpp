#include "runtime/aot/header.h"

#include <fmt/format.h>

#include <cctype>

#include "codegen_templates/templates.h"

namespace moxie::aot {
namespace {

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

/// Within a comment of C.
std::string quoted(std::string text, const std::string& margin) {
  for (std::size_t at = text.find("*/"); at != std::string::npos; at = text.find("*/", at)) text.insert(at + 1, " ");
  std::string result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result += margin + text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return result;
}

std::string sign_text(SignDomain sign) {
  return sign == SignDomain::Positive ? ", > 0" : sign == SignDomain::NonNegative ? ", >= 0" : "";
}

std::string field(const TensorArgument& tensor) {
  return fmt::format("  struct {{ {}{} *data; int64_t count; }} {}; /* {}{}; count: {} */\n",
                     tensor.output ? "" : "const ", tensor.dtype == DType::f32 ? "float" : "double", tensor.field,
                     tensor.name + (tensor.shape.empty() ? "" : shape_text(tensor.shape)), sign_text(tensor.sign),
                     count_text(tensor.shape));
}

std::string arguments(const Interface& interface) {
  std::string text = fmt::format("typedef struct {}_arguments {{\n", interface.name);
  for (const DimArgument& dim : interface.dims) text += fmt::format("  int64_t {};\n", dim.field);
  for (const bool output : {false, true}) {
    text += fmt::format("  /* {} */\n", output ? "outputs" : "inputs");
    for (const TensorArgument& tensor : interface.tensors) {
      if (tensor.output == output) text += field(tensor);
    }
  }
  if (interface.random) text += "  /* of random numbers */\n  uint64_t seed, step;\n";
  return text + fmt::format("}} {}_arguments;\n", interface.name);
}

std::string function(const Interface& interface, const std::string& formula) {
  return fmt::format(
      "/*\n{0}*/\n{1}\n"
      "/* The bytes that {2}() wants; depends on the dims only. */\n"
      "moxie_status {2}_workspace(const {2}_arguments *arguments, int64_t *bytes, moxie_message *message);\n"
      "/* No memory is shared between inputs, outputs and the workspace. */\n"
      "moxie_status {2}(const {2}_arguments *arguments, void *workspace, int64_t workspace_bytes,\n"
      "    moxie_message *message);\n\n",
      quoted(formula, " * "), arguments(interface), interface.name);
}

}  // namespace

std::string c_header(const std::string& library, const std::vector<Interface>& functions,
                     const std::vector<std::string>& formulas) {
  const std::string guard = upper(library) + "_H";
  std::string text = fmt::format(
      "/* Made by moxie {0}. Tensors lie row by row, their last axis fastest. Functions allocate nothing, keep nothing\n"
      " * from call to call, and may be called by any number of threads, each with its own outputs and workspace. */\n"
      "#ifndef {1}\n#define {1}\n\n{2}\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
      MOXIE_VERSION, guard, template_text("aot/abi.h"));
  for (std::size_t k = 0; k < functions.size(); ++k) text += function(functions[k], formulas[k]);
  return text +
         fmt::format("/* What the library holds, as JSON: the text of {0}.json. */\nextern const char {0}_manifest[];\n\n"
                     "#ifdef __cplusplus\n}}\n#endif\n\n#endif\n",
                     library);
}

}  // namespace moxie::aot
