// SPDX-License-Identifier: Apache-2.0
// Element types between Tenon and NumPy.
//
// NumPy has most of them itself; bfloat16, the float8 types and those of less than eight bits come from the package
// ml_dtypes, if it is installed. Codes of quantized types are NumPy's integers. Strings, resources and variants have no
// NumPy type of plain elements.
#ifndef TENON_PYTHON_DTYPE_H_
#define TENON_PYTHON_DTYPE_H_

#include <string>

#include "errors.h"

namespace tenon::python {

// NumPy's type of a plain Tenon type, as a new reference to its PyArray_Descr. Throws StatusError where there is none,
// or where ml_dtypes is not installed.
nb::object NumpyType(DType dtype);
// The Tenon type of a NumPy type (a PyArray_Descr); kInvalid where there is none. Strings of every kind are kString.
DType FromNumpyType(nb::handle descr);
// Python's tenon.DType.
struct ElementType {
  DType value;
};
inline nb::object FromDType(DType dtype) { return nb::cast(ElementType{dtype}); }
// What a user may name a type by: a tenon.DType, "float32" or "float", a NumPy type. Throws StatusError, with near
// misses for names.
DType ToDType(nb::handle value);
// TensorFlow's name where there is one: "float32"; NumPy's users know it.
std::string NameOf(DType dtype);
// "float32[2,3]".
std::string Describe(DType dtype, const Shape& shape);

// (2, None), or None for an unknown rank; and back, from any sequence of integers and None.
nb::object FromShape(const Shape& shape);
Shape ToShape(nb::handle value);

}  // namespace tenon::python

#endif  // TENON_PYTHON_DTYPE_H_
