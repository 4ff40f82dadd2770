// SPDX-License-Identifier: Apache-2.0
// A pass over the graphs of steps in C++ (tenon/ext/draft/graph_pass.h says when it is called, and for what).
//
//   void Fuse(sdk::PassContext& p) {
//     for (const int64_t id : p.nodes()) {
//       p.Begin(id, p.DeviceOf(id));
//       p.Replace(id, {p.Op("Vendor>Fused", {p.input(id, 0)})});
//     }
//   }
//   constexpr tenon_span kOps[] = {TENON_SPAN("Vendor>Op")};
//   constexpr tenon_graph_pass kPass = sdk::DefinePass<Fuse>("fused-ops", kOps);  // 5th: after which passes it runs
//   TENON_PASS_PLUGIN("vendor.fuse", "1.0.0", "Vendor>Op fused.", kPass)          // package.h: a package of that alone
//
// A failure sticks (node.h), and is the step's.
#ifndef TENON_SDK_OP_GRAPH_PASS_H_
#define TENON_SDK_OP_GRAPH_PASS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/ext/draft/graph_pass.h"
#include "tenon/sdk/op/node_builder.h"

namespace tenon::sdk {

// Of one call, on its thread. What it asks of "the node" (node.h) it cannot answer: that is of(id)'s.
class PassContext : public NodeBuilder {
 public:
  PassContext(tenon_plugin_self* self, const tenon_graph_pass_args* args)
      : NodeBuilder(self, args->builder, args->node_services, nullptr), args_(args) {}

  // Those that the pass is about, ascending.
  std::span<const int64_t> nodes() const { return {args_->nodes, args_->node_count}; }
  // function(NodeContext&) of a node's attributes; what fails in it fails here.
  template <class Function>
  void With(int64_t id, Function&& function) {
    if (!ok()) return;
    const tenon_node* const node = NodeAt(id);
    if (node == nullptr) return Fail(TENON_INVALID_ARGUMENT, "the graph has no node ", id);
    NodeContext context(args_->node_services, node);
    function(context);
    Check(context.Finish());
  }
  std::string DeviceOf(int64_t id) const {
    const tenon_node* const node = NodeAt(id);
    return node == nullptr ? std::string() : std::string(ToText(args_->node_services->device(node)));
  }
  // Whether the step runs the node, of whatever op, and none of its outputs is fed.
  bool Runs(int64_t id) const { return args_->runs(args_, id) != 0; }
  // For how many nodes it waits besides its inputs.
  int control_input_count(int64_t id) const { return cursor().control_input_count(cursor().graph, id); }
  // One of them; -1 with a failure: there is none.
  int64_t control_input(int64_t id, int index) {
    int64_t source = -1;
    if (ok()) Check(cursor().control_input(cursor().graph, id, index, &source));
    return source;
  }
  Output input(int64_t id, int index) {
    Output source{-1, 0, 0};
    if (ok()) Check(cursor().input(cursor().graph, id, index, &source));
    return source;
  }

  // The output's shape with names for unknown dims: equal ones are of one size in every step (tenon_shape).
  Shape NamedShape(const Output& output) {
    tenon_shape shape{nullptr, -1, 0};
    if (ok() && output.node >= 0) Check(cursor().named_shape(cursor().graph, output, &shape));
    return Shape(shape);
  }
  // The sizes that an int32 or int64 scalar or vector output holds, one dim an element; unknown rank: none is known.
  Shape Elements(const Output& output) {
    tenon_shape elements{nullptr, -1, 0};
    if (ok() && output.node >= 0) Check(cursor().output_elements(cursor().graph, output, &elements));
    return Shape(elements);
  }

  // Whether the input is a variable by reference, which is read when the node runs.
  bool InputIsReference(int64_t id, int index) {
    const Output source = input(id, index);
    return ok() && source.node >= 0 && args_->builder->output_dtype(args_->builder->context, source) > TENON_DT_REF;
  }

