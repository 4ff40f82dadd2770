// SPDX-License-Identifier: Apache-2.0
// Tiny ops for tests of the core: values, sums, control flow and effects, without a package and without kernels.
//
// The core knows ops by trait and role alone, so these have names of their own. GraphMaker adds nodes and makes a
// failure to add one a failure of the test.
#ifndef TENON_TESTS_FAKES_TINY_OPS_H_
#define TENON_TESTS_FAKES_TINY_OPS_H_

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <map>
#include <utility>
#include <vector>

#include "core/graph/builder.h"
#include "core/graph/graph.h"
#include "core/graph/op_registry.h"

namespace tenon::fakes {

inline tenon_op_definition DefineOp(std::string_view name, std::string_view inputs, std::string_view outputs,
                                    std::string_view attrs = {}, uint64_t traits = 0, std::string_view roles = {}) {
  tenon_op_definition op{};
  op.struct_size = sizeof(op);
  op.name = Span(name);
  op.inputs = Span(inputs);
  op.outputs = Span(outputs);
  op.attrs = Span(attrs);
  op.traits = traits;
  op.roles = Span(roles);
  return op;
}

// The plugin of that name, the same at each call.
inline std::shared_ptr<PluginInstance> InstanceNamed(std::string_view plugin) {
  static std::map<std::string, std::shared_ptr<PluginInstance>, std::less<>> instances;
  std::shared_ptr<PluginInstance>& instance = instances[std::string(plugin)];
  if (instance == nullptr) instance = std::make_shared<PluginInstance>(std::string(plugin));
  return instance;
}

// Registers definitions, which must live as long as the registry. One that is left out is an error here.
inline Status RegisterOps(graph::OpRegistry* registry, const std::vector<const tenon_op_definition*>& ops,
                          std::string_view plugin = "tiny") {
  std::map<std::string, std::string> refused;
  Status status = registry->Register({sizeof(tenon_op_package), 0, ops.data(), ops.size(), TENON_OPS_NAMED_DIMS},
                                     InstanceNamed(plugin), &refused);
  return status.ok() && !refused.empty() ? AlreadyExists(refused.begin()->second) : std::move(status);
}

// ---- Shape functions and gradients ----

inline tenon_status* ShapeOfFirst(tenon_plugin_self*, const tenon_shape_services* s, tenon_shape_context* context) {
  return s->set_output_shape(context, 0, s->input_shape(context, 0));
}
inline tenon_status* ShapeOfAttr(tenon_plugin_self*, const tenon_shape_services* s, tenon_shape_context* context) {
  tenon_attr_value shape;
  if (tenon_status* status = s->node_services->attr(s->node(context), TENON_SPAN("shape"), &shape)) return status;
  return s->set_output_shape(context, 0, *static_cast<const tenon_shape*>(shape.data));
}
inline tenon_status* ScalarShape(tenon_plugin_self*, const tenon_shape_services* s, tenon_shape_context* context) {
  return s->set_output_shape(context, 0, {nullptr, 0, 0});
}
// The value of input 0 as the shape of output 0.
inline tenon_status* ShapeOfValue(tenon_plugin_self*, const tenon_shape_services* s, tenon_shape_context* context) {
  tenon_shape shape;
  if (tenon_status* status = s->input_value_as_shape(context, 0, &shape)) return status;
  return s->set_output_shape(context, 0, shape);
}
// One more row each time: for loops whose shapes grow.
inline tenon_status* OneRowMore(tenon_plugin_self*, const tenon_shape_services* s, tenon_shape_context* context) {
  Shape shape(s->input_shape(context, 0));
  if (shape.rank() > 0 && shape.dim(0) >= 0) ++shape.dims()[0];
  return s->set_output_shape(context, 0, shape.c());
}

// Arithmetic as its attribute says; the memory that it reads and writes costs nothing.
inline tenon_status* CostOfAttr(tenon_plugin_self*, const tenon_node_services* services, const tenon_node* node,
                                const tenon_shape*, const tenon_shape*, tenon_cost* out_cost) {
  tenon_attr_value flops;
  if (tenon_status* status = services->attr(node, TENON_SPAN("flops"), &flops)) return status;
  out_cost->flops = *static_cast<const float*>(flops.data);
  return nullptr;
}

inline tenon_status* PassOnToAll(const tenon_gradient_args* args) {
  for (int32_t i = 0; i < args->input_count; ++i) args->dx[i] = args->dy[0];
  return nullptr;
}
inline tenon_status* NoWayBack(const tenon_gradient_args* args) {
  args->dx[0].kind = TENON_GRADIENT_NOT_DIFFERENTIABLE;
  return nullptr;
}

inline tenon_status* PlusItself(tenon_plugin_self*, const tenon_graph_builder* builder, const tenon_node_services*,
                                const tenon_node*, const tenon_output* inputs, tenon_output* out_outputs) {
  const tenon_output twice[2] = {inputs[0], inputs[0]};
  tenon_node_spec spec{};
  spec.struct_size = sizeof(spec);
  spec.op = TENON_SPAN("Plus");
  spec.inputs = twice;
  spec.input_count = 2;
  out_outputs[0] = {-1, 0, 0};
  return builder->add_node(builder->context, &spec, &out_outputs[0].node);
}

// ---- The ops ----

#define TENON_FAKES_SEND                                                                            \
  "; tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string; " \
  "client_terminated: bool = false"

// So much arithmetic, outputs of such a shape.
inline tenon_op_definition WorkOp() {
  tenon_op_definition op =
      DefineOp("Work", "inputs: N * float", "output: float", "N: int >= 0; flops: float; shape: shape");
  op.shape = ShapeOfAttr;
  op.cost = CostOfAttr;
  return op;
}

inline const std::vector<const tenon_op_definition*>& TinyOpList() {
  static const std::vector<const tenon_op_definition*> made = [] {
    const auto with = [](tenon_op_definition op, tenon_shape_function shape,
                         tenon_gradient_function gradient = nullptr) {
      op.shape = shape;
      op.gradient = gradient;
      return op;
    };
    const auto made_of_others = [](tenon_op_definition op) {
      op.decompose = &PlusItself;
      return op;
    };
    static const tenon_op_definition ops[] = {
        DefineOp("Value", "", "output: dtype", "dtype: type; value: tensor", TENON_OP_CONSTANT, "constant"),
        with(DefineOp("Feed", "", "output: dtype", "dtype: type; shape: shape = unknown", TENON_OP_FEED), ShapeOfAttr),
        with(DefineOp("Plus", "a: T, b: T", "c: T", "T: {float, double, int32, int64}", 0, "add"), ShapeOfFirst,
             PassOnToAll),
        with(DefineOp("Minus", "a: T, b: T", "c: T", "T: {float, double, int32, int64}", 0, "subtract"), ShapeOfFirst),
        with(DefineOp("Total", "values: N * T", "sum: T", "N: int >= 1; T: numbertype", 0, "sum"), ShapeOfFirst),
        with(DefineOp("Ones", "x: T", "y: T", "T: type", TENON_OP_NO_GRADIENT, "ones_like"), ShapeOfFirst),
        with(DefineOp("Zeros", "x: T", "y: T", "T: type", TENON_OP_NO_GRADIENT, "zeros_like"), ShapeOfFirst),
        with(DefineOp("Convert", "x: SrcT", "y: DstT", "SrcT: type; DstT: type", TENON_OP_NO_GRADIENT, "cast"),
             ShapeOfFirst),
        with(DefineOp("Stop", "x: T", "y: T", "T: type", TENON_OP_NO_GRADIENT), ShapeOfFirst),
        with(DefineOp("StopOnly", "x: T", "y: T", "T: type", TENON_OP_IDENTITY | TENON_OP_NO_GRADIENT), ShapeOfFirst),
        with(DefineOp("Round", "x: float", "y: float"), ShapeOfFirst, NoWayBack),
        with(DefineOp("Mystery", "x: float", "y: float"), ShapeOfFirst),
        with(DefineOp("Grow", "x: T", "y: T", "T: type"), OneRowMore),
        with(DefineOp("Fill", "dims: int32", "y: float"), ShapeOfValue),
        with(DefineOp("Copy", "x: T", "y: T", "T: type", TENON_OP_IDENTITY, "identity"), nullptr, PassOnToAll),
        DefineOp("CopyAll", "x: T", "y: T", "T: list(type)", TENON_OP_IDENTITY, "identity_n"),
        DefineOp("TwoLists", "a: A, n: N * float, b: B", "y: float", "A: list(type) = []; N: int = 1; B: list(type)"),
        DefineOp("Nothing", "", "", "", TENON_OP_NO_OP, "no_op"),
        DefineOp("Wake", "", "", "", TENON_OP_CONTROL_TRIGGER, "control_trigger"),
        DefineOp("Branch", "data: T, predicate: bool", "no: T, yes: T", "T: type", TENON_OP_SWITCH, "switch"),
        DefineOp("Join", "inputs: N * T", "output: T, which: int32", "T: type; N: int >= 1", TENON_OP_MERGE, "merge"),
        DefineOp("Into", "data: T", "output: T",
                 "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10",
                 TENON_OP_ENTER, "enter"),
        DefineOp("Leave", "data: T", "output: T", "T: type", TENON_OP_EXIT, "exit"),
        DefineOp("Again", "data: T", "output: T", "T: type", TENON_OP_NEXT_ITERATION, "next_iteration"),
        DefineOp("Goes", "input: bool", "output: bool", "", TENON_OP_LOOP_CONDITION, "loop_condition"),
        with(DefineOp("Truth", "x: T", "y: bool", "T: type", 0, "to_bool"), ScalarShape),
        made_of_others(DefineOp("Double", "x: T", "y: T", "T: {float, double}")),
        with(DefineOp("Below", "a: T, b: T", "z: bool", "T: {float, double, int32, int64}"), ScalarShape),
        with(DefineOp("Draw", "", "y: float", "", TENON_OP_STATEFUL), ScalarShape),
        DefineOp("Cell", "", "ref: Ref(float)", "", TENON_OP_STATEFUL),
        DefineOp("Write", "ref: Ref(T), value: T", "out: Ref(T)", "T: type", TENON_OP_WRITES_STATE),
        DefineOp("Handle", "", "handle: resource", "", TENON_OP_STATEFUL),
        with(DefineOp("Look", "handle: resource", "value: float"), ScalarShape),
        DefineOp("Give", "tensor: T", "", "T: type" TENON_FAKES_SEND, TENON_OP_SEND | TENON_OP_STATEFUL, "send"),
        DefineOp("Take", "", "tensor: tensor_type", "tensor_type: type" TENON_FAKES_SEND,
                 TENON_OP_RECV | TENON_OP_STATEFUL, "recv"),
        DefineOp("Measure", "x: T", "size: int32", "T: type", TENON_OP_METADATA),
        WorkOp(),
        DefineOp("Apply", "x: Tin", "y: Tout", "Tin: list(type); Tout: list(type); f: func", TENON_OP_CALL),
        DefineOp("Far", "target: string, x: Tin", "y: Tout", "Tin: list(type); Tout: list(type); f: func",
                 TENON_OP_CALL | TENON_OP_REMOTE),
        DefineOp("Choose", "p: Tp, x: Tin", "y: Tout",
                 "Tp: type; Tin: list(type); Tout: list(type); then_branch: func; else_branch: func", TENON_OP_BRANCH),
        DefineOp("Repeat", "x: T", "y: T", "T: list(type); cond: func; body: func", TENON_OP_WHILE),
    };
    std::vector<const tenon_op_definition*> list;
    for (const tenon_op_definition& op : ops) list.push_back(&op);
    return list;
  }();
  return made;
}

inline const graph::OpRegistry& TinyOps() {
  static const graph::OpRegistry* const registry = [] {
    auto* made = new graph::OpRegistry;
    const Status status = RegisterOps(made, TinyOpList());
    EXPECT_TRUE(status.ok()) << status.ToString();
    return made;
  }();
  return *registry;
}

// ---- Graphs ----

template <typename T>
Tensor TensorOf(DType dtype, Shape shape, std::vector<T> values) {
  auto tensor = Tensor::FromValues<T>(GlobalPool(), dtype, std::move(shape), std::span<const T>(values));
  EXPECT_TRUE(tensor.ok());
  return tensor.ok() ? *std::move(tensor) : Tensor();
}

class GraphMaker {
 public:
  using Edge = graph::Edge;
  using Edges = std::vector<Edge>;

