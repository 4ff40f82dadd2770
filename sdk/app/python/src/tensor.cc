// SPDX-License-Identifier: Apache-2.0
#include "tensor.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>

#include "later.h"
#include "numpy.h"

namespace tenon::python {
namespace {

PyArrayObject* AsArray(nb::handle value) { return reinterpret_cast<PyArrayObject*>(value.ptr()); }
bool IsArray(nb::handle value) { return PyArray_Check(value.ptr()); }
nb::object DescrOf(PyArrayObject* array) { return nb::borrow(reinterpret_cast<PyObject*>(PyArray_DESCR(array))); }

nb::object Steal(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal<nb::object>(object);
}

Shape ShapeOf(PyArrayObject* array) {
  const npy_intp* dims = PyArray_DIMS(array);
  return Shape(std::vector<int64_t>(dims, dims + PyArray_NDIM(array)));
}

View ViewOf(PyArrayObject* array, DType dtype) {
  return View(dtype, ShapeOf(array), PyArray_DATA(array), static_cast<uint64_t>(PyArray_NBYTES(array)));
}

// ---- Strings ----

std::string_view BytesOf(PyObject* element, npy_intp index, const std::string& what) {
  if (PyBytes_Check(element)) return {PyBytes_AsString(element), static_cast<size_t>(PyBytes_Size(element))};
  if (PyUnicode_Check(element)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(element, &size);
    if (text == nullptr) throw nb::python_error();
    return {text, static_cast<size_t>(size)};
  }
  FailInvalid(what + ": element " + std::to_string(index) + " is " +
              nb::cast<std::string>(nb::repr(nb::handle(element))) + "; a tensor of strings is made of str and bytes");
}

// Of S, U, StringDType and object arrays.
Tensor StringTensor(nb::handle array, const std::string& what) {
  const auto objects = Steal(PyArray_FROMANY(array.ptr(), NPY_OBJECT, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST));
  auto** elements = static_cast<PyObject**>(PyArray_DATA(AsArray(objects)));
  std::vector<tenon_span> spans;
  const npy_intp count = PyArray_SIZE(AsArray(objects));
  spans.reserve(static_cast<size_t>(count));
  for (npy_intp i = 0; i < count; ++i) spans.push_back(host::Span(BytesOf(elements[i], i, what)));
  tenon_tensor* tensor = nullptr;
  Check(Status::Take(
      tenon_tensor_create_strings(ShapeOf(AsArray(objects)).c_shape(), spans.data(), spans.size(), &tensor)));
  return Tensor::Take(tensor);
}

nb::object StringArray(const Tensor& tensor) {
  std::vector<npy_intp> dims;
  const Shape shape = tensor.shape();
  for (const int64_t dim : shape.dims()) dims.push_back(dim);
  auto array = Steal(PyArray_SimpleNew(static_cast<int>(dims.size()), dims.data(), NPY_OBJECT));
  auto** elements = static_cast<PyObject**>(PyArray_DATA(AsArray(array)));
  for (npy_intp i = 0; i < PyArray_SIZE(AsArray(array)); ++i) {
    const std::string_view text = tensor.string(static_cast<uint64_t>(i));
    PyObject* element = PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    if (element == nullptr) throw nb::python_error();
    Py_XDECREF(std::exchange(elements[i], element));
  }
  return array;
}

// ---- Numbers ----

bool AllTrue(nb::handle array) { return nb::cast<bool>(nb::bool_(array.attr("all")())); }

// The array in the wanted type; of the same kind, and integers unchanged.
nb::object Cast(nb::handle array, DType found, DType wanted, const std::string& what) {
  const auto refuse = [&](const std::string& why) {
    FailInvalid(what + " is " + NameOf(wanted) + "; found " + Describe(found, ShapeOf(AsArray(array))) + why);
  };
  if (wanted == DType::kString || wanted == DType::kResource || wanted == DType::kVariant) refuse("");
  const nb::object type = NumpyType(wanted);
  auto* descr = reinterpret_cast<PyArray_Descr*>(type.ptr());
  if (PyArray_DESCR(AsArray(array))->type_num == descr->type_num)
    return nb::borrow(array);  // codes of a quantized type
  // NumPy knows nothing of the kinds of ml_dtypes' types: all of them are numbers.
  const bool to_extension =
      descr->type_num >= NPY_USERDEF && PyTypeNum_ISNUMBER(PyArray_DESCR(AsArray(array))->type_num);
  if (!to_extension && PyArray_CanCastTypeTo(PyArray_DESCR(AsArray(array)), descr, NPY_SAME_KIND_CASTING) == 0)
    refuse(", which does not become it without a cast");
  const auto owned = nb::borrow(type);
  auto cast = Steal(PyArray_CastToType(AsArray(array), reinterpret_cast<PyArray_Descr*>(owned.inc_ref().ptr()), 0));
  if (PyTypeNum_ISINTEGER(descr->type_num)) {
    const auto same = Steal(PyObject_RichCompare(array.ptr(), cast.ptr(), Py_EQ));
    if (!AllTrue(same)) refuse(", of which some are beyond it");
  }
  return cast;
}

// Python's numbers and lists as an array, as NumPy reads them. type: of the elements, a new reference; NULL: NumPy's
// choice.
nb::object ArrayOf(nb::handle value, const std::string& what, PyArray_Descr* type = nullptr) {
  PyObject* array = PyArray_FromAny(value.ptr(), type, 0, 0, 0, nullptr);
  if (array != nullptr) return nb::steal<nb::object>(array);
  nb::python_error error;
  FailInvalid(what + ": NumPy makes no array of it: " + error.what());
}

DType TypeOfArray(nb::handle array, const std::string& what) {
  const nb::object descr = DescrOf(AsArray(array));
  const DType dtype = FromNumpyType(descr);
  if (dtype == DType::kInvalid)
    FailInvalid(what + ": NumPy's type " + nb::cast<std::string>(nb::str(descr)) + " is no element type of tensors");
  return dtype;
}

// float32 and int32 where Python does not say how wide.
DType Narrow(nb::handle array, DType dtype) {
  if (dtype == DType::kDouble) return DType::kFloat;
  if (dtype == DType::kComplex128) return DType::kComplex64;
  if (dtype != DType::kInt64 || PyArray_SIZE(AsArray(array)) == 0)
    return dtype == DType::kInt64 ? DType::kInt32 : dtype;
  const auto least = nb::cast<int64_t>(nb::int_(array.attr("min")())),
             most = nb::cast<int64_t>(nb::int_(array.attr("max")()));
  return least >= INT32_MIN && most <= INT32_MAX ? DType::kInt32 : DType::kInt64;
}

bool SharesByDLPack(nb::handle value) {
  return PyObject_HasAttrString(value.ptr(), "__dlpack__") && PyObject_HasAttrString(value.ptr(), "__dlpack_device__");
}

// Lists whose elements have a type of their own keep it.
bool HasArrays(nb::handle value) {
  if (IsArray(value) || PyArray_CheckScalar(value.ptr())) return true;
  if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr())) return false;
  for (const nb::handle element : nb::iter(value))
    if (HasArrays(element)) return true;
  return false;
}

