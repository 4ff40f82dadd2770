// SPDX-License-Identifier: Apache-2.0
// tenon.Tensor, and its DLPack side: capsules of the old kind and of the versioned one, taken and given.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "tensor.h"

namespace tenon::python {
namespace {

constexpr char kOld[] = "dltensor", kVersioned[] = "dltensor_versioned";
constexpr char kUsedOld[] = "used_dltensor", kUsedVersioned[] = "used_dltensor_versioned";

// A capsule that nobody took gives its memory back itself.
template <typename Managed>
void Discard(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

nb::object MakeCapsule(const Tensor& tensor, bool versioned) {
  PyObject* capsule = nullptr;
  if (versioned) {
    tenon_dl_managed_tensor_versioned* managed = nullptr;
    Check(Status::Take(tenon_tensor_to_dlpack_versioned(tensor.get(), &managed)));
    capsule = PyCapsule_New(managed, kVersioned,
                            [](PyObject* self) { Discard<tenon_dl_managed_tensor_versioned>(self, kVersioned); });
  } else {
    capsule = PyCapsule_New(Take(tensor.ToDLPack()), kOld,
                            [](PyObject* self) { Discard<tenon_dl_managed_tensor>(self, kOld); });
  }
  if (capsule == nullptr) throw nb::python_error();
  return nb::steal(capsule);
}

std::tuple<int, int> DeviceOf(const Tensor& tensor) {
  const tenon_dl_tensor& dl = tensor.view()->dl;
  return {tensor.on_host() ? 1 : dl.device_type, tensor.on_host() ? 0 : dl.device_id};
}

// The consumer may want a copy, which DLPack's caller says by copy=True; an immutable tensor is as good, unless it is
// to be written.
nb::object ToDLPack(const TensorBox& box, nb::object, const std::optional<std::tuple<int, int>>& max_version,
                    const std::optional<std::tuple<int, int>>& dl_device, std::optional<bool> copy) {
  if (dl_device && *dl_device != DeviceOf(box.tensor)) {
    PyErr_SetString(PyExc_BufferError, "the tensor lies on another device; Session.copy_tensor brings it there");
    throw nb::python_error();
  }
  Tensor tensor = box.tensor;
  if (copy.value_or(false)) {
    if (!tensor.on_host())
      Fail(Code::kUnimplemented, "a copy of a tensor in a device's memory; Session.copy_tensor makes one");
    const tenon_tensor_view& view = *tensor.view();
    tensor = Take(Tensor::FromBytes(tensor.dtype(), tensor.shape(), tensor.bytes().data(), view.byte_size));
  }
  return MakeCapsule(tensor, max_version && std::get<0>(*max_version) >= 1);
}

template <typename Managed, typename Taker>
Tensor TakeFrom(nb::handle capsule, const char* name, const char* used, const Taker& take) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (managed == nullptr) throw nb::python_error();
  tenon_tensor* tensor = nullptr;
  Check(Status::Take(take(managed, &tensor)));
  // The memory is ours: the capsule must not give it back.
  PyCapsule_SetName(capsule.ptr(), used);
  PyCapsule_SetDestructor(capsule.ptr(), nullptr);
  return Tensor::Take(tensor);
}

nb::object CapsuleOf(nb::handle source) {
  const nb::object export_it = source.attr("__dlpack__");
  try {
    return export_it(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return export_it();  // it knows the old protocol alone
}

std::string Repr(const TensorBox& box) {
  if (!box.tensor) return "<tenon.Tensor without a value>";
  std::string text = "<tenon.Tensor " + Describe(box.tensor.dtype(), box.tensor.shape());
  if (!box.tensor.on_host()) return text + ", in a device's memory>";
  if (host::DTypeSize(box.tensor.dtype()) == 0 && box.tensor.dtype() != DType::kString) return text + ">";
  constexpr int64_t kMostShown = 8;
  if (box.tensor.element_count() > kMostShown) return text + ">";
  try {
    return text + ": " + nb::cast<std::string>(nb::str(ToArray(box))) + ">";
  } catch (const StatusError&) {
    return text + ">";  // a type that NumPy has not
  }
}

// take_old, take_versioned: the functions of the C API for either kind.
template <typename Old, typename Versioned>
Tensor TakeWith(nb::handle source, const Old& take_old, const Versioned& take_versioned) {
  const nb::object capsule = PyCapsule_CheckExact(source.ptr()) ? nb::borrow(source) : CapsuleOf(source);
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned) != 0)
    return TakeFrom<tenon_dl_managed_tensor_versioned>(capsule, kVersioned, kUsedVersioned, take_versioned);
  if (PyCapsule_IsValid(capsule.ptr(), kOld) != 0)
    return TakeFrom<tenon_dl_managed_tensor>(capsule, kOld, kUsedOld, take_old);
  FailInvalid("the capsule holds no DLPack tensor, or one that somebody has taken already");
}

}  // namespace

Tensor TakeDLPack(nb::handle source) {
  return TakeWith(source, &tenon_tensor_from_dlpack, &tenon_tensor_from_dlpack_versioned);
}

Tensor TakeDLPackOn(const host::Session& session, const std::string& device, nb::handle source) {
  const auto on = [&](auto take) {
    return [&, take](auto* managed, tenon_tensor** tensor) {
      return take(session.get(), host::Span(device), managed, tensor);
    };
  };
  return TakeWith(source, on(&tenon_session_tensor_from_dlpack), on(&tenon_session_tensor_from_dlpack_versioned));
}

void BindTensors(nb::module_& module) {
  nb::class_<TensorBox>(module, "Tensor", R"(An immutable value: elements in memory that several may share.

Made of an array it reads the array's own memory where that is contiguous, so do not write there while the tensor lives; copy=True takes a copy.
numpy() and DLPack give the tensor's memory, read-only, without a copy.)")
      .def(
          "__init__",
          [](TensorBox* self, nb::object value, nb::object dtype, bool copy) {
            const DType wanted = dtype.is_none() ? DType::kInvalid : ToDType(dtype);
            Tensor tensor = ToTensor(value, wanted, copy, "the tensor's value");
            if (wanted != DType::kInvalid && tensor.dtype() != wanted)
              FailInvalid("the tensor's value is " + NameOf(tensor.dtype()) + "; " + NameOf(wanted) + " was asked for");
            new (self) TensorBox{std::move(tensor), nullptr};
          },
          nb::arg("value"), nb::arg("dtype") = nb::none(), nb::kw_only(), nb::arg("copy") = false)
      .def_prop_ro("dtype", [](const TensorBox& self) { return FromDType(self.tensor.dtype()); })
      .def_prop_ro("shape", [](const TensorBox& self) { return FromShape(self.tensor.shape()); })
      .def_prop_ro("ndim", [](const TensorBox& self) { return self.tensor.shape().rank(); })
      .def_prop_ro(
          "size", [](const TensorBox& self) { return self.tensor.element_count(); }, "how many elements")
      .def_prop_ro("nbytes", [](const TensorBox& self) { return self.tensor ? self.tensor.view()->byte_size : 0; })
      .def_prop_ro(
          "on_host", [](const TensorBox& self) { return self.tensor.on_host(); },
          "whether its elements can be read here")
      .def_prop_ro(
          "address",
          [](const TensorBox& self) {
            const tenon_dl_tensor& dl = self.tensor.view()->dl;
            return reinterpret_cast<uintptr_t>(dl.data) + dl.byte_offset;
          },
          "of the first element, in its device's memory")
      .def("numpy", &ToArray,
           "The elements as a read-only NumPy array over the tensor's memory; strings as an array of bytes objects.")
      .def(
          "__array__",
          [](const TensorBox& self, nb::object dtype, nb::object copy) {
            nb::object array = ToArray(self);
            if (!dtype.is_none() || (!copy.is_none() && nb::cast<bool>(copy))) {
              const bool must_copy = !copy.is_none() && nb::cast<bool>(copy);
              return nb::object(array.attr("astype")(dtype.is_none() ? nb::object(array.attr("dtype")) : dtype,
                                                     nb::arg("copy") = must_copy));
            }
            return array;
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack__", &ToDLPack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const TensorBox& self) { return DeviceOf(self.tensor); })
      .def("__len__",
           [](const TensorBox& self) {
             if (self.tensor.shape().rank() == 0) throw nb::type_error("a scalar has no length");
             return self.tensor.shape()[0];
           })
      .def("__float__", [](const TensorBox& self) { return nb::float_(ToArray(self)); })
      .def("__int__", [](const TensorBox& self) { return nb::int_(ToArray(self)); })
      .def("__bool__", [](const TensorBox& self) { return nb::cast<bool>(nb::bool_(ToArray(self))); })
      .def("__repr__", &Repr);
  module.def(
      "from_dlpack",
      [](nb::object source) {
        return TensorBox{TakeDLPack(source), nullptr};
      },
      nb::arg("source"),
      "A tensor over the host memory of another library's array, without a copy unless it has strides. `source`: "
      "whatever has __dlpack__, or a "
      "capsule. Of a device's memory: Session.from_dlpack.");
  module.def("_natural_type", [](nb::object value) { return FromDType(NaturalType(value)); }, nb::arg("value"));
}

}  // namespace tenon::python
