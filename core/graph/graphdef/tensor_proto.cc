// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graphdef/tensor_proto.h"
#include "core/tensor/allowance.h"

#include <algorithm>
#include <cstring>

namespace tenon::graph {
namespace {

// Fills from a typed list: longer is cut, shorter repeats its last value, empty is zeros.
template <typename T, typename List, typename Convert>
void Fill(Tensor& tensor, const List& list, Convert convert) {
  T* out = tensor.as<T>();
  const int64_t count = tensor.num_elements();
  const int64_t given = std::min<int64_t>(list.size(), count);
  for (int64_t i = 0; i < given; ++i) out[i] = convert(list.Get(static_cast<int>(i)));
  const T last = list.empty() ? T{} : convert(list.Get(list.size() - 1));
  for (int64_t i = given; i < count; ++i) out[i] = last;
}

template <typename T, typename List>
void FillCast(Tensor& tensor, const List& list) {
  Fill<T>(tensor, list, [](auto value) { return static_cast<T>(value); });
}

template <typename T, typename List>
void FillComplex(Tensor& tensor, const List& list) {
  T* out = tensor.as<T>();
  const int64_t count = tensor.num_elements() * 2;
  const int64_t given = std::min<int64_t>(list.size() / 2 * 2, count);
  for (int64_t i = 0; i < given; ++i) out[i] = list.Get(static_cast<int>(i));
  for (int64_t i = given; i < count; ++i) out[i] = given == 0 ? T{} : out[given - 2 + (i - given) % 2];
}

void FillTyped(Tensor& tensor, const tensorflow::TensorProto& proto) {
  switch (tensor.dtype()) {
    case TENON_DT_FLOAT: return FillCast<float>(tensor, proto.float_val());
    case TENON_DT_DOUBLE: return FillCast<double>(tensor, proto.double_val());
    case TENON_DT_INT64: return FillCast<int64_t>(tensor, proto.int64_val());
    case TENON_DT_BOOL: return FillCast<uint8_t>(tensor, proto.bool_val());
    case TENON_DT_UINT32: return FillCast<uint32_t>(tensor, proto.uint32_val());
    case TENON_DT_UINT64: return FillCast<uint64_t>(tensor, proto.uint64_val());
    case TENON_DT_HALF:
    case TENON_DT_BFLOAT16: return FillCast<uint16_t>(tensor, proto.half_val());
    case TENON_DT_COMPLEX64: return FillComplex<float>(tensor, proto.scomplex_val());
    case TENON_DT_COMPLEX128: return FillComplex<double>(tensor, proto.dcomplex_val());
    case TENON_DT_INT32:
    case TENON_DT_QINT32: return FillCast<int32_t>(tensor, proto.int_val());
    case TENON_DT_INT16:
    case TENON_DT_QINT16:
    case TENON_DT_UINT16:
    case TENON_DT_QUINT16: return FillCast<uint16_t>(tensor, proto.int_val());
    default: break;
  }
  const std::string& bytes = proto.float8_val();
  if (!bytes.empty()) {
    auto* out = tensor.as<uint8_t>();
    for (int64_t i = 0; i < tensor.num_elements(); ++i)
      out[i] = static_cast<uint8_t>(bytes[std::min(static_cast<size_t>(i), bytes.size() - 1)]);
    return;
  }
  FillCast<uint8_t>(tensor, proto.int_val());
}

// TensorProto has no list of elements that are parts of a byte, nor of a vendor's of several.
bool HasList(DType dtype) { return (dtype < TENON_DT_PACKED_INT4 && !IsVendorType(dtype)) || BitsOf(dtype) == 8; }

// Varint lengths, then the bytes.
Result<Tensor> StringsFromContent(Shape shape, std::string_view content) {
  TENON_ASSIGN_OR_RETURN(const int64_t count, shape.num_elements());
  if (count > static_cast<int64_t>(content.size()))
    return InvalidArgument(StrCat("tensor_content of ", content.size(), " bytes cannot hold ", count, " strings"));
  std::vector<uint64_t> sizes;
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t size = 0;
    int shift = 0;
    for (;;) {
      if (at >= content.size() || shift > 28) return InvalidArgument("tensor_content ends within a string's length");
      const auto byte = static_cast<uint8_t>(content[at++]);
      size |= static_cast<uint64_t>(byte & 127u) << shift;
      shift += 7;
      if (byte < 128) break;
    }
    sizes.push_back(size);
  }
  std::vector<std::string_view> values;
  for (uint64_t size : sizes) {
    if (size > content.size() - at) return InvalidArgument("tensor_content ends within a string");
    values.push_back(content.substr(at, size));
    at += size;
  }
  return Tensor::Strings(KeptPool(), std::move(shape), values);
}

// The bytes of a constant's strings beyond those that the file holds: the last one stands for all that are missing.
int64_t RepeatedBytes(int64_t count, const tensorflow::TensorProto& proto) {
  const int given = proto.string_val_size();
  if (given == 0 || count <= given) return 0;
  const auto last = static_cast<int64_t>(proto.string_val(given - 1).size());
  return last > INT64_MAX / count ? INT64_MAX : last * (count - given);
}

Result<Tensor> StringsFromProto(Shape shape, const tensorflow::TensorProto& proto) {
  if (!proto.tensor_content().empty()) return StringsFromContent(std::move(shape), proto.tensor_content());
  TENON_ASSIGN_OR_RETURN(const int64_t count, shape.num_elements());
  MemoryCharge listed;
  TENON_RETURN_IF_ERROR(listed.Add(static_cast<uint64_t>(count) * sizeof(std::string_view)));
  std::vector<std::string_view> values;
  values.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    if (proto.string_val().empty()) values.emplace_back();
    else values.emplace_back(proto.string_val(static_cast<int>(std::min<int64_t>(i, proto.string_val_size() - 1))));
  }
  return Tensor::Strings(KeptPool(), std::move(shape), values);
}

}  // namespace

