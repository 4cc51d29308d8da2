// Test cases with every outcome, of which skips.py looks at the exit codes.
#include <doctest/doctest.h>

#include "tests/skip.h"

TEST_CASE("passes") { CHECK(true); }
TEST_CASE("skips") { moxie::test::skip("there is no reason"); }
TEST_CASE("fails") { CHECK(false); }
