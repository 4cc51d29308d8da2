#include "tests/values/function_values.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace moxie::testing {
namespace {

long double number(const std::string& text) { return std::strtold(text.c_str(), nullptr); }

ValueRow row_of(std::istringstream words, int arity) {
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  if (all.size() != static_cast<std::size_t>(arity) + 2)
    throw std::runtime_error("a row of function_values.txt has " + std::to_string(all.size()) + " words");
  ValueRow row{{}, number(all[all.size() - 2]), static_cast<double>(number(all.back()))};
  for (int k = 0; k < arity; ++k)
    row.arguments.push_back(std::strtod(all[static_cast<std::size_t>(k)].c_str(), nullptr));
  return row;
}

std::map<std::string, FunctionValues> read() {
  std::ifstream file(MOXIE_FUNCTION_VALUES);
  std::map<std::string, FunctionValues> functions;
  FunctionValues* current = nullptr;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string head, name;
    if (line.starts_with('#')) continue;
    if (line.starts_with("function ")) {
      words >> head >> name;
      current = &functions[name];
      words >> current->arity;
    } else if (current != nullptr) {
      current->rows.push_back(row_of(std::move(words), current->arity));
    }
  }
  if (functions.empty()) throw std::runtime_error("there are no reference values in " MOXIE_FUNCTION_VALUES);
  return functions;
}

}  // namespace

const std::map<std::string, FunctionValues>& function_values() {
  static const std::map<std::string, FunctionValues> functions = read();
  return functions;
}

}  // namespace moxie::testing
