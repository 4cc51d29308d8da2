#pragma once
// moxie's exceptions as those of Python, which moxie/errors.py defines.
#include <string>

namespace moxie::python {

/// A failure for which there is no type in C++: `type` names a class of moxie/errors.py.
class PythonError {
 public:
  PythonError(const char* type, std::string message) : type_(type), message_(std::move(message)) {}
  const char* type() const { return type_; }
  const std::string& message() const { return message_; }

 private:
  const char* type_;
  std::string message_;
};

/// From here on, exceptions of moxie that leave a bound function become those of Python.
void translate_errors();

}  // namespace moxie::python
