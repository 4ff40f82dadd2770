// SPDX-License-Identifier: Apache-2.0
// Failures on their way to Python: a Status becomes an exception of tenon.errors.
//
// In C++ a failure travels as StatusError; what leaves a bound function is a tenon.Error of the code's own class. An
// error that Python itself raised (in a callback, or by a signal's handler) travels as nanobind's python_error.
#ifndef TENON_PYTHON_ERRORS_H_
#define TENON_PYTHON_ERRORS_H_

#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <utility>

#include "lock.h"
#include "tenon/tenon.h"

namespace tenon::python {

namespace nb = nanobind;
using host::Code, host::DType, host::Result, host::Shape, host::Status, host::Tensor, host::View;

class StatusError : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)) {}
  const char* what() const noexcept override { return status_.message().c_str(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

[[noreturn]] inline void Fail(Code code, std::string message) { throw StatusError(Status(code, std::move(message))); }
[[noreturn]] inline void FailInvalid(std::string message) { Fail(Code::kInvalidArgument, std::move(message)); }

inline void Check(Status status) {
  if (!status.ok()) throw StatusError(std::move(status));
}
template <typename T>
T Take(Result<T> result) {
  if (!result.ok()) throw StatusError(result.status());
  return *std::move(result);
}

// Tells Python's collector of the objects that a bound T keeps (T::VisitKept gives them), so that a circle through it
// can be found. What breaks a circle is one of Python's own objects in it.
template <typename T>
int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  int stopped = 0;
  nb::inst_ptr<T>(self)->VisitKept([&](nb::handle kept) {
    if (stopped == 0 && kept.is_valid()) stopped = visit(kept.ptr(), arg);
  });
  return stopped;
}
template <typename T>
inline PyType_Slot traversed_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&Traverse<T>)}, {0, nullptr}};

// Each in its file: what the module holds.
void BindErrors(nb::module_& module);
void BindDTypes(nb::module_& module);
void BindTensors(nb::module_& module);
void BindRuntimes(nb::module_& module);
void BindGraphs(nb::module_& module);
void BindCallables(nb::module_& module);
void BindSessions(nb::module_& module);
void BindPartialRuns(nb::module_& module);
void BindWorkers(nb::module_& module);
void BindDefinedOps(nb::module_& module);
void BindModels(nb::module_& module);
void BindTrainModels(nb::module_& module);
void BindTrainNetworks(nb::module_& module);
void BindSavers(nb::module_& module);
void BindTrainers(nb::module_& module);
void BindLbfgs(nb::module_& module);

}  // namespace tenon::python

#endif  // TENON_PYTHON_ERRORS_H_
