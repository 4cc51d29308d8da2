#pragma once
// Setting: a switch of the environment for the duration of a test.
#include <cstdlib>

namespace moxie::test {

/// An environment variable for the duration of a scope.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

}  // namespace moxie::test