  graph::Graph graph{&TinyOps()};

  // The node's first output.
  Edge Add(std::string_view op, Edges inputs = {}, graph::AttrMap attrs = {}, std::string_view name = {},
           std::vector<graph::NodeId> controls = {}) {
    auto id = TryAdd(op, std::move(inputs), std::move(attrs), name, std::move(controls));
    EXPECT_TRUE(id.ok()) << id.status().ToString();
    return {id.ok() ? *id : graph::NodeId(), 0};
  }
  Result<graph::NodeId> TryAdd(std::string_view op, Edges inputs = {}, graph::AttrMap attrs = {},
                               std::string_view name = {}, std::vector<graph::NodeId> controls = {}) {
    TENON_ASSIGN_OR_RETURN(const graph::OpDef* def, graph.registry().Find(op));
    return graph.Add({def, std::string(name), std::move(inputs), std::move(controls), std::move(attrs), {}});
  }
  Edge Value(float value, std::string_view name = {}) {
    return ValueOf(TensorOf<float>(TENON_DT_FLOAT, {}, {value}), name);
  }
  Edge ValueOf(Tensor value, std::string_view name = {}) {
    const DType dtype = value.dtype();
    return Add("Value", {},
               {{"dtype", graph::AttrValue::Type(dtype)}, {"value", graph::AttrValue::OfTensor(std::move(value))}},
               name);
  }
  Edge Feed(DType dtype, Shape shape = {}, std::string_view name = {}) {
    return Add("Feed", {},
               {{"dtype", graph::AttrValue::Type(dtype)}, {"shape", graph::AttrValue::OfShape(std::move(shape))}},
               name);
  }
  Edge Work(Edges inputs, float flops, Shape shape = {}, std::string_view name = {}) {
    const int64_t count = static_cast<int64_t>(inputs.size());
    return Add("Work", std::move(inputs),
               {{"N", graph::AttrValue::Int(count)},
                {"flops", graph::AttrValue::Float(flops)},
                {"shape", graph::AttrValue::OfShape(std::move(shape))}},
               name);
  }
  Edge Into(Edge value, std::string_view frame, bool constant = false, std::string_view name = {}) {
    return Add("Into", {value}, {{"frame_name", graph::AttrValue::String(std::string(frame))},
                                 {"is_constant", graph::AttrValue::Bool(constant)}}, name);
  }

