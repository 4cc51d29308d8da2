#include "runtime/aot/header.h"

#include <fmt/format.h>

#include <algorithm>
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

std::string domain_text(const ValueDomain& domain) {
  return domain == ValueDomain::Any ? "" : ", " + to_string(domain);
}

std::string field(const TensorArgument& tensor) {
  return fmt::format("  struct {{ {}{} *data; int64_t count; }} {}; /* {}{}; count: {} */\n",
                     tensor.output ? "" : "const ", info_of(tensor.dtype).c, tensor.field,
                     tensor.name + (tensor.shape.empty() ? "" : shape_text(tensor.shape)), domain_text(tensor.domain),
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

std::string cpu_functions(const std::string& name) {
  return fmt::format(
      "/* The bytes that {0}() wants; depends on the dims only. */\n"
      "moxie_status {0}_workspace(const {0}_arguments *arguments, int64_t *bytes, moxie_message *message);\n"
      "/* No memory is shared between inputs, outputs and the workspace. */\n"
      "moxie_status {0}(const {0}_arguments *arguments, void *workspace, int64_t workspace_bytes,\n"
      "    moxie_message *message);\n\n",
      name);
}

std::string gpu_functions(const std::string& name, std::int64_t words) {
  return fmt::format(
      "/* The kernels of {0}() in a GPU's memory. */\n"
      "typedef struct {0}_gpu {{ int64_t words[{1}]; }} {0}_gpu;\n"
      "/* Loads them into the current context of the CUDA driver; what was loaded may be used by any thread. */\n"
      "moxie_status {0}_cuda_load({0}_gpu *gpu, moxie_message *message);\n"
      "moxie_status {0}_cuda_unload({0}_gpu *gpu, moxie_message *message);\n"
      "moxie_status {0}_cuda_workspace(const {0}_gpu *gpu, const {0}_arguments *arguments, int64_t *bytes,\n"
      "    moxie_message *message);\n"
      "/* Enqueues all on the stream (a CUstream) and waits for nothing. Tensors and workspace lie in the GPU's "
      "memory. */\n"
      "moxie_status {0}_cuda(const {0}_gpu *gpu, const {0}_arguments *arguments, void *workspace, int64_t "
      "workspace_bytes,\n"
      "    void *stream, moxie_message *message);\n"
      "/* Waits for the stream, and says whether values were outside the formula's domain in the last call there. */\n"
      "moxie_status {0}_cuda_check(const {0}_gpu *gpu, const void *workspace, void *stream, moxie_message "
      "*message);\n\n",
      name, words);
}

std::string function(const HeaderFunction& f) {
  return fmt::format("/*\n{}*/\n{}\n", quoted(f.formula, " * "), arguments(f.interface)) +
         (f.on_cpu ? cpu_functions(f.interface.name) : "") +
         (f.gpu_words > 0 ? gpu_functions(f.interface.name, f.gpu_words) : "");
}

}  // namespace

std::string prediction_example(ExportedKind kind) {
  static constexpr std::string_view names[] = {"classes", "values", "others"};
  constexpr std::string_view kMark = "//@", kEvery = "every kind";
  std::string result;
  bool belongs = true;
  for (std::string_view text = template_text("aot/predict.c"); !text.empty();) {
    const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    if (!line.starts_with(kMark)) {
      if (belongs) result += line;
      continue;
    }
    const std::string_view part = line.substr(kMark.size(), line.size() - kMark.size() - 1);
    belongs = part == kEvery || part == names[static_cast<int>(kind)];
  }
  return result;
}

std::string c_header(const std::string& library, const std::vector<HeaderFunction>& functions) {
  const std::string guard = upper(library) + "_H";
  std::string text = fmt::format(
      "/* Made by moxie {0}. Tensors lie row by row, their last axis fastest. Functions allocate nothing, keep "
      "nothing\n"
      " * from call to call, and may be called by any number of threads, each with its own outputs and workspace.\n"
      " * An input with \">= 0\" or the like beside it holds such values only. This is not checked, and without it "
      "results "
      "are undefined. */\n"
      "#ifndef {1}\n#define {1}\n\n{2}\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
      MOXIE_VERSION, guard, template_text("aot/abi.h"));
  for (const HeaderFunction& f : functions) text += function(f);
  return text +
         fmt::format(
             "/* What the library holds, as JSON: the text of {0}.json. */\nextern const char {0}_manifest[];\n\n"
             "#ifdef __cplusplus\n}}\n#endif\n\n#endif\n",
             library);
}

}  // namespace moxie::aot
