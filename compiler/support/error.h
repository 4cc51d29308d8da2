#pragma once
// The one family of exceptions that moxie throws. A message says what was wrong, where, and what to do.
#include <stdexcept>
#include <string>

namespace moxie {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
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