FedValue FromArray(nb::object array, DType found, DType wanted, const std::string& what) {
  if (found == DType::kString) {
    if (wanted != DType::kInvalid && wanted != DType::kString)
      FailInvalid(what + " is " + NameOf(wanted) + "; found strings, or objects that are no numbers");
    return StringTensor(array, what);
  }
  if (wanted != DType::kInvalid && wanted != found) {
    array = Cast(array, found, wanted, what);
    found = wanted;
  }
  // The very array where it can be read as it stands; else a copy.
  array = Steal(PyArray_CheckFromAny(array.ptr(), nullptr, 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_NOTSWAPPED, nullptr));
  View view = ViewOf(AsArray(array), found);
  return {std::move(view), std::move(array)};
}

template <typename T>
FedValue ScalarOf(T value) {
  return Take(Tensor::Scalar(value));
}

// Python's own numbers, without NumPy. Nothing: another type, or one that needs a look at its range.
bool FromPythonNumber(nb::handle value, DType wanted, FedValue* out) {
  if (PyFloat_CheckExact(value.ptr())) {
    const double number = PyFloat_AsDouble(value.ptr());
    if (wanted == DType::kFloat || wanted == DType::kInvalid) return *out = ScalarOf(static_cast<float>(number)), true;
    if (wanted == DType::kDouble) return *out = ScalarOf(number), true;
    return false;
  }
  if (PyBool_Check(value.ptr()) && (wanted == DType::kBool || wanted == DType::kInvalid))
    return *out = ScalarOf(value.ptr() == Py_True), true;
  if (!PyLong_CheckExact(value.ptr())) return false;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) return false;
  const bool fits = number >= INT32_MIN && number <= INT32_MAX;
  if (wanted == DType::kInt32 && fits) return *out = ScalarOf(static_cast<int32_t>(number)), true;
  if (wanted == DType::kInt64) return *out = ScalarOf(static_cast<int64_t>(number)), true;
  if (wanted == DType::kFloat) return *out = ScalarOf(static_cast<float>(number)), true;
  if (wanted == DType::kDouble) return *out = ScalarOf(static_cast<double>(number)), true;
  if (wanted != DType::kInvalid) return false;
  *out = fits ? ScalarOf(static_cast<int32_t>(number)) : ScalarOf(static_cast<int64_t>(number));
  return true;
}

