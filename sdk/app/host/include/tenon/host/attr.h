// SPDX-License-Identifier: Apache-2.0
// Attr: a named attribute of a node, with its value.
//
// Made in place: {"transpose_b", true}, {"T", DType::kFloat}, {"strides", {1, 2, 2, 1}}, {"shape", Shape{2, 3}},
// {"value", tensor}, {"padding", "SAME"}, {"f", Function{"my_function"}}. An Attr owns its value.
#ifndef TENON_HOST_ATTR_H_
#define TENON_HOST_ATTR_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/host/dtype.h"
#include "tenon/host/tensor.h"

namespace tenon::host {

// The name of a function in the graph's library: of one that Define made (host/function.h), or that Graph::Import
// brought.
struct Function {
  std::string name;
};

// Whether op has the attribute, and of this kind, is seen when the node is added. Integers become int64 and
// floating-point numbers float32, whatever their width here; texts, shapes and lists are copied, a Tensor shares its
// elements.
class Attr {
 public:
  Attr(std::string name, std::same_as<bool> auto value) : Attr(std::move(name), std::vector<uint8_t>{value}, false) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Attr(std::string name, T value)
      : Attr(std::move(name), std::vector<int64_t>{static_cast<int64_t>(value)}, false) {}
  Attr(std::string name, std::floating_point auto value)
      : Attr(std::move(name), std::vector<float>{static_cast<float>(value)}, false) {}
  Attr(std::string name, const char* value) : Attr(std::move(name), std::vector<std::string>{value}, false) {}
  Attr(std::string name, std::string_view value)
      : Attr(std::move(name), std::vector<std::string>{std::string(value)}, false) {}
  Attr(std::string name, const std::string& value) : Attr(std::move(name), std::vector<std::string>{value}, false) {}
  Attr(std::string name, DType value) : Attr(std::move(name), std::vector<DType>{value}, false) {}
  Attr(std::string name, Shape value) : Attr(std::move(name), std::vector<Shape>{std::move(value)}, false) {}
  Attr(std::string name, const Tensor& value) : Attr(std::move(name), std::vector<Tensor>{value}, false) {}
  Attr(std::string name, Function value) : Attr(std::move(name), std::vector<Function>{std::move(value)}, false) {}

  // Lists; an empty one takes its kind from the vector's type.
  Attr(std::string name, std::initializer_list<int64_t> values)
      : Attr(std::move(name), std::vector<int64_t>(values), true) {}
  Attr(std::string name, std::vector<int64_t> values) : Attr(std::move(name), std::move(values), true) {}
  Attr(std::string name, std::vector<float> values) : Attr(std::move(name), std::move(values), true) {}
  Attr(std::string name, const std::vector<bool>& values)
      : Attr(std::move(name), std::vector<uint8_t>(values.begin(), values.end()), true) {}
  Attr(std::string name, std::vector<std::string> values) : Attr(std::move(name), std::move(values), true) {}
  Attr(std::string name, std::vector<DType> values) : Attr(std::move(name), std::move(values), true) {}
  Attr(std::string name, std::vector<Shape> values) : Attr(std::move(name), std::move(values), true) {}
  Attr(std::string name, std::vector<Tensor> values) : Attr(std::move(name), std::move(values), true) {}
  Attr(std::string name, std::vector<Function> values) : Attr(std::move(name), std::move(values), true) {}

  const std::string& name() const { return name_; }

  // The attribute as the C API takes it; borrows from this object until it dies, moves, or Get is called again. So Get
  // is for one thread at a time, const as it is.
  tenon_attr Get() const {
    tenon_attr attr = {};
    attr.name = Span(name_);
    std::visit([&](const auto& values) { attr.value = Lower(values); }, values_);
    if (is_list_) attr.value.kind |= TENON_ATTR_LIST;
    return attr;
  }

 private:
  using Values = std::variant<std::vector<uint8_t>, std::vector<int64_t>, std::vector<float>, std::vector<std::string>,
                              std::vector<DType>, std::vector<Shape>, std::vector<Tensor>, std::vector<Function>>;
  template <typename T>
  Attr(std::string name, std::vector<T> values, bool is_list)
      : name_(std::move(name)), values_(std::move(values)), is_list_(is_list) {}

  tenon_attr_value Lower(const std::vector<uint8_t>& v) const { return {TENON_ATTR_BOOL, 0, v.size(), v.data()}; }
  tenon_attr_value Lower(const std::vector<int64_t>& v) const { return {TENON_ATTR_INT, 0, v.size(), v.data()}; }
  tenon_attr_value Lower(const std::vector<float>& v) const { return {TENON_ATTR_FLOAT, 0, v.size(), v.data()}; }
  tenon_attr_value Lower(const std::vector<DType>& v) const { return {TENON_ATTR_TYPE, 0, v.size(), v.data()}; }
  tenon_attr_value Lower(const std::vector<std::string>& v) const {
    spans_.clear();
    for (const std::string& text : v) spans_.push_back(Span(text));
    return {TENON_ATTR_STRING, 0, spans_.size(), spans_.data()};
  }
  tenon_attr_value Lower(const std::vector<Function>& v) const {
    spans_.clear();
    for (const Function& function : v) spans_.push_back(Span(function.name));
    return {TENON_ATTR_FUNCTION, 0, spans_.size(), spans_.data()};
  }
  tenon_attr_value Lower(const std::vector<Shape>& v) const {
    shapes_.clear();
    for (const Shape& shape : v) shapes_.push_back(shape.c_shape());
    return {TENON_ATTR_SHAPE, 0, shapes_.size(), shapes_.data()};
  }
  tenon_attr_value Lower(const std::vector<Tensor>& v) const {
    views_.clear();
    for (const Tensor& tensor : v) views_.push_back(tensor ? *tensor.view() : tenon_tensor_view{});
    return {TENON_ATTR_TENSOR, 0, views_.size(), views_.data()};
  }

  std::string name_;
  Values values_;
  bool is_list_;
  // What Get lends.
  mutable std::vector<tenon_span> spans_;
  mutable std::vector<tenon_shape> shapes_;
  mutable std::vector<tenon_tensor_view> views_;
};

// Of one node, in any order; of a name that stands twice the first counts.
using Attrs = std::vector<Attr>;

}  // namespace tenon::host

#endif  // TENON_HOST_ATTR_H_
