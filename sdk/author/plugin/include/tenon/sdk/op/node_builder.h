// SPDX-License-Identifier: Apache-2.0
// New nodes, as an op's gradient function or decomposition adds them to the graph: by the op's name, and constants.
//
// Rules: after the first failure (node.h) no node is added; where shapes are known statically no node is added to find
// them again, so that graphs stay small.
#ifndef TENON_SDK_OP_NODE_BUILDER_H_
#define TENON_SDK_OP_NODE_BUILDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tenon/sdk/node.h"
#include "tenon/sdk/number.h"

namespace tenon::sdk {

// One output of a node: its id and the output's number. An invalid one (-1) comes with a failure.
using Output = tenon_output;

// An attribute of a new node: {"keep_dims", true}, Attribute::Type("DstT", dtype), {"padding", g.Raw("padding")}.
// Borrows name and text.
class Attribute {
 public:
  template <class T>
  requires std::is_same_v<T, bool> Attribute(std::string_view name, T value) : Attribute(name, TENON_ATTR_BOOL) {
    bool_ = value ? 1 : 0;
  }
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Attribute(std::string_view name, T value)
      : Attribute(name, TENON_ATTR_INT) {
    int_ = static_cast<int64_t>(value);
  }
  Attribute(std::string_view name, float value) : Attribute(name, TENON_ATTR_FLOAT) { float_ = value; }
  Attribute(std::string_view name, const char* value) : Attribute(name, std::string_view(value)) {}
  Attribute(std::string_view name, std::string_view value) : Attribute(name, TENON_ATTR_STRING) {
    text_ = ToSpan(value);
  }
  // As another node's attribute has it.
  Attribute(std::string_view name, tenon_attr_value value) : name_(name), raw_(value) {}
  static Attribute Type(std::string_view name, uint32_t dtype) {
    Attribute attribute(name, TENON_ATTR_TYPE);
    attribute.type_ = dtype;
    return attribute;
  }

  // Points into this object.
  tenon_attr view() const {
    tenon_attr_value value = raw_;
    switch (raw_.data == nullptr ? raw_.kind : TENON_ATTR_NONE) {
      case TENON_ATTR_BOOL: value.data = &bool_; break;
      case TENON_ATTR_INT: value.data = &int_; break;
      case TENON_ATTR_FLOAT: value.data = &float_; break;
      case TENON_ATTR_TYPE: value.data = &type_; break;
      case TENON_ATTR_STRING: value.data = &text_; break;
      default: break;
    }
    return {ToSpan(name_), value};
  }

 private:
  Attribute(std::string_view name, uint32_t kind) : name_(name), raw_{kind, 0, 1, nullptr} {}
  std::string_view name_;
  tenon_attr_value raw_;
  uint8_t bool_ = 0;
  int64_t int_ = 0;
  float float_ = 0;
  uint32_t type_ = 0;
  tenon_span text_{nullptr, 0};
};

// They point into the attributes.
inline std::vector<tenon_attr> ViewsOf(const std::vector<Attribute>& attributes) {
  std::vector<tenon_attr> views;
  views.reserve(attributes.size());
  for (const Attribute& attribute : attributes) views.push_back(attribute.view());
  return views;
}

class NodeBuilder : public NodeContext {
 public:
  NodeBuilder(tenon_plugin_self* self, const tenon_graph_builder* builder, const tenon_node_services* services,
              const tenon_node* node)
      : NodeContext(services, node, self), builder_(builder) {}

  // ---- What is there ----

  // What is known of it before a step runs.
  Shape shape(Output output) {
    tenon_shape shape{nullptr, -1, 0};
    if (!ok() || !Check(builder_->output_shape(builder_->context, output, &shape))) return Shape();
    return Shape(shape);
  }
  // Without TENON_DT_REF.
  uint32_t type(Output output) const {
    return ok() ? BaseType(builder_->output_dtype(builder_->context, output)) : TENON_DT_INVALID;
  }
  // The elements of an integer output whose value is known. Hosts that are older than this question know none.
  std::optional<std::vector<int64_t>> Integers(Output output) {
    if (!ok() || builder_->struct_size < offsetof(tenon_graph_builder, output_value) + sizeof(void*) ||
        builder_->output_value == nullptr) {
      return std::nullopt;
    }
    tenon_tensor_view view{};
    if (!Check(builder_->output_value(builder_->context, output, &view)) || view.dl.data == nullptr) {
      return std::nullopt;
    }
    return IntegersOf(view);
  }

  // ---- New nodes ----

  // Adds a node and gives its id; its outputs are {id, 0}, {id, 1}, ... Attributes that the inputs determine may be
  // left out, and defaults are filled in. controls: nodes that it waits for besides. -1 after a failure.
  int64_t Node(std::string_view op, const std::vector<Output>& inputs, const std::vector<Attribute>& attributes = {},
               const std::vector<int64_t>& controls = {}) {
    if (!ok()) return -1;
    const std::vector<tenon_attr> attrs = ViewsOf(attributes);
    tenon_node_spec spec{};
    spec.struct_size = sizeof(spec);
    spec.op = ToSpan(op);
    spec.inputs = inputs.data();
    spec.input_count = inputs.size();
    spec.attrs = attrs.data();
    spec.attr_count = attrs.size();
    spec.control_inputs = controls.data();
    spec.control_input_count = controls.size();
    int64_t node = -1;
    return Check(builder_->add_node(builder_->context, &spec, &node)) ? node : -1;
  }
  // Adds a node and gives its output 0.
  Output Op(std::string_view op, const std::vector<Output>& inputs, const std::vector<Attribute>& attributes = {}) {
    return {Node(op, inputs, attributes), 0, 0};
  }

