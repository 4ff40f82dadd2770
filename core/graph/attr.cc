// SPDX-License-Identifier: Apache-2.0
#include "core/graph/attr.h"
#include "core/tensor/allowance.h"

#include <cstring>
#include <functional>

namespace tenon::graph {

struct AttrValue::Rep {
  uint32_t kind = TENON_ATTR_NONE;
  bool empty_list = false;
  std::string placeholder;
  std::vector<std::string> strings;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<uint8_t> bools;
  std::vector<DType> types;
  std::vector<Shape> shapes;
  std::vector<Tensor> tensors;
  std::vector<FunctionRef> functions;
  // What the ABI sees of values that are not plain arrays.
  std::vector<tenon_span> spans;
  std::vector<tenon_shape> c_shapes;
  std::vector<tenon_tensor_view> views;
};

template <typename Fill>
AttrValue AttrValue::Make(uint32_t kind, bool list, Fill fill) {
  auto rep = std::make_shared<Rep>();
  rep->kind = kind | (list ? TENON_ATTR_LIST : 0u);
  fill(*rep);
  AttrValue value;
  value.rep_ = std::move(rep);
  return value;
}

AttrValue AttrValue::Placeholder(std::string name) {
  return Make(TENON_ATTR_NONE, false, [&](Rep& rep) { rep.placeholder = std::move(name); });
}
AttrValue AttrValue::Strings(std::vector<std::string> values, bool list) {
  return Make(TENON_ATTR_STRING, list, [&](Rep& rep) {
    rep.strings = std::move(values);
    for (const std::string& text : rep.strings) rep.spans.push_back(Span(text));
  });
}
AttrValue AttrValue::Ints(std::vector<int64_t> values, bool list) {
  return Make(TENON_ATTR_INT, list, [&](Rep& rep) { rep.ints = std::move(values); });
}
AttrValue AttrValue::Floats(std::vector<float> values, bool list) {
  return Make(TENON_ATTR_FLOAT, list, [&](Rep& rep) { rep.floats = std::move(values); });
}
AttrValue AttrValue::Bools(std::vector<uint8_t> values, bool list) {
  return Make(TENON_ATTR_BOOL, list, [&](Rep& rep) { rep.bools = std::move(values); });
}
AttrValue AttrValue::Types(std::vector<DType> values, bool list) {
  return Make(TENON_ATTR_TYPE, list, [&](Rep& rep) { rep.types = std::move(values); });
}
AttrValue AttrValue::Shapes(std::vector<Shape> values, bool list) {
  return Make(TENON_ATTR_SHAPE, list, [&](Rep& rep) {
    rep.shapes = std::move(values);
    for (const Shape& shape : rep.shapes) rep.c_shapes.push_back(shape.c());
  });
}
AttrValue AttrValue::Tensors(std::vector<Tensor> values, bool list) {
  return Make(TENON_ATTR_TENSOR, list, [&](Rep& rep) {
    rep.tensors = std::move(values);
    for (const Tensor& tensor : rep.tensors) rep.views.push_back(tensor.view());
  });
}
AttrValue AttrValue::Functions(std::vector<FunctionRef> values, bool list) {
  return Make(TENON_ATTR_FUNCTION, list, [&](Rep& rep) {
    rep.functions = std::move(values);
    for (const FunctionRef& function : rep.functions) rep.spans.push_back(Span(function.name));
  });
}
AttrValue AttrValue::EmptyList() {
  return Make(TENON_ATTR_NONE, true, [](Rep& rep) { rep.empty_list = true; });
}

Result<AttrValue> AttrValue::FromC(const tenon_attr_value& value) {
  const bool list = (value.kind & TENON_ATTR_LIST) != 0;
  const size_t count = value.count;
  if (!list && count != 1) return InvalidArgument(StrCat("an attribute that is no list has ", count, " values"));
  if (count > 0 && value.data == nullptr) return InvalidArgument("an attribute's data is NULL");
  if (value.kind == TENON_ATTR_LIST && count == 0) return EmptyList();
  switch (value.kind & ~TENON_ATTR_LIST) {
    case TENON_ATTR_STRING: {
      std::vector<std::string> values;
      for (size_t i = 0; i < count; ++i) values.emplace_back(View(static_cast<const tenon_span*>(value.data)[i]));
      return Strings(std::move(values), list);
    }
    case TENON_ATTR_INT: {
      const auto* data = static_cast<const int64_t*>(value.data);
      return Ints({data, data + count}, list);
    }
    case TENON_ATTR_FLOAT: {
      const auto* data = static_cast<const float*>(value.data);
      return Floats({data, data + count}, list);
    }
    case TENON_ATTR_BOOL: {
      const auto* data = static_cast<const uint8_t*>(value.data);
      return Bools({data, data + count}, list);
    }
    case TENON_ATTR_TYPE: {
      const auto* data = static_cast<const uint32_t*>(value.data);
      for (size_t i = 0; i < count; ++i)
        if (!IsValidType(data[i])) return InvalidArgument(StrCat("an attribute names the unknown type ", data[i]));
      return Types({data, data + count}, list);
    }
    case TENON_ATTR_SHAPE: {
      std::vector<Shape> values;
      for (size_t i = 0; i < count; ++i) {
        values.emplace_back(static_cast<const tenon_shape*>(value.data)[i]);
        TENON_RETURN_IF_ERROR(values.back().Validate());
      }
      return Shapes(std::move(values), list);
    }
    case TENON_ATTR_TENSOR: {
      std::vector<Tensor> values;
      for (size_t i = 0; i < count; ++i) {
        TENON_ASSIGN_OR_RETURN(Tensor tensor,
                               Tensor::CopyOf(KeptPool(), static_cast<const tenon_tensor_view*>(value.data)[i]));
        values.push_back(std::move(tensor));
      }
      return Tensors(std::move(values), list);
    }
    case TENON_ATTR_FUNCTION: {
      std::vector<FunctionRef> values;
      for (size_t i = 0; i < count; ++i)
        values.push_back({std::string(View(static_cast<const tenon_span*>(value.data)[i])), nullptr});
      return Functions(std::move(values), list);
    }
    default:
      return InvalidArgument(StrCat("an attribute has the unknown kind ", value.kind));
  }
}

uint32_t AttrValue::kind() const { return rep_ == nullptr ? TENON_ATTR_NONE : rep_->kind; }
bool AttrValue::empty_list() const { return rep_ != nullptr && rep_->empty_list; }

const std::string& AttrValue::placeholder() const {
  static const std::string none;
  return rep_ == nullptr ? none : rep_->placeholder;
}

size_t AttrValue::size() const { return c().count; }

tenon_attr_value AttrValue::c() const {
  if (rep_ == nullptr) return {TENON_ATTR_NONE, 0, 0, nullptr};
  const auto make = [this](const auto& values) {
    return tenon_attr_value{rep_->kind, 0, values.size(), values.data()};
  };
  switch (rep_->kind & ~TENON_ATTR_LIST) {
    case TENON_ATTR_STRING:
    case TENON_ATTR_FUNCTION: return make(rep_->spans);
    case TENON_ATTR_INT: return make(rep_->ints);
    case TENON_ATTR_FLOAT: return make(rep_->floats);
    case TENON_ATTR_BOOL: return make(rep_->bools);
    case TENON_ATTR_TYPE: return make(rep_->types);
    case TENON_ATTR_SHAPE: return make(rep_->c_shapes);
    case TENON_ATTR_TENSOR: return make(rep_->views);
    default: return {rep_->kind, 0, 0, nullptr};
  }
}

const std::string& AttrValue::s(size_t i) const { return rep_->strings[i]; }
int64_t AttrValue::i(size_t i) const { return rep_->ints[i]; }
float AttrValue::f(size_t i) const { return rep_->floats[i]; }
bool AttrValue::b(size_t i) const { return rep_->bools[i] != 0; }
DType AttrValue::type(size_t i) const { return rep_->types[i]; }
const Shape& AttrValue::shape(size_t i) const { return rep_->shapes[i]; }
const Tensor& AttrValue::tensor(size_t i) const { return rep_->tensors[i]; }
const FunctionRef& AttrValue::function(size_t i) const { return rep_->functions[i]; }

namespace {

constexpr uint64_t kCompareBytes = 1 << 16;

bool EqualTensors(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.buffer() == b.buffer()) return true;
  if (a.dtype() == TENON_DT_STRING) {
    for (int64_t i = 0; i < a.num_elements(); ++i)
      if (a.string(i) != b.string(i)) return false;
    return true;
  }
  return a.byte_size() <= kCompareBytes && std::memcmp(a.data(), b.data(), a.byte_size()) == 0;
}

bool EqualFunctions(const FunctionRef& a, const FunctionRef& b) {
  if (a.name != b.name) return false;
  const size_t a_size = a.attrs ? a.attrs->size() : 0;
  if (a_size != (b.attrs ? b.attrs->size() : 0)) return false;
  if (a_size == 0) return true;
  for (const auto& [name, value] : *a.attrs) {
    auto it = b.attrs->find(name);
    if (it == b.attrs->end() || !it->second.Equals(value)) return false;
  }
  return true;
}

template <typename T, typename Equal>
bool EqualAll(const std::vector<T>& a, const std::vector<T>& b, Equal equal) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}

