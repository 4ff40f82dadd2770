// SPDX-License-Identifier: Apache-2.0
// The extension module tenon._core.
#define TENON_PYTHON_IMPORTS_NUMPY
#include <string>

#include "errors.h"
#include "interrupt.h"
#include "numpy.h"

namespace {

// A function of its own: NumPy's macro returns where NumPy is missing.
void* ImportNumpy() {
  import_array();
  return &PyArray_API;
}

// Another libtenon.so may come first where LD_LIBRARY_PATH or a program has one of its own.
void CheckVersion() {
  const std::string found(tenon::host::Version());
  if (found == TENON_MODULE_VERSION) return;
  PyErr_Format(PyExc_ImportError,
               "tenon._core is of Tenon %s, and the libtenon.so.0 that this process has is of %s; take the other one "
               "out of LD_LIBRARY_PATH, or install again",
               TENON_MODULE_VERSION, found.c_str());
  throw nanobind::python_error();
}

}  // namespace

NB_MODULE(_core, module) {
  using namespace tenon::python;  // NOLINT: the module's own
  if (ImportNumpy() == nullptr) throw nb::python_error();
  CheckVersion();
  // What lives when the interpreter ends is the process's, such as the default runtime.
  nb::set_leak_warnings(false);
  FindMainThread();
  BindErrors(module);
  BindDTypes(module);
  BindTensors(module);
  BindRuntimes(module);
  BindGraphs(module);
  BindCallables(module);
  BindSessions(module);
  BindPartialRuns(module);
  BindWorkers(module);
  BindDefinedOps(module);
  BindModels(module);
  BindTrainModels(module);
  BindTrainNetworks(module);
  BindSavers(module);
  BindTrainers(module);
  BindLbfgs(module);
}