  // while (condition(variables)) variables = body(variables). Nodes: "<name>/merge0", "<name>/switch0", ...
  struct Loop {
    Edges enters, merges, switches, nexts, exits;
    Edge condition;
  };
  Loop While(const std::string& name, const Edges& initial, const std::function<Edge(const Edges&)>& condition,
             const std::function<Edges(const Edges&)>& body) {
    Loop loop;
    const auto named = [&name](const char* what, size_t i) { return name + "/" + what + std::to_string(i); };
    for (size_t i = 0; i < initial.size(); ++i) loop.enters.push_back(Into(initial[i], name, false, named("enter", i)));
    for (size_t i = 0; i < initial.size(); ++i)
      loop.merges.push_back(Add("Join", {loop.enters[i], {}}, {}, named("merge", i)));
    loop.condition = Add("Goes", {condition(loop.merges)}, {}, name + "/condition");
    Edges turn;
    for (size_t i = 0; i < initial.size(); ++i) {
      loop.switches.push_back(Add("Branch", {loop.merges[i], loop.condition}, {}, named("switch", i)));
      turn.push_back({loop.switches[i].node, 1});
      loop.exits.push_back(Add("Leave", {loop.switches[i]}, {}, named("exit", i)));
    }
    const Edges next = body(turn);
    for (size_t i = 0; i < next.size(); ++i) {
      loop.nexts.push_back(Add("Again", {next[i]}, {}, named("next", i)));
      const Status status = graph.SetInput(loop.merges[i].node, 1, loop.nexts[i]);
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    return loop;
  }
  std::vector<graph::NodeId> Order() const {
    auto order = graph.TopologicalOrder();
    EXPECT_TRUE(order.ok()) << order.status().ToString();
    return order.ok() ? *order : std::vector<graph::NodeId>{};
  }
  std::string OpOf(Edge edge) const { return graph.node(edge.node).op->name; }
};

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_TINY_OPS_H_