  // Nodes that are added from here on stand below node `id`'s name, wait for what it waits for, and run on the device;
  // -1: of no node.
  void Begin(int64_t id, std::string_view device) {
    if (ok()) Check(args_->begin(args_, id, ToSpan(device)));
  }
  // Adds a node of node `id`'s op, of other inputs, as many as it has, and gives its id: attributes that these
  // determine follow them, `attributes` are as given, and the others as the node has them. -1 after a failure.
  int64_t Like(int64_t id, const std::vector<Output>& inputs, const std::vector<Attribute>& attributes = {}) {
    const std::vector<tenon_attr> attrs = ViewsOf(attributes);
    int64_t node = -1;
    if (ok()) Check(args_->add_like(args_, id, inputs.data(), inputs.size(), attrs.data(), attrs.size(), &node));
    return node;
  }
  // What Like would add if its inputs were of those types and it stood on the device: the types of its outputs, or
  // nothing where its op does not take them or the device has no kernel for it.
  std::optional<std::vector<uint32_t>> RunsLike(int64_t id, std::string_view device, const std::vector<uint32_t>& types,
                                                const std::vector<Attribute>& attributes = {}) {
    const tenon_node* const node = NodeAt(id);
    if (!ok() || node == nullptr) return std::nullopt;
    const std::vector<tenon_attr> attrs = ViewsOf(attributes);
    std::vector<uint32_t> outputs(static_cast<size_t>(args_->node_services->output_count(node)));
    const int32_t runs = args_->runs_like(args_, id, ToSpan(device), types.data(), types.size(), attrs.data(),
                                          attrs.size(), outputs.data());
    return runs != 0 ? std::optional(std::move(outputs)) : std::nullopt;
  }
  // Readers of the node's outputs get these.
  void Replace(int64_t id, const std::vector<Output>& outputs) {
    if (ok()) Check(args_->replace(args_, id, outputs.data(), outputs.size()));
  }
  // The session's (TENON_PRECISION_*), and the text of its calibration; empty: none.
  uint32_t precision() const { return args_->precision; }
  std::string_view calibration() const { return ToText(args_->calibration); }
  // What became of the node and why, for who has the step explained.
  void Explain(int64_t id, std::string_view text) {
    if (ok()) Check(args_->explain(args_, id, ToSpan(text)));
  }
  // A new constant of those bytes, which are copied.
  Output Constant(uint32_t dtype, const tenon_shape& shape, const void* data, uint64_t bytes) {
    Output out{-1, 0, 0};
    if (!ok()) return out;
    alignas(16) char nothing[16] = {};
    tenon_tensor_view view{};
    view.dl.data = bytes == 0 ? static_cast<void*>(nothing) : const_cast<void*>(data);
    view.dl.device_type = 1;
    view.dl.ndim = shape.rank;
    view.dl.shape = const_cast<int64_t*>(shape.dims);
    view.dl.dtype = DlType(dtype);
    view.dtype = dtype;
    view.byte_size = bytes;
    view.flags = TENON_VIEW_READ_ONLY | TENON_VIEW_HOST_VISIBLE;
    Check(args_->builder->add_constant(args_->builder->context, &view, &out));
    return out;
  }
  // How many nodes the graph has: their ids are those below.
  int64_t node_count() const { return cursor().node_count(cursor().graph); }
  // The graph, for who looks at all of it (graph_view.h).
  const tenon_graph_cursor& cursor() const { return *args_->cursor; }
  // The step runs it, also when nobody reads it.
  void AddTarget(int64_t id) {
    if (ok()) Check(args_->add_target(args_, id));
  }

 private:
  const tenon_node* NodeAt(int64_t id) const { return cursor().node(cursor().graph, id); }

  const tenon_graph_pass_args* const args_;
};

template <void (*Function)(PassContext&)>
tenon_status* PassFunction(tenon_plugin_self* self, const tenon_graph_pass_args* args) {
  return Guard([&] {
    PassContext p(self, args);
    Function(p);
    return p.Finish();
  });
}

template <void (*Function)(PassContext&)>
consteval tenon_graph_pass DefinePass(std::string_view name, std::span<const tenon_span> ops, uint32_t precision = 0,
                                      uint64_t properties = 0, std::string_view after = {}) {
  return {TENON_HEAD(tenon_graph_pass), ToSpan(name), ops.data(),    ops.size(), &PassFunction<Function>, precision, 0,
          properties,                   ToSpan(after)};
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_GRAPH_PASS_H_