Result<Shape> ShapeFromProto(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return Shape::Unknown();
  std::vector<int64_t> dims;
  for (const auto& dim : proto.dim()) dims.push_back(dim.size());
  Shape shape(std::move(dims));
  TENON_RETURN_IF_ERROR(shape.Validate());
  return shape;
}

void ShapeToProto(const Shape& shape, tensorflow::TensorShapeProto* proto) {
  if (!shape.known_rank()) return proto->set_unknown_rank(true);
  for (int64_t dim : shape.dims()) proto->add_dim()->set_size(dim);
}

Result<Tensor> TensorFromProto(const tensorflow::TensorProto& proto, int64_t* budget) {
  const auto dtype = static_cast<DType>(proto.dtype());
  if (!IsValidType(dtype) || IsRef(dtype)) return InvalidArgument(StrCat("a constant has the element type ", dtype));
  TENON_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(proto.tensor_shape()));
  if (!shape.fully_known()) return InvalidArgument(StrCat("a constant has the shape ", shape.ToString()));
  TENON_ASSIGN_OR_RETURN(const int64_t cells, ByteSize(dtype, shape));
  const int64_t repeated = dtype == TENON_DT_STRING ? RepeatedBytes(cells / SizeOf(dtype), proto) : 0;
  const int64_t bytes = repeated > INT64_MAX - cells ? INT64_MAX : cells + repeated;
  const auto held = static_cast<int64_t>(proto.ByteSizeLong());
  if (bytes > held && (*budget -= bytes - held) < 0)
    return ResourceExhausted(StrCat("a constant of ", TypeName(dtype), shape.ToString(), " takes ", bytes,
                                    " bytes, of which the file holds ", held,
                                    "; constants of one file may grow by 1 GiB at most: use Fill instead"));
  if (dtype == TENON_DT_STRING) return StringsFromProto(std::move(shape), proto);
  if (!IsPlain(dtype)) return Unimplemented(StrCat("a constant of type ", TypeName(dtype), " cannot be loaded"));
  TENON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(KeptPool(), dtype, std::move(shape)));
  const std::string& content = proto.tensor_content();
  if (content.empty() && !HasList(dtype)) {
    if (proto.int_val_size() != 0 || !proto.float8_val().empty())
      return InvalidArgument(StrCat("a constant of ", TypeName(dtype),
                                    " has its elements in tensor_content, which is empty; there is no list of them"));
    std::memset(tensor.data(), 0, tensor.byte_size());
  } else if (content.empty()) {
    FillTyped(tensor, proto);
  } else {
    if (static_cast<int64_t>(content.size()) != bytes)
      return InvalidArgument(StrCat("a constant of ", TypeName(dtype), tensor.shape().ToString(), " needs ", bytes,
                                    " bytes, its tensor_content has ", content.size()));
    std::memcpy(tensor.data(), content.data(), content.size());
  }
  if (dtype == TENON_DT_BOOL)
    for (int64_t i = 0; i < bytes; ++i) tensor.as<uint8_t>()[i] = tensor.as<uint8_t>()[i] != 0;
  return tensor;
}

void TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto) {
  proto->set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  ShapeToProto(tensor.shape(), proto->mutable_tensor_shape());
  if (tensor.dtype() == TENON_DT_STRING) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) proto->add_string_val(std::string(tensor.string(i)));
    return;
  }
  proto->set_tensor_content(tensor.data(), tensor.byte_size());
}