FedValue FromString(nb::handle value, DType wanted, const std::string& what) {
  if (wanted != DType::kInvalid && wanted != DType::kString)
    FailInvalid(what + " is " + NameOf(wanted) + "; found a string");
  return Take(Tensor::String(BytesOf(value.ptr(), 0, what)));
}

// Numbers and lists. What NumPy made wider than the user said is no cast of the user's.
FedValue FromPython(nb::handle value, DType wanted, const std::string& what) {
  nb::object array = ArrayOf(value, what);
  DType found = TypeOfArray(array, what);
  // As they were given: NumPy would make strings of what stands among them, and drop the zero bytes at their ends.
  if (found == DType::kString)
    return FromArray(ArrayOf(value, what, PyArray_DescrFromType(NPY_OBJECT)), found, wanted, what);
  if (HasArrays(value)) return FromArray(std::move(array), found, wanted, what);
  if (wanted == DType::kInvalid) wanted = Narrow(array, found);
  const bool empty = PyArray_SIZE(AsArray(array)) == 0;
  if (wanted == DType::kString && empty)
    return Take(Tensor::Strings(std::span<const std::string>(), ShapeOf(AsArray(array))));
  // An empty list is float64 to NumPy, and of any type to us; integers are numbers of every other kind.
  if (empty || (found == DType::kInt64 && wanted != DType::kBool && wanted != DType::kString)) {
    const nb::object type = NumpyType(wanted);
    auto cast = Steal(
        PyArray_CastToType(AsArray(array), reinterpret_cast<PyArray_Descr*>(nb::borrow(type).release().ptr()), 0));
    if (!empty && !AllTrue(Steal(PyObject_RichCompare(array.ptr(), cast.ptr(), Py_EQ))) &&
        PyTypeNum_ISINTEGER(PyArray_DESCR(AsArray(cast))->type_num))
      FailInvalid(what + " is " + NameOf(wanted) + "; found integers beyond it");
    return FromArray(std::move(cast), wanted, wanted, what);
  }
  return FromArray(std::move(array), found, wanted, what);
}

}  // namespace

FedValue ToView(nb::handle value, DType wanted, const std::string& what) {
  if (IsArray(value)) return FromArray(nb::borrow(value), TypeOfArray(value, what), wanted, what);
  if (nb::isinstance<TensorBox>(value)) return nb::cast<const TensorBox&>(value).tensor;
  FedValue number{Tensor()};
  if (FromPythonNumber(value, wanted, &number)) return number;
  if (PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr())) return FromString(value, wanted, what);
  if (value.is_none()) FailInvalid(what + ": found None; a value is an array, a number, a string, or a list of these");
  if (SharesByDLPack(value) && !PyArray_CheckScalar(value.ptr())) return TakeDLPack(value);
  return FromPython(value, wanted, what);
}

