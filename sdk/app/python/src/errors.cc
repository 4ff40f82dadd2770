// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include "cause.h"

namespace tenon::python {
namespace {

// Sets the exception; tenon/errors.py chooses its class and reads node, op and file from the message.
void Raise(const Status& status) {
  try {
    const nb::object make = nb::module_::import_("tenon.errors").attr("make_error");
    const std::string_view name = host::CodeName(status.code());
    // Messages may hold bytes of a stranger's file.
    const auto text = nb::steal<nb::object>(
        PyUnicode_DecodeUTF8(status.message().data(), static_cast<Py_ssize_t>(status.message().size()), "replace"));
    const nb::object error = make(nb::str(name.data(), name.size()), text);
    if (nb::object cause = TakeCause(status.message()); cause.is_valid()) {
      // What is no error, as SystemExit and KeyboardInterrupt, goes on as what it is.
      if (!PyObject_TypeCheck(cause.ptr(), reinterpret_cast<PyTypeObject*>(PyExc_Exception)))
        return PyErr_SetObject(cause.type().ptr(), cause.ptr());
      PyException_SetCause(error.ptr(), cause.release().ptr());
    }
    PyErr_SetObject(error.type().ptr(), error.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

}  // namespace

void BindErrors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const StatusError& error) {
      Raise(error.status());
    } catch (const nb::cast_error&) {
      PyErr_SetString(PyExc_TypeError, "an argument is of another type than what it stands for");
    }
  });
}

}  // namespace tenon::python