namespace {

Result<FunctionRef> FunctionFromProto(const tensorflow::NameAttrList& proto, int64_t* budget) {
  FunctionRef ref;
  ref.name = proto.name();
  if (!proto.attr().empty()) {
    auto attrs = std::make_shared<AttrMap>();
    for (const auto& [name, value] : proto.attr()) {
      TENON_ASSIGN_OR_RETURN((*attrs)[name], AttrFromProto(value, budget));
    }
    ref.attrs = std::move(attrs);
  }
  return ref;
}

void FunctionToProto(const FunctionRef& ref, tensorflow::NameAttrList* proto) {
  proto->set_name(ref.name);
  if (ref.attrs != nullptr)
    for (const auto& [name, value] : *ref.attrs) AttrToProto(value, &(*proto->mutable_attr())[name]);
}

Result<AttrValue> ListFromProto(const tensorflow::AttrValue::ListValue& list, int64_t* budget) {
  if (list.s_size() > 0) return AttrValue::Strings({list.s().begin(), list.s().end()});
  if (list.i_size() > 0) return AttrValue::Ints({list.i().begin(), list.i().end()});
  if (list.f_size() > 0) return AttrValue::Floats({list.f().begin(), list.f().end()});
  if (list.b_size() > 0) return AttrValue::Bools({list.b().begin(), list.b().end()});
  if (list.type_size() > 0) {
    std::vector<DType> types;
    for (int type : list.type()) {
      if (!IsValidType(static_cast<DType>(type))) return InvalidArgument(StrCat("there is no element type ", type));
      types.push_back(static_cast<DType>(type));
    }
    return AttrValue::Types(std::move(types));
  }
  std::vector<Shape> shapes;
  for (const auto& proto : list.shape()) {
    TENON_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(proto));
    shapes.push_back(std::move(shape));
  }
  if (!shapes.empty()) return AttrValue::Shapes(std::move(shapes));
  std::vector<Tensor> tensors;
  for (const auto& proto : list.tensor()) {
    TENON_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(proto, budget));
    tensors.push_back(std::move(tensor));
  }
  if (!tensors.empty()) return AttrValue::Tensors(std::move(tensors));
  std::vector<FunctionRef> functions;
  for (const auto& proto : list.func()) {
    TENON_ASSIGN_OR_RETURN(FunctionRef ref, FunctionFromProto(proto, budget));
    functions.push_back(std::move(ref));
  }
  if (!functions.empty()) return AttrValue::Functions(std::move(functions));
  return AttrValue::EmptyList();
}

}  // namespace

Result<AttrValue> AttrFromProto(const tensorflow::AttrValue& proto, int64_t* budget) {
  using Case = tensorflow::AttrValue;
  switch (proto.value_case()) {
    case Case::kList: return ListFromProto(proto.list(), budget);
    case Case::kS: return AttrValue::String(proto.s());
    case Case::kI: return AttrValue::Int(proto.i());
    case Case::kF: return AttrValue::Float(proto.f());
    case Case::kB: return AttrValue::Bool(proto.b());
    case Case::kType:
      if (!IsValidType(static_cast<DType>(proto.type())))
        return InvalidArgument(StrCat("there is no element type ", static_cast<int>(proto.type())));
      return AttrValue::Type(static_cast<DType>(proto.type()));
    case Case::kShape: {
      TENON_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(proto.shape()));
      return AttrValue::OfShape(std::move(shape));
    }
    case Case::kTensor: {
      TENON_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(proto.tensor(), budget));
      return AttrValue::OfTensor(std::move(tensor));
    }
    case Case::kPlaceholder: return AttrValue::Placeholder(proto.placeholder());
    case Case::kFunc: {
      TENON_ASSIGN_OR_RETURN(FunctionRef ref, FunctionFromProto(proto.func(), budget));
      return AttrValue::Function(std::move(ref));
    }
    default: return InvalidArgument("an attribute has no value");
  }
}

void AttrToProto(const AttrValue& value, tensorflow::AttrValue* proto) {
  if (!value.placeholder().empty()) return proto->set_placeholder(value.placeholder());
  const bool is_list = (value.kind() & TENON_ATTR_LIST) != 0;
  auto* list = is_list ? proto->mutable_list() : nullptr;
  for (size_t i = 0; i < value.size(); ++i) {
    switch (value.kind() & ~TENON_ATTR_LIST) {
      case TENON_ATTR_STRING: is_list ? list->add_s(value.s(i)) : proto->set_s(value.s(i)); break;
      case TENON_ATTR_INT: is_list ? list->add_i(value.i(i)) : proto->set_i(value.i(i)); break;
      case TENON_ATTR_FLOAT: is_list ? list->add_f(value.f(i)) : proto->set_f(value.f(i)); break;
      case TENON_ATTR_BOOL: is_list ? list->add_b(value.b(i)) : proto->set_b(value.b(i)); break;
      case TENON_ATTR_TYPE: {
        const auto type = static_cast<tensorflow::DataType>(value.type(i));
        is_list ? list->add_type(type) : proto->set_type(type);
        break;
      }
      case TENON_ATTR_SHAPE: ShapeToProto(value.shape(i), is_list ? list->add_shape() : proto->mutable_shape()); break;
      case TENON_ATTR_TENSOR:
        TensorToProto(value.tensor(i), is_list ? list->add_tensor() : proto->mutable_tensor());
        break;
      case TENON_ATTR_FUNCTION:
        FunctionToProto(value.function(i), is_list ? list->add_func() : proto->mutable_func());
        break;
      default: break;
    }
  }
}

}  // namespace tenon::graph
