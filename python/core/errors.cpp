#include "python/core/errors.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <new>

namespace nb = nanobind;

namespace moxie::python {
namespace {

/// None where the error does not have it.
template <class T>
nb::object known(const T& value) {
  return value == T{} ? nb::object(nb::none()) : nb::cast(value);
}

void raise(const char* type, const std::string& message, const ErrorDetails& details) {
  try {
    const nb::object python_type = nb::module_::import_("moxie.errors").attr(type);
    const nb::object error = python_type(message);
    error.attr("problem") = details.problem;
    error.attr("remedy") = known(details.remedy);
    error.attr("file") = known(details.file);
    error.attr("line") = known(details.line);
    error.attr("column") = known(details.column);
    error.attr("name") = known(details.name);
    error.attr("expected") = known(details.expected);
    error.attr("found") = known(details.found);
    PyErr_SetObject(python_type.ptr(), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

/// The most specific types first.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const PythonError& error) {
    raise(error.type(), error.message(), error.details());
  } catch (const ParseError& error) {
    raise("FormulaError", error.what(), error.details());
  } catch (const ShapeError& error) {
    raise("ShapeError", error.what(), error.details());
  } catch (const TypeError& error) {
    raise("InputError", error.what(), error.details());
  } catch (const CompileError& error) {
    raise("CompileError", error.what(), error.details());
  } catch (const DomainError& error) {
    raise("DomainError", error.what(), error.details());
  } catch (const DeviceError& error) {
    raise("DeviceError", error.what(), error.details());
  } catch (const DataError& error) {  // from the check of inputs: nothing here reads files
    raise("DomainError", error.what(), error.details());
  } catch (const InternalError& error) {
    raise("InternalError", error.what(), error.details());
  } catch (const Error& error) {
    raise("Error", error.what(), error.details());
  }
}

}  // namespace

PythonError unexpected(const char* type, const std::string& input, const std::string& expected,
                       const std::string& found, const std::string& remedy) {
  const std::string problem = fmt::format("input {}: expected {}, found {}", input, expected, found);
  return {type,
          remedy.empty() ? problem : fmt::format("{}; {}", problem, remedy),
          {.problem = problem, .remedy = remedy, .name = input, .expected = expected, .found = found}};
}

void translate_errors() { nb::register_exception_translator(translate); }

}  // namespace moxie::python