  // By TensorFlow's ops of these names; they broadcast, and types must agree.
  Output Neg(Output x) { return Op("Neg", {x}); }
  Output Add(Output x, Output y) { return Op("AddV2", {x, y}); }
  Output Sub(Output x, Output y) { return Op("Sub", {x, y}); }
  Output Mul(Output x, Output y) { return Op("Mul", {x, y}); }
  Output Div(Output x, Output y) { return Op("RealDiv", {x, y}); }
  Output ZerosLike(Output x) { return Op("ZerosLike", {x}); }
  Output Select(Output condition, Output x, Output y) { return Op("SelectV2", {condition, x, y}); }
  // x itself where it has the type.
  Output Cast(Output x, uint32_t dtype) {
    return type(x) == dtype ? x : Op("Cast", {x}, {Attribute::Type("DstT", dtype)});
  }
  // The complex conjugate; x itself when it is real.
  Output Conj(Output x) { return IsComplex(type(x)) ? Op("Conj", {x}) : x; }
  Output ExpandDims(Output x, int64_t axis) { return Op("ExpandDims", {x, Number(axis)}); }
  Output Reshape(Output x, Output shape) { return Op("Reshape", {x, shape}); }
  // axes: an integer vector or scalar.
  Output Sum(Output x, Output axes, bool keep_dims = false) { return Op("Sum", {x, axes}, {{"keep_dims", keep_dims}}); }

  // Constants. Scalar has the type of `like`.
  Output Scalar(double value, Output like) { return ScalarOf(value, type(like)); }
  Output ScalarOf(double value, uint32_t dtype) {
    ElementBytes element;
    if (!EncodeElement(value, dtype, &element)) {
      Fail(TENON_UNIMPLEMENTED, "a constant of type ", TypeName(dtype), " cannot be made of a number");
    }
    return AddConstant(dtype, Shape::Scalar(), element.bytes, ElementSize(dtype));
  }
  Output Number(int64_t value, uint32_t dtype = TENON_DT_INT32) { return ScalarOf(static_cast<double>(value), dtype); }
  // An integer vector, of int32 or int64.
  Output Vector(const std::vector<int64_t>& values, uint32_t dtype = TENON_DT_INT32) {
    const Shape shape{static_cast<int64_t>(values.size())};
    const std::vector<int32_t> narrow(values.begin(), values.end());
    return dtype == TENON_DT_INT32 ? AddConstant(dtype, shape, narrow.data(), narrow.size() * sizeof(int32_t))
                                   : AddConstant(dtype, shape, values.data(), values.size() * sizeof(int64_t));
  }

  // The shape of x as a vector: a constant when it is known, else a node of Shape. dtype: int32 or int64.
  Output ShapeOf(Output x, uint32_t dtype = TENON_DT_INT32) {
    const Shape known = shape(x);
    if (!known.fully_known() || (dtype == TENON_DT_INT32 && !FitsInt32(known))) {
      return Op("Shape", {x}, {Attribute::Type("out_type", dtype)});
    }
    return Vector(known.dims(), dtype);
  }
  // x in the shape of `like`; x itself when the shapes are known to be equal.
  Output ReshapeLike(Output x, Output like) {
    const Shape target = shape(like);
    if (target.fully_known() && target == shape(x)) return x;
    return Reshape(x, ShapeOf(like));
  }
  // Elements [begin, end) of a vector, to its end without one; negative ones count from the end.
  Output VectorSlice(Output x, int64_t begin, std::optional<int64_t> end = std::nullopt) {
    return Op("StridedSlice", {x, Vector({begin}), Vector({end.value_or(0)}), Vector({1})},
              {{"end_mask", end.has_value() ? 0 : 1}});
  }
  // At least one, of one type and rank.
  Output Concat(const std::vector<Output>& vectors, int64_t axis = 0) {
    if (vectors.size() == 1) return vectors.front();
    std::vector<Output> inputs = vectors;
    inputs.push_back(Number(axis));
    return Op("ConcatV2", inputs);
  }

 private:
  static bool FitsInt32(const Shape& shape) {
    return std::all_of(shape.dims().begin(), shape.dims().end(),
                       [](int64_t dim) { return dim <= std::numeric_limits<int32_t>::max(); });
  }

  Output AddConstant(uint32_t dtype, const Shape& shape, const void* data, uint64_t bytes) {
    Output out{-1, 0, 0};
    if (!ok()) return out;
    std::vector<int64_t> dims = shape.dims();
    alignas(16) char nothing[16] = {};
    tenon_tensor_view view{};
    view.dl.data = bytes == 0 ? static_cast<void*>(nothing) : const_cast<void*>(data);
    view.dl.device_type = 1;
    view.dl.ndim = shape.rank();
    view.dl.shape = dims.data();
    view.dl.dtype = DlType(dtype);
    view.dtype = dtype;
    view.byte_size = bytes;
    view.flags = TENON_VIEW_READ_ONLY | TENON_VIEW_HOST_VISIBLE;
    Check(builder_->add_constant(builder_->context, &view, &out));
    return out;
  }

  const tenon_graph_builder* builder_;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_NODE_BUILDER_H_