void Mix(size_t& hash, size_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15ull + (hash >> 29); }

// As much as EqualTensors compares: a graph may have thousands of filters of one shape, each of which would be compared
// with all others.
void HashElements(const Tensor& tensor, size_t& hash) {
  const std::hash<std::string_view> hash_text;
  if (tensor.dtype() == TENON_DT_STRING) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) Mix(hash, hash_text(tensor.string(i)));
  } else if (const uint64_t bytes = tensor.byte_size(); bytes <= kCompareBytes) {
    Mix(hash, hash_text({static_cast<const char*>(tensor.data()), bytes}));
  } else {
    Mix(hash, std::hash<const void*>()(tensor.buffer()));
  }
}

}  // namespace

bool AttrValue::Equals(const AttrValue& other) const {
  if (rep_ == other.rep_) return true;
  if (rep_ == nullptr || other.rep_ == nullptr) return false;
  const Rep &a = *rep_, &b = *other.rep_;
  if (a.kind != b.kind)
    return (a.kind & TENON_ATTR_LIST) && (b.kind & TENON_ATTR_LIST) && size() == 0 && other.size() == 0;
  return a.placeholder == b.placeholder && a.strings == b.strings && a.ints == b.ints &&
         EqualAll(a.floats, b.floats, [](float x, float y) { return std::memcmp(&x, &y, sizeof x) == 0; }) &&
         a.bools == b.bools && a.types == b.types && a.shapes == b.shapes &&
         EqualAll(a.tensors, b.tensors, EqualTensors) && EqualAll(a.functions, b.functions, EqualFunctions);
}

