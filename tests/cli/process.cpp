#include "tests/cli/process.h"

#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace moxie::test {
namespace {

std::string quoted(const std::string& text) { return "'" + text + "'"; }

}  // namespace

Outcome Workshop::shell(const std::string& command) const {
  const auto start = std::chrono::steady_clock::now();
  const std::string line = "cd " + quoted(folder_.path().string()) + " && { " + command + "; } >.out 2>.err";
  const int status = std::system(line.c_str());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(path(".out")), read_file(path(".err")), seconds};
}

Outcome Workshop::moxie(const std::vector<std::string>& arguments, const std::string& environment) const {
  std::string command = "MOXIE_CACHE_DIR=" + quoted(path("cache").string()) + " " + environment + quoted(MOXIE_PROGRAM);
  for (const std::string& argument : arguments) command += " " + quoted(argument);
  return shell(command);
}

void Workshop::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}

std::string read_file(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace moxie::test
