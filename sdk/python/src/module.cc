// SPDX-License-Identifier: Apache-2.0
// The extension module tenon._core.
#define TENON_PYTHON_IMPORTS_NUMPY
#include "errors.h"
#include "interrupt.h"
#include "numpy.h"

namespace {

// A function of its own: NumPy's macro returns where NumPy is missing.
void* ImportNumpy() {
  import_array();
  return &PyArray_API;
}

}  // namespace

NB_MODULE(_core, module) {
  using namespace tenon::python;  // NOLINT: the module's own
  if (ImportNumpy() == nullptr) throw nb::python_error();
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
