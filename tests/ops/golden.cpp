#include "tests/ops/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "ops/catalogue.h"
#include "tests/ops/reference_values.h"

namespace moxie::golden {
namespace {

using Json = nlohmann::json;

/// Those that no shape shows stand under "dims"; golden files list the others there, too, by the letters of axes.
DimValues dims_of(const Program& program, const Json& json) {
  DimValues dims = reference::shown_dims(program, json.at("inputs"));
  const Json given = json.value("dims", Json::object());
  for (const DimDecl& dim : program.dims) {
    if (!dims.contains(dim.name) && given.contains(dim.name)) dims[dim.name] = given.at(dim.name);
  }
  return dims;
}

Tolerances tolerances(const Json& json, const std::string& precision, bool gradients) {
  return {json.at("rtol_" + precision), gradients ? json.at("rtol_grad_" + precision).get<double>() : 0.0,
          json.value("atol_" + precision, 0.0)};
}

/// A case whose gradients move further in single than its file says, because the error of the textbook evaluation, 8
/// times which that is, comes from roundings that happen to cancel.
struct IllConditioned {
  std::string_view op, name;
  double gradient;
};
/// By lambda: 2.5e-5 with Omega in single, 2.3e-6 with Omega in double.
constexpr std::array kIllConditioned = {IllConditioned{"gpn.vb_response_variance", "zero_covariance", 5e-5}};

Tolerances in_single(const Json& json, bool gradients) {
  Tolerances result = tolerances(json, "float32", gradients);
  for (const auto& [op, name, gradient] : kIllConditioned) {
    if (json.at("op") == op && json.at("name") == name) result.gradient = gradient;
  }
  return result;
}

Case read_case(const Json& json, const std::vector<std::string>& symmetric, const Program& program) {
  Case result;
  result.op = json.at("op");
  result.name = json.at("name");
  result.note = json.value("note", "");
  result.dims = dims_of(program, json);
  result.inputs = reference::read_tensors(json.at("inputs"));
  result.outputs = reference::read_tensors(json.at("outputs"));
  result.cotangents = reference::read_tensors(json.at("cotangents"));
  result.gradients = reference::read_tensors(json.at("gradients"));
  result.symmetric_inputs = symmetric;
  result.in_double = tolerances(json, "float64", !result.gradients.empty());
  result.in_single = in_single(json, !result.gradients.empty());
  if (result.outputs.empty()) throw std::runtime_error("a case has no outputs to compare");
  if (result.gradients.empty() && result.note.empty())
    throw std::runtime_error("a case has neither gradients nor a \"note\" that says why");
  return result;
}

}  // namespace

std::vector<Case> parse_cases(const std::string& op, const std::string& text) {
  const Program program = load_op(op);
  try {
    const Json json = Json::parse(text);
    const auto symmetric = json.value("symmetric_inputs", std::vector<std::string>());
    std::vector<Case> cases;
    for (const Json& item : json.at("cases")) cases.push_back(read_case(item, symmetric, program));
    return cases;
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{}.json: {}", op, error.what()));
  }
}

std::vector<Case> read_cases(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<Case> cases;
  for (const auto& file : files) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    std::ranges::move(parse_cases(file.stem().string(), text.str()), std::back_inserter(cases));
  }
  return cases;
}

bool has_gradients(const std::string& op) { return op != "schedule.step"; }

std::vector<double> symmetrised(const std::vector<double>& values, std::size_t size) {
  std::vector<double> result = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t block = i / (size * size) * (size * size);
    const std::size_t mirror = block + i % size * size + i / size % size;
    result[i] = (values[i] + values[mirror]) / 2;
  }
  return result;
}

}  // namespace moxie::golden
