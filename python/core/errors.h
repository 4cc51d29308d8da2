#pragma once
// moxie's exceptions as those of Python, which moxie/errors.py defines.
#include <string>
#include <utility>

#include "compiler/support/error.h"

namespace moxie::python {

/// A failure for which there is no type in C++: `type` names a class of moxie/errors.py.
class PythonError {
 public:
  PythonError(const char* type, const std::string& message) : PythonError(type, message, {message}) {}
  PythonError(const char* type, std::string message, ErrorDetails details)
      : type_(type), message_(std::move(message)), details_(std::move(details)) {}
  const char* type() const { return type_; }
  const std::string& message() const { return message_; }
  const ErrorDetails& details() const { return details_; }

 private:
  const char* type_;
  std::string message_;
  ErrorDetails details_;
};

/// "input x: expected float32, found int64; convert it: ..." with these as its details.
PythonError unexpected(const char* type, const std::string& input, const std::string& expected,
                       const std::string& found, const std::string& remedy = "");

/// From here on, exceptions of moxie that leave a bound function become those of Python.
void translate_errors();

}  // namespace moxie::python
