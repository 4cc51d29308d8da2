#include "runtime/file_name.h"

#include <doctest/doctest.h>

#include "compiler/support/error.h"

using namespace moxie;

TEST_CASE("a name from a file becomes a path inside the folder or an error that names its source") {
  for (const std::string name :
       {"a", "k_mean.loop.txt", "..a", "a..", "ein Wort.txt", "gr\xc3\xbc\xc3\x9f", "-rf", "~"})
    CHECK(path_inside("d", name, "m.json") == std::filesystem::path("d") / name);
  for (const std::string name :
       {"", ".", "..", "/", "/etc/passwd", "../a", "a/../../b", "a/b", "a/", "a\n", "\x1b[2J", "a\x7f"})
    CHECK_THROWS_WITH_AS(path_inside("d", name, "m.json"), doctest::Contains("m.json: the file name '"), DataError);
  CHECK_THROWS_AS(path_inside("d", std::string("a\0b", 3), "m.json"), DataError);
  CHECK_NOTHROW(path_inside("d", std::string(255, 'a'), "m.json"));
  CHECK_THROWS_AS(path_inside("d", std::string(256, 'a'), "m.json"), DataError);
}
