// SPDX-License-Identifier: Apache-2.0
#include "dtype.h"

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include <array>

#include "numpy.h"

namespace tenon::python {
namespace {

constexpr int kOwnTypes = 24;  // NumPy's numbers below it are its own types, the same in every version

struct Type {
  uint32_t number;
  const char* name;   // as NumPy and ml_dtypes call it
  int numpy;          // NPY_*; NPY_NOTYPE: of ml_dtypes; NPY_OBJECT: no type of plain elements
};

constexpr Type kTypes[] = {
    {TENON_DT_FLOAT, "float32", NPY_FLOAT32},
    {TENON_DT_DOUBLE, "float64", NPY_FLOAT64},
    {TENON_DT_HALF, "float16", NPY_FLOAT16},
    {TENON_DT_INT8, "int8", NPY_INT8},
    {TENON_DT_INT16, "int16", NPY_INT16},
    {TENON_DT_INT32, "int32", NPY_INT32},
    {TENON_DT_INT64, "int64", NPY_INT64},
    {TENON_DT_UINT8, "uint8", NPY_UINT8},
    {TENON_DT_UINT16, "uint16", NPY_UINT16},
    {TENON_DT_UINT32, "uint32", NPY_UINT32},
    {TENON_DT_UINT64, "uint64", NPY_UINT64},
    {TENON_DT_BOOL, "bool", NPY_BOOL},
    {TENON_DT_COMPLEX64, "complex64", NPY_COMPLEX64},
    {TENON_DT_COMPLEX128, "complex128", NPY_COMPLEX128},
    {TENON_DT_QINT8, "qint8", NPY_INT8},
    {TENON_DT_QUINT8, "quint8", NPY_UINT8},
    {TENON_DT_QINT16, "qint16", NPY_INT16},
    {TENON_DT_QUINT16, "quint16", NPY_UINT16},
    {TENON_DT_QINT32, "qint32", NPY_INT32},
    {TENON_DT_BFLOAT16, "bfloat16", NPY_NOTYPE},
    {TENON_DT_FLOAT8_E5M2, "float8_e5m2", NPY_NOTYPE},
    {TENON_DT_FLOAT8_E4M3FN, "float8_e4m3fn", NPY_NOTYPE},
    {TENON_DT_FLOAT8_E4M3FNUZ, "float8_e4m3fnuz", NPY_NOTYPE},
    {TENON_DT_FLOAT8_E4M3B11FNUZ, "float8_e4m3b11fnuz", NPY_NOTYPE},
    {TENON_DT_FLOAT8_E5M2FNUZ, "float8_e5m2fnuz", NPY_NOTYPE},
    {TENON_DT_FLOAT8_E8M0FNU, "float8_e8m0fnu", NPY_NOTYPE},
    {TENON_DT_FLOAT4_E2M1FN, "float4_e2m1fn", NPY_NOTYPE},
    {TENON_DT_INT4, "int4", NPY_NOTYPE},
    {TENON_DT_UINT4, "uint4", NPY_NOTYPE},
    {TENON_DT_INT2, "int2", NPY_NOTYPE},
    {TENON_DT_UINT2, "uint2", NPY_NOTYPE},
    {TENON_DT_STRING, "string", NPY_OBJECT},
    {TENON_DT_RESOURCE, "resource", NPY_OBJECT},
    {TENON_DT_VARIANT, "variant", NPY_OBJECT},
};

const Type* Find(DType dtype) {
  for (const Type& type : kTypes)
    if (type.number == static_cast<uint32_t>(dtype)) return &type;
  return nullptr;
}

nb::object MlDtype(const Type& type) {
  nb::object scalar;
  try {
    scalar = nb::module_::import_("ml_dtypes").attr(type.name);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError) && !error.matches(PyExc_AttributeError)) throw;
    Fail(Code::kFailedPrecondition,
         std::string("NumPy has no type ") + type.name + ", and the package ml_dtypes, which has it, is " +
             (error.matches(PyExc_ImportError) ? "not installed: pip install ml_dtypes" : "too old for it") +
             "; or cast to float32 before you fetch");
  }
  PyArray_Descr* descr = nullptr;
  if (PyArray_DescrConverter(scalar.ptr(), &descr) == 0) throw nb::python_error();
  return nb::steal<nb::object>(reinterpret_cast<PyObject*>(descr));
}

// Of ml_dtypes' types, by their names: their numbers are given at run time.
DType FromExtensionType(PyArray_Descr* descr) {
  const std::string name = nb::cast<std::string>(nb::handle(reinterpret_cast<PyObject*>(descr)).attr("name"));
  for (const Type& type : kTypes)
    if (type.numpy == NPY_NOTYPE && name == type.name) return static_cast<DType>(type.number);
  return DType::kInvalid;
}

// A type of NumPy's that cannot change, found once.
DType FromNumber(int number) {
  static const std::array<DType, kOwnTypes> table = [] {
    std::array<DType, kOwnTypes> made;
    made.fill(DType::kInvalid);
    for (const Type& type : kTypes) {
      if (type.numpy < 0 || type.numpy >= kOwnTypes || type.numpy == NPY_OBJECT) continue;
      DType& entry = made[static_cast<size_t>(type.numpy)];
      if (entry == DType::kInvalid) entry = static_cast<DType>(type.number);
    }
    // long long and long are of one size here, and two of NumPy's types.
    made[NPY_LONG] = sizeof(long) == 8 ? DType::kInt64 : DType::kInt32;
    made[NPY_ULONG] = sizeof(long) == 8 ? DType::kUint64 : DType::kUint32;
    made[NPY_LONGLONG] = DType::kInt64;
    made[NPY_ULONGLONG] = DType::kUint64;
    made[NPY_OBJECT] = made[NPY_STRING] = made[NPY_UNICODE] = DType::kString;
    return made;
  }();
  return table[static_cast<size_t>(number)];
}

