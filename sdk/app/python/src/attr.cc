// SPDX-License-Identifier: Apache-2.0
#include "attr.h"

#include <nanobind/stl/string.h>

#include "tensor.h"
#include "text.h"

namespace tenon::python {
namespace {

std::string TextOf(nb::handle value) {
  if (PyBytes_Check(value.ptr()))
    return std::string(PyBytes_AsString(value.ptr()), static_cast<size_t>(PyBytes_Size(value.ptr())));
  return nb::cast<std::string>(value);
}

template <typename T, typename Convert>
host::Attr ListAttr(const std::string& name, nb::handle value, const Convert& convert) {
  std::vector<T> values;
  for (const nb::handle element : nb::iter(value)) values.push_back(convert(element));
  return host::Attr(name, std::move(values));
}

template <typename T, typename Convert>
host::Attr AttrOf(const std::string& name, bool is_list, nb::handle value, const Convert& convert) {
  if (is_list) return ListAttr<T>(name, value, convert);
  return host::Attr(name, convert(value));
}

nb::object FromElement(const tenon_attr_value& value, uint64_t i) {
  const auto bytes = [](tenon_span span) { return nb::bytes(span.data == nullptr ? "" : span.data, span.size); };
  switch (value.kind & ~TENON_ATTR_LIST) {
    case TENON_ATTR_STRING: {
      const tenon_span span = static_cast<const tenon_span*>(value.data)[i];
      if (PyObject* text =
              PyUnicode_DecodeUTF8(span.data == nullptr ? "" : span.data, static_cast<Py_ssize_t>(span.size), nullptr))
        return nb::steal(text);
      PyErr_Clear();
      return bytes(span);
    }
    case TENON_ATTR_FUNCTION:
      return ToStr(static_cast<const tenon_span*>(value.data)[i]);
    case TENON_ATTR_INT:
      return nb::int_(static_cast<const int64_t*>(value.data)[i]);
    case TENON_ATTR_FLOAT:
      return nb::float_(static_cast<const float*>(value.data)[i]);
    case TENON_ATTR_BOOL:
      return nb::bool_(static_cast<const uint8_t*>(value.data)[i] != 0);
    case TENON_ATTR_TYPE:
      return FromDType(static_cast<DType>(static_cast<const uint32_t*>(value.data)[i]));
    case TENON_ATTR_SHAPE:
      return FromShape(Shape::From(static_cast<const tenon_shape*>(value.data)[i]));
    case TENON_ATTR_TENSOR: {
      const tenon_tensor_view& view = static_cast<const tenon_tensor_view*>(value.data)[i];
      const Shape shape(std::vector<int64_t>(view.dl.shape, view.dl.shape + view.dl.ndim));
      const auto dtype = static_cast<DType>(view.dtype);
      if (dtype != DType::kString)
        return FromTensor(
            Take(Tensor::FromBytes(dtype, shape, static_cast<const char*>(view.dl.data) + view.dl.byte_offset,
                                   view.byte_size)),
            nullptr);
      return FromTensor(Take(Tensor::Copy(view)), nullptr);
    }
    default:
      return nb::none();
  }
}

}  // namespace

host::Attr ToAttr(const std::string& name, std::string_view kind, nb::handle value) {
  const bool is_list = kind.starts_with("list(");
  if (is_list) kind = kind.substr(5, kind.size() - 6);
  if (kind == "string") return AttrOf<std::string>(name, is_list, value, &TextOf);
  if (kind == "int")
    return AttrOf<int64_t>(name, is_list, value, [](nb::handle v) { return nb::cast<int64_t>(nb::int_(v)); });
  if (kind == "float")
    return AttrOf<float>(name, is_list, value,
                         [](nb::handle v) { return static_cast<float>(nb::cast<double>(nb::float_(v))); });
  if (kind == "bool") return AttrOf<bool>(name, is_list, value, [](nb::handle v) { return nb::cast<bool>(v); });
  if (kind == "type") return AttrOf<DType>(name, is_list, value, &ToDType);
  if (kind == "shape") return AttrOf<Shape>(name, is_list, value, &ToShape);
  if (kind == "func")
    return AttrOf<host::Function>(name, is_list, value, [](nb::handle v) { return host::Function{TextOf(v)}; });
  if (kind == "tensor")
    return AttrOf<Tensor>(name, is_list, value,
                          [&](nb::handle v) { return ToTensor(v, DType::kInvalid, true, "attribute '" + name + "'"); });
  FailInvalid("attribute '" + name + "' has the unknown kind '" + std::string(kind) + "'");
}

nb::object FromAttr(const tenon_attr_value& value) {
  if ((value.kind & TENON_ATTR_LIST) == 0) return value.count == 0 ? nb::none() : FromElement(value, 0);
  nb::list list;
  for (uint64_t i = 0; i < value.count; ++i) list.append(FromElement(value, i));
  return list;
}

}  // namespace tenon::python
