// SPDX-License-Identifier: Apache-2.0
// NumPy's C API, for the files that need it: module.cc imports it once for all.
#ifndef TENON_PYTHON_NUMPY_H_
#define TENON_PYTHON_NUMPY_H_

#define PY_ARRAY_UNIQUE_SYMBOL tenon_python_numpy
#ifndef TENON_PYTHON_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION  // the oldest NumPy that this runs with
#include <nanobind/nanobind.h>
#include <numpy/arrayobject.h>
#if NPY_ABI_VERSION < 0x02000000
#error "a module made with the headers of NumPy 1 does not load into NumPy 2; those of NumPy 2 serve both"
#endif

#endif  // TENON_PYTHON_NUMPY_H_
