// SPDX-License-Identifier: Apache-2.0
// Values on their way in and out.
//
// In: whatever a user gives becomes a View of its memory where that can be read as it stands, and a copy where it
// cannot (strides, another byte order, another type, strings, Python's numbers). Out: a NumPy array over the tensor's
// own memory, which lives as long as the array.
#ifndef TENON_PYTHON_TENSOR_H_
#define TENON_PYTHON_TENSOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dtype.h"
#include "errors.h"

namespace tenon::python {

// Python's tenon.Tensor. What lies in a device's memory keeps its runtime.
struct TensorBox {
  TensorBox(Tensor value, std::shared_ptr<const void> its_runtime)
      : runtime(std::move(its_runtime)), tensor(std::move(value)) {}
  std::shared_ptr<const void> runtime;  // outlives the tensor
  Tensor tensor;
};

// A value that is fed: a tensor, or an array's memory, which the object keeps.
struct FedValue {
  FedValue(Tensor own) : view(own), tensor(std::move(own)) {}  // NOLINT: implicit on purpose
  FedValue(View borrowed, nb::object owner) : view(std::move(borrowed)), keeps(std::move(owner)) {}
  View view;
  nb::object keeps;
  Tensor tensor;
};

// wanted: the type that whoever gets the value asks for, or kInvalid where anything will do. Python's numbers and lists
// become it, and arrays of another type are cast where NumPy calls that of the same kind and no integer changes; else
// INVALID_ARGUMENT names both, and `what` ("feed 'x'"). Without a wanted type Python's floats are float32, its integers
// int32 where they fit and else int64; arrays keep theirs.
FedValue ToView(nb::handle value, DType wanted, const std::string& what);
// The same as a tensor that may outlive the call. copy: never over the array's memory, which may change.
Tensor ToTensor(nb::handle value, DType wanted, bool copy, const std::string& what);
// The type that a value has by itself, without a copy of it: the array's, or a scalar's as above.
DType NaturalType(nb::handle value);

// A read-only array over the tensor's memory; strings are copied into an array of bytes objects. Tensors of a device,
// resources and variants stay tensors. runtime: of a device's memory.
nb::object FromTensor(const Tensor& tensor, const std::shared_ptr<const void>& runtime);
// An error where FromTensor would give the tensor.
nb::object ToArray(const TensorBox& box);

// A writable one, over memory that the caller may write (Session::PinnedTensor).
nb::object ToWritableArray(const TensorBox& box);

// A read-only array over host memory of plain elements, which the owner keeps.
nb::object ArrayOver(const tenon_tensor_view& view, nb::object owner);

// A capsule of DLPack ("dltensor" or "dltensor_versioned"), or any object that makes one.
Tensor TakeDLPack(nb::handle source);
// The same of a device's memory that a session knows by name.
Tensor TakeDLPackOn(const host::Session& session, const std::string& device, nb::handle source);

}  // namespace tenon::python

#endif  // TENON_PYTHON_TENSOR_H_
