// SPDX-License-Identifier: Apache-2.0
// One node as a shape, gradient or cost function sees it: its attributes and the types of its edges.
//
// Rule: the first failure sticks. After it every question answers with a harmless value (0, "",
// unknown), and the thunk that called the op's function gives the failure to the host. So the
// functions of ops read straight on and need no check after each call.
#ifndef TENON_SDK_NODE_H_
#define TENON_SDK_NODE_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/sdk/shape.h"
#include "tenon/sdk/span.h"

namespace tenon::sdk {

// Where a named argument of the op stands among the node's inputs or outputs.
struct Range {
  int begin = 0;
  int count = 0;
};

// What a node's op says of itself (tenon/graph.h); nothing where the host is older than properties. Spans live as long
// as the op.
inline tenon_node_properties PropertiesOf(const tenon_node_services& services, const tenon_node* node) {
  tenon_node_properties properties = {TENON_HEAD(tenon_node_properties), 0, 0, 0, -1, 0, {}, {}, {}};
  if (TENON_CALLABLE(&services, properties)) services.properties(node, &properties);
  return properties;
}

// For one thread, as long as the function that got it runs. Texts and raw values live as long as that.
class NodeContext {
 public:
  // self: the plugin's instance that the function was called for.
  NodeContext(const tenon_node_services* services, const tenon_node* node, tenon_plugin_self* self = nullptr)
      : services_(services), node_(node), self_(self) {}
  NodeContext(const NodeContext&) = delete;
  NodeContext& operator=(const NodeContext&) = delete;
  ~NodeContext() {
    if (status_ != nullptr) tenon_plugin_host->status_release(status_);
  }

  bool ok() const { return status_ == nullptr; }

  // What the plugin's on_load made for this runtime, where its options stand; NULL when it made nothing.
  template <class Self>
  Self* self() const {
    return reinterpret_cast<Self*>(self_);
  }

  // Keeps the first failure; takes the status over. True when there was none.
  bool Check(tenon_status* status) {
    if (status == nullptr) return true;
    if (status_ == nullptr) {
      status_ = status;
    } else {
      tenon_plugin_host->status_release(status);
    }
    return false;
  }
  template <class... Parts>
  void Fail(uint32_t code, const Parts&... parts) {
    if (ok()) status_ = Failure(code, parts...);
  }
  template <class... Parts>
  void Invalid(const Parts&... parts) {
    Fail(TENON_INVALID_ARGUMENT, parts...);
  }
  // Gives the failure, if any, to the caller.
  tenon_status* Finish() { return std::exchange(status_, nullptr); }

  std::string_view name() const { return ToText(services_->name(node_)); }
  std::string_view op() const { return ToText(services_->op(node_)); }
  int input_count() const { return services_->input_count(node_); }
  int output_count() const { return services_->output_count(node_); }
  // Without TENON_DT_REF.
  uint32_t input_type(int index) const { return BaseType(services_->input_dtype(node_, index)); }
  uint32_t output_type(int index) const { return BaseType(services_->output_dtype(node_, index)); }

  // Of the argument's name in the op's signature, "x"; nothing and a failure when it has none.
  Range InputRange(std::string_view argument) {
    Range range;
    if (!Check(services_->input_range(node_, ToSpan(argument), &range.begin, &range.count))) return {};
    return range;
  }
  Range OutputRange(std::string_view argument) {
    Range range;
    if (!Check(services_->output_range(node_, ToSpan(argument), &range.begin, &range.count))) return {};
    return range;
  }

  // What the op says of itself, of this node's inputs.
  tenon_node_properties Properties() const { return PropertiesOf(*services_, node_); }

  // The attribute as the host gives it, fit for a new node's attributes.
  tenon_attr_value Raw(std::string_view attr) {
    tenon_attr_value value{};
    Check(services_->attr(node_, ToSpan(attr), &value));
    return value;
  }

  // Values by the attribute's name. One that the op does not have is the host's failure, one of another kind INTERNAL;
  // both give 0, "", nothing.
  bool Bool(std::string_view attr) { return Scalar<uint8_t>(attr, TENON_ATTR_BOOL) != 0; }
  int64_t Int(std::string_view attr) { return Scalar<int64_t>(attr, TENON_ATTR_INT); }
  float Float(std::string_view attr) { return Scalar<float>(attr, TENON_ATTR_FLOAT); }
  uint32_t Type(std::string_view attr) { return Scalar<uint32_t>(attr, TENON_ATTR_TYPE); }
  std::string_view String(std::string_view attr) { return ToText(Scalar<tenon_span>(attr, TENON_ATTR_STRING)); }
  Shape ShapeAttr(std::string_view attr) {
    const tenon_attr_value value = Raw(attr);
    if (!Expect(attr, value, TENON_ATTR_SHAPE) || value.count != 1) return Shape();
    return Shape(*static_cast<const tenon_shape*>(value.data));
  }
  std::vector<int64_t> Ints(std::string_view attr) { return List<int64_t, int64_t>(attr, TENON_ATTR_INT); }
  std::vector<uint32_t> Types(std::string_view attr) { return List<uint32_t, uint32_t>(attr, TENON_ATTR_TYPE); }
  std::vector<std::string_view> Strings(std::string_view attr) {
    std::vector<std::string_view> out;
    for (const tenon_span& text : List<tenon_span, tenon_span>(attr, TENON_ATTR_STRING)) out.push_back(ToText(text));
    return out;
  }
  std::vector<Shape> Shapes(std::string_view attr) { return List<Shape, tenon_shape>(attr, TENON_ATTR_SHAPE); }

 protected:
  const tenon_node_services* services_;
  const tenon_node* node_;

 private:
  tenon_plugin_self* const self_;

  bool Expect(std::string_view attr, const tenon_attr_value& value, uint32_t kind) {
    if (!ok()) return false;
    // An empty list may come without a kind.
    if (value.kind == kind || ((kind & TENON_ATTR_LIST) != 0 && value.count == 0)) return true;
    Fail(TENON_INTERNAL, "attribute '", attr, "' has kind ", value.kind, " where ", kind, " was declared");
    return false;
  }
  template <class T, class Element>
  std::vector<T> List(std::string_view attr, uint32_t kind) {
    const tenon_attr_value value = Raw(attr);
    if (!Expect(attr, value, kind | TENON_ATTR_LIST) || value.count == 0) return {};
    const auto* data = static_cast<const Element*>(value.data);
    return std::vector<T>(data, data + value.count);
  }
  template <class T>
  T Scalar(std::string_view attr, uint32_t kind) {
    const tenon_attr_value value = Raw(attr);
    if (!Expect(attr, value, kind) || value.count != 1) return T{};
    return *static_cast<const T*>(value.data);
  }

  tenon_status* status_ = nullptr;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_NODE_H_
