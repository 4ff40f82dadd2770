// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/tensor_json.h"

#include <limits>

namespace tenon::golden {

using host::Attr;
using host::Code;
using host::DType;
using host::Result;
using host::Shape;
using host::Status;
using host::Tensor;

namespace {

// Infinities and NaN are strings in JSON.
float FloatFrom(const Json& json) {
  if (json.is_number()) return json.get<float>();
  const auto text = json.get<std::string>();
  if (text == "nan") return std::numeric_limits<float>::quiet_NaN();
  return text == "-inf" ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
}
DType TypeFrom(const Json& json) { return host::DTypeFromName(json.get<std::string>()); }
Shape ShapeFrom(const Json& json) {
  return json.is_null() ? Shape::Unknown() : Shape(json.get<std::vector<int64_t>>());
}

template <typename T>
std::vector<T> ListOf(const Json& json, T (*from)(const Json&)) {
  std::vector<T> list;
  for (const Json& one : json) list.push_back(from(one));
  return list;
}

// Numbers as a tensor's bytes.
Result<std::string> BytesOf(DType dtype, const Json& numbers) {
  std::string bytes;
  const auto put = [&]<class T>(T, auto from) {
    for (const Json& one : numbers) {
      const auto number = static_cast<T>(from(one));
      bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    return bytes;
  };
  const auto whole = [](const Json& one) { return one.get<int64_t>(); };
  if (dtype == static_cast<DType>(TENON_DT_QUINT8)) return put(uint8_t{}, whole);
  if (dtype == static_cast<DType>(TENON_DT_QINT32)) return put(int32_t{}, whole);
  switch (dtype) {
    case DType::kFloat: return put(float{}, FloatFrom);
    case DType::kDouble: return put(double{}, FloatFrom);
    case DType::kInt64: return put(int64_t{}, whole);
    case DType::kInt32: return put(int32_t{}, whole);
    case DType::kUint64: return put(uint64_t{}, whole);
    case DType::kInt8: return put(int8_t{}, whole);
    case DType::kUint8: return put(uint8_t{}, whole);
    case DType::kBool: return put(uint8_t{}, [](const Json& one) { return one.get<bool>() ? 1 : 0; });
    default: return Status(Code::kInvalidArgument, "numbers of this type are not written as numbers");
  }
}

}  // namespace

Result<Tensor> TensorFrom(const Json& json) {
  if (json[0] == "text") return Tensor::Strings(json[2].get<std::vector<std::string>>(), ShapeFrom(json[1]));
  const DType dtype = TypeFrom(json[0]);
  const Shape shape = ShapeFrom(json[1]);
  const auto count = static_cast<size_t>(shape.element_count());
  if (dtype == DType::kString) {
    std::vector<std::string> strings;
    for (const Json& one : json[2]) strings.push_back(FromBase64(one.get<std::string>()));
    return Tensor::Strings(strings, shape);
  }
  const size_t size = host::DTypeSize(dtype);
  if (size == 0) return Status(Code::kInvalidArgument, "no tensors of type " + json[0].get<std::string>());
  std::string bytes;
  if (json[2].is_array()) {
    TENON_TRY_ASSIGN(bytes, BytesOf(dtype, json[2]));
  } else {
    bytes = FromBase64(json[2].get<std::string>());
  }
  if (bytes.size() == size) {
    const std::string one = bytes;
    for (size_t i = 1; i < count; ++i) bytes += one;
    bytes.resize(count * size);
  }
  return Tensor::FromBytes(dtype, shape, bytes.data(), bytes.size());
}

Result<Attr> AttrFrom(const std::string& name, const Json& json) {
  const std::string kind = json.begin().key();
  const Json& value = json.begin().value();
  if (kind == "int") return Attr(name, value.get<int64_t>());
  if (kind == "float") return Attr(name, FloatFrom(value));
  if (kind == "bool") return Attr(name, value.get<bool>());
  if (kind == "string") return Attr(name, FromBase64(value.get<std::string>()));
  if (kind == "text") return Attr(name, value.get<std::string>());
  if (kind == "type") return Attr(name, TypeFrom(value));
  if (kind == "shape") return Attr(name, ShapeFrom(value));
  if (kind == "ints") return Attr(name, value.get<std::vector<int64_t>>());
  if (kind == "floats") return Attr(name, ListOf<float>(value, FloatFrom));
  if (kind == "bools") return Attr(name, value.get<std::vector<bool>>());
  if (kind == "texts") return Attr(name, value.get<std::vector<std::string>>());
  if (kind == "types") return Attr(name, ListOf<DType>(value, TypeFrom));
  if (kind == "shapes") return Attr(name, ListOf<Shape>(value, ShapeFrom));
  if (kind == "function") return Attr(name, host::Function{value.get<std::string>()});
  if (kind == "tensor") {
    TENON_TRY_ASSIGN(const Tensor tensor, TensorFrom(value));
    return Attr(name, tensor);
  }
  return Status(Code::kInvalidArgument, "attribute " + name + ": no values of kind " + kind);
}

}  // namespace tenon::golden