DType FromName(const std::string& name) {
  for (const Type& type : kTypes)
    if (name == type.name) return static_cast<DType>(type.number);
  if (name == "str" || name == "bytes" || name == "object") return DType::kString;
  const DType found = host::DTypeFromName(name);
  if (found != DType::kInvalid) return found;
  std::string names;
  for (const Type& type : kTypes) names += std::string(names.empty() ? "" : ", ") + type.name;
  FailInvalid("there is no element type '" + name + "'; there are: " + names);
}

}  // namespace

nb::object NumpyType(DType dtype) {
  const Type* type = Find(dtype);
  if (type == nullptr || type->numpy == NPY_OBJECT)
    FailInvalid("a tensor of " + NameOf(dtype) + " has no elements that NumPy could hold");
  if (type->numpy == NPY_NOTYPE) return MlDtype(*type);
  return nb::steal<nb::object>(reinterpret_cast<PyObject*>(PyArray_DescrFromType(type->numpy)));
}

DType FromNumpyType(nb::handle handle) {
  auto* descr = reinterpret_cast<PyArray_Descr*>(handle.ptr());
  constexpr int kStringDType = 2056;  // NumPy 2's NPY_VSTRING
  if (descr->type_num == kStringDType) return DType::kString;
  if (descr->type_num >= kOwnTypes) return FromExtensionType(descr);
  return FromNumber(descr->type_num);
}

DType ToDType(nb::handle value) {
  if (nb::isinstance<ElementType>(value)) return nb::cast<ElementType>(value).value;
  if (nb::isinstance<nb::str>(value)) return FromName(nb::cast<std::string>(value));
  PyArray_Descr* descr = nullptr;
  if (value.is_none() || PyArray_DescrConverter(value.ptr(), &descr) == 0) {
    PyErr_Clear();
    FailInvalid("an element type is a tenon.DType, a name such as \"float32\", or a NumPy type; found " +
                nb::cast<std::string>(nb::repr(value)));
  }
  const auto owned = nb::steal<nb::object>(reinterpret_cast<PyObject*>(descr));
  const DType dtype = FromNumpyType(owned);
  if (dtype == DType::kInvalid)
    FailInvalid("NumPy's type " + nb::cast<std::string>(nb::str(owned)) + " is no element type of tensors");
  return dtype;
}

std::string NameOf(DType dtype) {
  if (const Type* type = Find(dtype)) return type->name;
  const std::string name = host::DTypeName(dtype);
  return name.empty() ? "unknown" : name;
}

std::string Describe(DType dtype, const Shape& shape) {
  return NameOf(dtype) + (shape.has_rank() ? shape.ToString() : "[...]");
}

nb::object FromShape(const Shape& shape) {
  if (!shape.has_rank()) return nb::none();
  auto dims = nb::steal<nb::tuple>(PyTuple_New(shape.rank()));
  for (int32_t i = 0; i < shape.rank(); ++i) {
    const int64_t dim = shape[static_cast<size_t>(i)];
    PyTuple_SetItem(dims.ptr(), i, dim < 0 ? nb::none().release().ptr() : PyLong_FromLongLong(dim));
  }
  return dims;
}

Shape ToShape(nb::handle value) {
  if (value.is_none()) return Shape::Unknown();
  if (PyLong_Check(value.ptr()))
    FailInvalid("a shape is a sequence of sizes, such as (2, None), or None; found " +
                nb::cast<std::string>(nb::repr(value)));
  std::vector<int64_t> dims;
  for (const nb::handle dim : nb::iter(value)) {
    if (dim.is_none()) {
      dims.push_back(-1);
      continue;
    }
    const int64_t size = PyLong_AsLongLong(dim.ptr());
    if (size == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (size < -1)
      FailInvalid("a size of " + std::to_string(size) + " in the shape " + nb::cast<std::string>(nb::repr(value)));
    dims.push_back(size);
  }
  return Shape(std::move(dims));
}

void BindDTypes(nb::module_& module) {
  nb::class_<ElementType>(module, "DType",
                          "The type of a tensor's elements. Made of a name or a NumPy type, and equal to either.")
      .def(
          "__init__", [](ElementType* self, nb::object value) { new (self) ElementType{ToDType(value)}; },
          nb::arg("value"))
      .def_prop_ro(
          "name", [](ElementType self) { return NameOf(self.value); }, "\"float32\"")
      .def_prop_ro(
          "number", [](ElementType self) { return static_cast<uint32_t>(self.value); },
          "TensorFlow's number of the type")
      .def_prop_ro(
          "size", [](ElementType self) { return host::DTypeSize(self.value); },
          "bytes of an element; 0 where elements are no plain memory")
      .def_prop_ro(
          "numpy", [](ElementType self) { return NumpyType(self.value); }, "NumPy's type; an error where it has none")
      .def("__repr__", [](ElementType self) { return "tenon." + NameOf(self.value); })
      .def("__str__", [](ElementType self) { return NameOf(self.value); })
      .def("__hash__", [](ElementType self) { return static_cast<uint32_t>(self.value); })
      .def(
          "__eq__",
          [](ElementType self, nb::object other) {
            try {
              return self.value == ToDType(other);
            } catch (const StatusError&) { return false; }
          },
          nb::arg("other").none());
  for (const Type& type : kTypes) module.attr(type.name) = FromDType(static_cast<DType>(type.number));
}

}  // namespace tenon::python
