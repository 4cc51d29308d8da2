// Tables of machines survive as JSON; a calibrated one is used on its processor only, and only undamaged.
#include "runtime/machine_file.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "compiler/support/error.h"
#include "runtime/kernel_cache.h"
#include "runtime/private_file.h"
#include "runtime/temporary_folder.h"

using namespace moxie;

namespace {

void write(const std::filesystem::path& path, const std::string& text) { std::ofstream(path) << text; }

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

}  // namespace

TEST_CASE("a table survives as JSON") {
  for (const Machine& machine : default_machines()) CHECK(machine_from_json(to_json(machine)) == machine);
}

TEST_CASE("what is no table is refused with the figure that is wrong") {
  const std::string text = to_json(default_machine("x86-64-v3"));
  const auto refusal = [](const std::string& json) -> std::string {
    try {
      machine_from_json(json);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refusal(replaced(text, "gigahertz", "gigaherz")).find("'gigahertz' is missing") != std::string::npos);
  CHECK(refusal(replaced(text, "\"vector_bits\": 256", "\"vector_bits\": -1")).find("'vector_bits'") !=
        std::string::npos);
  CHECK(refusal(replaced(text, "\"port\": \"load\"", "\"port\": \"harbour\"")).find("harbour") != std::string::npos);
  CHECK(refusal(replaced(text, "way_bytes", "way")).find("'way_bytes' is missing") != std::string::npos);
  CHECK(refusal(text.substr(0, text.size() / 2)).find("machine table") != std::string::npos);
  CHECK(refusal("[]").find("machine table") != std::string::npos);
}

TEST_CASE("a saved table is the one that is loaded; a damaged one, or that of another processor, is not") {
  const TemporaryFolder folder;
  const Machine& known = default_machine("x86-64-v3");
  CHECK(load_machine("x86-64-v3", folder.path()) == known);
  Machine measured = known;
  measured.gigahertz = 1.25;
  measured.levels[1].bytes = 12345;
  measured.operations[2].cycles = 0.75;
  save_machine(measured, folder.path());
  CHECK(load_machine("x86-64-v3", folder.path()) == measured);
  CHECK(load_machine("x86-64-v4", folder.path()) == default_machine("x86-64-v4"));
  CHECK(load_machine("x86-64-v3", {}) == known);

  const std::filesystem::path path = machine_file(folder.path(), "x86-64-v3");
  const std::string text = *read_regular_file(path);
  write(path, replaced(text, "\"processor\": \"", "\"processor\": \"another "));
  CHECK(load_machine("x86-64-v3", folder.path()) == known);
  write(path, replaced(text, "x86-64-v3", "x86-64-v4"));
  CHECK(load_machine("x86-64-v3", folder.path()) == known);
  for (const std::string& damaged :
       {text.substr(0, text.size() / 2), std::string(), std::string("{}"), std::string("\0", 1)}) {
    write(path, damaged);
    CHECK(load_machine("x86-64-v3", folder.path()) == known);
  }
}