namespace {

// A code of DLPack's says the very type, and not another of its size.
bool HasDLPackType(DType dtype) {
  switch (static_cast<uint32_t>(dtype)) {
    case TENON_DT_QINT8:
    case TENON_DT_QUINT8:
    case TENON_DT_QINT16:
    case TENON_DT_QUINT16:
    case TENON_DT_QINT32:
      return false;
    default:
      return static_cast<uint32_t>(dtype) <= TENON_DT_UINT64;
  }
}

// Memory that an array lends to a tensor.
struct Lent {
  tenon_dl_managed_tensor managed = {};
  std::vector<int64_t> dims;
  nb::object keeps;
};

void GiveBack(tenon_dl_managed_tensor* managed) {
  const std::unique_ptr<Lent> lent(static_cast<Lent*>(managed->manager_ctx));
  LetGoLater(std::move(lent->keeps));
}

}  // namespace

Tensor ToTensor(nb::handle value, DType wanted, bool copy, const std::string& what) {
  FedValue fed = ToView(value, wanted, what);
  const tenon_tensor_view view = fed.view.c_view();
  const auto dtype = static_cast<DType>(view.dtype);
  if (fed.tensor) return fed.tensor;
  const Shape shape(std::vector<int64_t>(view.dl.shape, view.dl.shape + view.dl.ndim));
  if (copy || !HasDLPackType(dtype) || view.byte_size == 0)
    return Take(Tensor::FromBytes(dtype, shape, view.dl.data, view.byte_size));
  LetGo();
  auto lent = std::make_unique<Lent>();
  lent->dims = shape.dims();
  lent->keeps = std::move(fed.keeps);
  lent->managed.dl_tensor = view.dl;
  lent->managed.dl_tensor.shape = lent->dims.data();
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = &GiveBack;
  Tensor tensor = Take(Tensor::FromDLPack(&lent->managed));
  lent.release();
  return tensor;
}

DType NaturalType(nb::handle value) {
  if (nb::isinstance<TensorBox>(value)) return nb::cast<const TensorBox&>(value).tensor.dtype();
  if (IsArray(value)) return TypeOfArray(value, "the value");
  return static_cast<DType>(ToView(value, DType::kInvalid, "the value").view.c_view().dtype);
}

nb::object FromTensor(const Tensor& tensor, const std::shared_ptr<const void>& runtime) {
  const DType dtype = tensor.dtype();
  if (tensor.on_host() && dtype == DType::kString) return StringArray(tensor);
  TensorBox box{tensor, tensor.on_host() ? nullptr : runtime};
  const bool plain =
      tensor.on_host() && host::DTypeSize(dtype) > 0 && dtype != DType::kResource && dtype != DType::kVariant;
  if (!plain || (static_cast<uint32_t>(dtype) & TENON_DT_VENDOR_FLAG) != 0) return nb::cast(std::move(box));
  return ToArray(box);
}

nb::object ToArray(const TensorBox& box) {
  const Tensor& tensor = box.tensor;
  if (!tensor.on_host())
    Fail(Code::kFailedPrecondition,
         "the tensor lies in a device's memory; Session.copy_tensor(tensor, \"\") brings it to the host's");
  if (tensor.dtype() == DType::kString) return StringArray(tensor);
  return ArrayOver(*tensor.view(), nb::cast(TensorBox(box)));
}

nb::object ToWritableArray(const TensorBox& box) {
  nb::object array = ToArray(box);
  PyArray_ENABLEFLAGS(AsArray(array), NPY_ARRAY_WRITEABLE);
  return array;
}

nb::object ArrayOver(const tenon_tensor_view& view, nb::object owner) {
  nb::object type = NumpyType(static_cast<DType>(view.dtype));
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  auto* data = static_cast<char*>(view.dl.data) + view.dl.byte_offset;
  // Without a pointer NumPy would make memory of its own: tensors without elements.
  auto array = Steal(PyArray_NewFromDescr(&PyArray_Type, reinterpret_cast<PyArray_Descr*>(type.release().ptr()),
                                          view.dl.ndim, reinterpret_cast<npy_intp*>(view.dl.shape), nullptr,
                                          view.byte_size == 0 ? nullptr : data, 0, nullptr));
  PyArray_CLEARFLAGS(AsArray(array), NPY_ARRAY_WRITEABLE);
  if (view.byte_size > 0 && PyArray_SetBaseObject(AsArray(array), owner.release().ptr()) != 0) throw nb::python_error();
  return array;
}

}  // namespace tenon::python