size_t AttrValue::Hash() const {
  if (rep_ == nullptr) return 0;
  size_t hash = size() == 0 ? 1 : rep_->kind;
  for (const std::string& text : rep_->strings) Mix(hash, std::hash<std::string>()(text));
  for (int64_t value : rep_->ints) Mix(hash, value);
  for (float value : rep_->floats) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    Mix(hash, bits);
  }
  for (uint8_t value : rep_->bools) Mix(hash, value);
  for (DType value : rep_->types) Mix(hash, value);
  for (const Shape& shape : rep_->shapes)
    for (int64_t dim : shape.dims()) Mix(hash, dim);
  for (const Tensor& tensor : rep_->tensors) {
    Mix(hash, tensor.dtype());
    for (int64_t dim : tensor.shape().dims()) Mix(hash, dim);
    HashElements(tensor, hash);
  }
  for (const FunctionRef& function : rep_->functions) Mix(hash, std::hash<std::string>()(function.name));
  return hash;
}

std::string AttrKindName(uint32_t kind) {
  static const char* const kNames[] = {"none", "string", "int", "float", "bool", "type", "shape", "tensor", "func"};
  const uint32_t base = kind & ~TENON_ATTR_LIST;
  const std::string name = base <= TENON_ATTR_FUNCTION ? kNames[base] : "unknown";
  return (kind & TENON_ATTR_LIST) ? "list(" + name + ")" : name;
}

std::string AttrValue::ToString() const {
  if (rep_ == nullptr) return "none";
  if (!rep_->placeholder.empty()) return "$" + rep_->placeholder;
  std::string out;
  const auto add = [&out](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  for (const std::string& text : rep_->strings) add("'" + text + "'");
  for (int64_t value : rep_->ints) add(std::to_string(value));
  for (float value : rep_->floats) add(std::to_string(value));
  for (uint8_t value : rep_->bools) add(value ? "true" : "false");
  for (DType value : rep_->types) add(TypeName(value));
  for (const Shape& shape : rep_->shapes) add(shape.ToString());
  for (const Tensor& tensor : rep_->tensors) add(TypeName(tensor.dtype()) + tensor.shape().ToString());
  for (const FunctionRef& function : rep_->functions) add(function.name);
  return (rep_->kind & TENON_ATTR_LIST) ? "[" + out + "]" : out;
}

}  // namespace tenon::graph
