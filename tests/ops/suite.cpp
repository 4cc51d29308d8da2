#include "tests/ops/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "compiler/program/program.h"
#include "tests/ops/reference_values.h"

namespace moxie::suite {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kLeastGradient = 1e-3;

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// What the shapes show, what the case gives, and what the text sets.
DimValues dims_of(const Program& program, const Json& json) {
  DimValues dims = reference::shown_dims(program, json.at("inputs"));
  for (const auto& [name, value] : json.at("dims").items()) dims[name] = value;
  for (const DimDecl& dim : program.dims) {
    if (dim.value) dims.emplace(dim.name, *dim.value);
    if (!dims.contains(dim.name)) throw std::runtime_error(fmt::format("dim {} has no value", dim.name));
  }
  return dims;
}

Case read_case(const Json& json, const Program& program) {
  Case result;
  result.name = json.at("name");
  result.dims = dims_of(program, json);
  result.inputs = reference::read_tensors(json.at("inputs"));
  result.outputs = reference::read_tensors(json.at("outputs"));
  result.cotangents = reference::read_tensors(json.at("cotangents"));
  result.gradients = reference::read_tensors(json.at("gradients"));
  if (json.contains("jacobians")) {
    for (const auto& [output, tensors] : json.at("jacobians").items())
      result.jacobians[output] = reference::read_tensors(tensors);
  }
  result.in_double = json.at("rtol_float64");
  result.in_single = json.at("rtol_float32");
  if (result.outputs.empty() || result.gradients.empty())
    throw std::runtime_error(fmt::format("case {} has nothing to compare: no outputs or no gradients", result.name));
  return result;
}

}  // namespace

std::vector<fs::path> formulas(const fs::path& folder) {
  std::vector<fs::path> texts;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".mox") texts.push_back(entry.path());
  }
  for (fs::path text : texts) {
    if (!fs::exists(text.replace_extension(".json")))
      throw std::runtime_error(text.string() + ": missing; its formula has no reference values");
  }
  std::ranges::sort(texts);
  return texts;
}

Formula read_formula(const fs::path& text) {
  Formula formula{parse(read_text(text), text.filename().string()), {}};
  formula.program.name = text.stem().string();
  fs::path values = text;
  values.replace_extension(".json");
  try {
    const Json json = Json::parse(read_text(values));
    for (const Json& item : json.at("cases")) formula.cases.push_back(read_case(item, formula.program));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{}: {}", values.string(), error.what()));
  }
  if (formula.cases.empty()) throw std::runtime_error(values.string() + ": there are no cases");
  return formula;
}

double error_of_output(const Case& reference, const std::string& name, const std::vector<double>& got) {
  return reference::relative_error(got, reference.outputs.at(name));
}

double error_of_jacobian(const Case& reference, const std::string& output, const std::string& input,
                         const std::vector<double>& got) {
  return reference::relative_error(got, reference.jacobians.at(output).at(input));
}

double error_of_gradient(const Case& reference, const std::string& name, const std::vector<double>& got) {
  double scale = 0;
  for (const auto& [input, gradient] : reference.gradients) scale = std::max(scale, reference::largest(gradient));
  return reference::relative_error(got, reference.gradients.at(name), 0, kLeastGradient * scale);
}

}  // namespace moxie::suite
