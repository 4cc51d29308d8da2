#include "python/core/errors.h"

#include <nanobind/nanobind.h>

#include <new>

#include "compiler/support/error.h"

namespace nb = nanobind;

namespace moxie::python {
namespace {

void raise(const char* type, const std::string& message) {
  try {
    const nb::object python_type = nb::module_::import_("moxie.errors").attr(type);
    PyErr_SetString(python_type.ptr(), message.c_str());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

/// The most specific types first.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const PythonError& error) {
    raise(error.type(), error.message());
  } catch (const ParseError& error) {
    raise("FormulaError", error.what());
  } catch (const ShapeError& error) {
    raise("ShapeError", error.what());
  } catch (const TypeError& error) {
    raise("InputError", error.what());
  } catch (const CompileError& error) {
    raise("CompileError", error.what());
  } catch (const DomainError& error) {
    raise("DomainError", error.what());
  } catch (const DeviceError& error) {
    raise("DeviceError", error.what());
  } catch (const DataError& error) {  // from the check of inputs: nothing here reads files
    raise("DomainError", error.what());
  } catch (const InternalError& error) {
    raise("InternalError", error.what());
  } catch (const Error& error) {
    raise("Error", error.what());
  }
}

}  // namespace

void translate_errors() { nb::register_exception_translator(translate); }

}  // namespace moxie::python
