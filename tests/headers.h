#pragma once
// What most test programs include: a compiler parses it once for all of them.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "compiler/diff/differentiate.h"
#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
