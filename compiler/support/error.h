#pragma once
// The one family of exceptions that moxie throws. A message says what was wrong, where, and what to do.
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace moxie {

/// The parts of a message, for programs that show them in their own way; those that an error does not have are empty.
struct ErrorDetails {
  std::string problem;        // what was wrong, without the place
  std::string remedy = {};    // what to do
  std::string file = {};      // of the text that is wrong
  int line = 0, column = 0;   // in it, from 1; 0 where they are not known
  std::string name = {};      // of the tensor or dim that does not fit
  std::string expected = {};  // in its place, such as "[3,4]"
  std::string found = {};     // instead
};

/// what() is the whole message. Copies share their details.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : Error(message, ErrorDetails{message}) {}
  Error(const std::string& message, ErrorDetails details)
      : std::runtime_error(message), details_(std::make_shared<const ErrorDetails>(std::move(details))) {}

  const ErrorDetails& details() const noexcept { return *details_; }

 private:
  std::shared_ptr<const ErrorDetails> details_;
};

/// Malformed .mox text; the message carries file:line:column and the source line with a caret.
class ParseError : public Error {
 public:
  using Error::Error;
};
/// A tensor, dim or subscript whose extent does not fit.
class ShapeError : public Error {
 public:
  using Error::Error;
};
/// A dtype, name or kind of expression that is not allowed where it stands.
class TypeError : public Error {
 public:
  using Error::Error;
};
/// A Program that cannot be compiled (the reason is in the message).
class CompileError : public Error {
 public:
  using Error::Error;
};
/// A device that is absent, failed, or met values outside a formula's domain while running.
class DeviceError : public Error {
 public:
  using Error::Error;
};
/// Values outside of a formula's domain, met while it runs.
class DomainError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};
/// A data file that is missing, damaged or does not hold what it should.
class DataError : public Error {
 public:
  using Error::Error;
};
/// Options that are each right but do not go together, a value out of its range, or a name that does not exist.
class UsageError : public Error {
 public:
  using Error::Error;
};
/// A kernel cache that cannot be used.
class CacheError : public Error {
 public:
  using Error::Error;
};

/// A broken invariant inside moxie itself: never the user's fault, always a bug to report.
class InternalError : public Error {
 public:
  using Error::Error;
};

}  // namespace moxie
