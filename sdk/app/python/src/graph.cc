// SPDX-License-Identifier: Apache-2.0
#include "graph.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "attr.h"
#include "tensor.h"
#include "text.h"

namespace tenon::python {
namespace {

OutputBox& OutputOf(nb::handle value) {
  if (!nb::isinstance<OutputBox>(value))
    FailInvalid("an output of a node is wanted; found " + nb::cast<std::string>(nb::repr(value)));
  return nb::cast<OutputBox&>(value);
}

nb::object GetAttr(const OperationBox& self, const std::string& name) {
  GraphBox& box = BoxOf(self.graph);
  const Locked locked(box);
  tenon_attr_value value = {};
  Check(Status::Take(tenon_graph_node_attr(box.graph.get(), self.operation.node(), host::Span(name), &value)));
  return FromAttr(value);
}

// ---- Guards ----

// A scope, a device or control dependencies, as Python's `with`. Entered once at a time.
class GuardBox {
 public:
  using Begin = std::function<host::Graph::Guard(host::Graph&)>;
  GuardBox(nb::object graph, Begin begin) : graph_(std::move(graph)), begin_(std::move(begin)) {}
  void Enter() {
    if (guard_)
      Fail(Code::kFailedPrecondition, "this block has been entered already; make another for a block within it");
    const Locked locked(BoxOf(graph_));
    guard_.emplace(begin_(BoxOf(graph_).graph));
  }
  void VisitKept(const auto& visit) const { visit(graph_); }
  void Exit() {
    const Locked locked(BoxOf(graph_));
    guard_.reset();
    Check(BoxOf(graph_).graph.TakeStatus());
  }
  // Of a block that was begun and never left, as by a generator that nobody went on with. Not a `with` block's.
  ~GuardBox() {
    if (!guard_) return;
    const Locked locked(BoxOf(graph_));
    guard_.reset();
  }

 private:
  nb::object graph_;
  Begin begin_;
  std::optional<host::Graph::Guard> guard_;
};

std::vector<host::Operation> ToOperations(nb::handle values) {
  std::vector<host::Operation> operations;
  for (const nb::handle value : nb::iter(values)) {
    if (nb::isinstance<OperationBox>(value))
      operations.push_back(nb::cast<OperationBox&>(value).operation);
    else
      operations.push_back(host::Operation(OutputOf(value).output));
  }
  return operations;
}

GuardBox* ControlDependencies(nb::object graph, nb::object on, bool only) {
  std::vector<host::Operation> operations = ToOperations(on);
  for (const host::Operation& operation : operations)
    if (operation.graph() != BoxOf(graph).graph.get())
      FailInvalid("'" + operation.name() + "' belongs to another graph");
  return new GuardBox(graph, [operations = std::move(operations), only](host::Graph& to) {
    return only ? to.OnlyControlDependencies(operations) : to.ControlDependencies(operations);
  });
}

// ---- Functions ----

GraphHandle MakeBody(const GraphHandle& self) {
  const Locked locked(*self.box);
  auto box = std::make_shared<GraphBox>(self.box->runtime, self.box->graph.Body());
  Check(box->graph.TakeStatus());
  box->around = self.box;
  return {std::move(box)};
}

struct FunctionParts {
  std::vector<std::string> names;
  std::vector<tenon_named_output> outputs;
  void Add(const std::vector<host::Output>& from, nb::handle given_names) {
    names = nb::cast<std::vector<std::string>>(given_names);
    for (size_t i = 0; i < from.size(); ++i) outputs.push_back({host::Span(names.at(i)), from[i].c_output()});
  }
};

void AddFunction(const GraphHandle& self, const std::string& name, const GraphHandle& body, nb::list inputs,
                 nb::list input_names, nb::list outputs, nb::list output_names, nb::list effects,
                 const std::string& description, const std::string& gradient) {
  FunctionParts ins, outs;
  ins.Add(ToOutputs(inputs), input_names);
  outs.Add(ToOutputs(outputs), output_names);
  const std::vector<host::Operation> operations = ToOperations(effects);
  for (const nb::handle output : outputs)
    if (OutputOf(output).output.graph() != body.box->graph.get())
      FailInvalid("function '" + name + "': a result is '" + OutputOf(output).output.name() +
                  "' of another graph than the body");
  std::vector<std::string> effect_names;
  for (size_t i = 0; i < operations.size(); ++i) effect_names.push_back("effect" + std::to_string(i));
  std::vector<tenon_named_node> c_effects;
  for (size_t i = 0; i < operations.size(); ++i)
    c_effects.push_back({host::Span(effect_names[i]), operations[i].node()});
  tenon_function_spec spec = {};
  spec.struct_size = sizeof(spec);
  spec.name = host::Span(name);
  spec.description = host::Span(description);
  spec.body = body.box->graph.get();
  spec.inputs = ins.outputs.data();
  spec.input_count = ins.outputs.size();
  spec.outputs = outs.outputs.data();
  spec.output_count = outs.outputs.size();
  spec.control_outputs = c_effects.data();
  spec.control_output_count = c_effects.size();
  spec.gradient = host::Span(gradient);
  const Locked locked_body(*body.box);
  Changed(*self.box, [&](host::Graph& graph) {
    Check(Status::Take(tenon_graph_add_function(graph.get(), &spec)).Annotate("function '" + name + "'"));
    return true;
  });
}

nb::dict FromFunction(const GraphHandle& self, const tenon_function_info& info) {
  const auto arguments = [&](uint32_t which) {
    nb::list list;
    for (const tenon_function_argument& argument :
         Take(host::FunctionArguments(self.box->graph, {std::string(host::Text(info.name))}, which)))
      list.append(nb::make_tuple(ToStr(argument.name), argument.dtype == TENON_DT_INVALID
                                                           ? nb::none()
                                                           : FromDType(static_cast<DType>(argument.dtype))));
    return list;
  };
  nb::dict function;
  function["name"] = ToStr(info.name);
  function["description"] = ToStr(info.description);
  function["gradient"] = ToStr(info.gradient);
  function["nodes"] = info.node_count;
  function["stateful"] = info.stateful != 0;
  function["inputs"] = arguments(TENON_FUNCTION_INPUT);
  function["outputs"] = arguments(TENON_FUNCTION_OUTPUT);
  return function;
}

// ---- Nodes ----

OperationBox AddNode(nb::object graph, const std::string& op, nb::list inputs, nb::list attrs,
                     const std::string& name) {
  const std::vector<host::Output> outputs = ToOutputs(inputs);
  host::Attrs c_attrs;
  for (const nb::handle attr : attrs)
    c_attrs.push_back(ToAttr(nb::cast<std::string>(attr[0]), nb::cast<std::string_view>(attr[1]), attr[2]));
  return {graph, Changed(BoxOf(graph), [&](host::Graph& to) { return to.AddNode(op, outputs, c_attrs, name); })};
}

OutputBox AddConstant(nb::object graph, nb::object value, nb::object dtype, const std::string& name) {
  const FedValue fed = ToView(value, dtype.is_none() ? DType::kInvalid : ToDType(dtype), "the constant");
  return {graph, Changed(BoxOf(graph), [&](host::Graph& to) { return to.Const(fed.view, name); })};
}

nb::list Gradients(nb::object graph, nb::list ys, nb::list xs, nb::list initial) {
  const std::vector<host::Output> c_ys = ToOutputs(ys), c_xs = ToOutputs(xs), c_initial = ToOutputs(initial);
  for (const auto* outputs : {&c_ys, &c_xs, &c_initial})
    for (const host::Output& output : *outputs)
      if (output.graph() != BoxOf(graph).graph.get())
        FailInvalid("'" + output.name() + "' belongs to another graph than the first of the ys");
  nb::list gradients;
  for (const host::Gradient& gradient : Changed(BoxOf(graph), [&](host::Graph& to) {
         const WithoutLock unlocked;
         return to.Gradients(c_ys, c_xs, c_initial);
       })) {
    if (gradient.kind == host::Gradient::Kind::kNone)
      gradients.append(nb::none());
    else if (gradient.kind == host::Gradient::Kind::kDense)
      gradients.append(OutputBox{graph, gradient.dense});
    else
      gradients.append(nb::make_tuple(OutputBox{graph, gradient.dense}, OutputBox{graph, gradient.indices},
                                      OutputBox{graph, gradient.dense_shape}));
  }
  return gradients;
}

nb::list AllOperations(nb::object graph) {
  GraphBox& box = BoxOf(graph);
  const Locked locked(box);
  nb::list list;
  for (int64_t i = 0; i < box.graph.node_count(); ++i)
    list.append(OperationBox{graph, host::Operation(box.graph.get(), i)});
  return list;
}

nb::list InputsOf(const OperationBox& self) {
  GraphBox& box = BoxOf(self.graph);
  const Locked locked(box);
  nb::list inputs;
  for (int32_t i = 0; i < self.operation.input_count(); ++i) {
    tenon_output source = {-1, 0, 0};
    Check(Status::Take(tenon_graph_node_input(box.graph.get(), self.operation.node(), i, &source)));
    inputs.append(OutputBox{self.graph, host::Output(box.graph.get(), source.node, source.index)});
  }
  return inputs;
}

nb::list ControlInputsOf(const OperationBox& self) {
  const Locked locked(BoxOf(self.graph));
  nb::list nodes;
  for (const host::Operation& node : self.operation.control_inputs()) nodes.append(OperationBox{self.graph, node});
  return nodes;
}

nb::list OutputsOf(const OperationBox& self) {
  const Locked locked(BoxOf(self.graph));
  nb::list outputs;
  for (const host::Output& output : self.operation.outputs()) outputs.append(OutputBox{self.graph, output});
  return outputs;
}

// A question to a node or an edge, with the graph's lock.
template <typename Box, typename Ask>
auto Asking(Ask ask) {
  return [ask](const Box& self) {
    const Locked locked(BoxOf(self.graph));
    return ask(self);
  };
}

void BindOutput(nb::module_& module) {
  nb::class_<OutputBox>(module, "Output", nb::type_slots(traversed_slots<OutputBox>),
                        "One end of an edge: an output of a node, which other nodes take, and sessions feed and fetch.")
      .def_ro("graph", &OutputBox::graph)
      .def_prop_ro("name", Asking<OutputBox>([](const OutputBox& self) { return self.output.name(); }),
                   "\"node\", or \"node:1\"")
      .def_prop_ro("dtype", Asking<OutputBox>([](const OutputBox& self) { return FromDType(self.output.dtype()); }))
      .def_prop_ro("shape", Asking<OutputBox>([](const OutputBox& self) { return FromShape(self.output.shape()); }),
                   "What is known before a step runs: sizes or None; None for an unknown rank")
      .def_prop_ro("index", [](const OutputBox& self) { return self.output.index(); })
      .def_prop_ro(
          "op",
          [](const OutputBox& self) {
            return OperationBox{self.graph, host::Operation(self.output)};
          },
          "The node that makes it")
      .def(
          "__eq__",
          [](const OutputBox& self, nb::object other) {
            if (!nb::isinstance<OutputBox>(other)) return false;
            const host::Output& to = nb::cast<OutputBox&>(other).output;
            return self.output.graph() == to.graph() && self.output.node() == to.node() &&
                   self.output.index() == to.index();
          },
          nb::arg("other").none(), "Whether it is the same edge; tenon.ops.Equal compares values.")
      .def("__hash__",
           [](const OutputBox& self) { return std::hash<int64_t>()(self.output.node() * 64 + self.output.index()); })
      .def("__bool__",
           [](const OutputBox&) -> bool {
             throw nb::type_error(
                 "an Output has no value before a step runs; use tenon.cond or tenon.while_loop to choose by it");
           })
      .def("__iter__",
           [](const OutputBox&) -> nb::object {
             throw nb::type_error("an Output cannot be iterated; tenon.ops.Unpack splits it");
           })
      .def("__repr__", Asking<OutputBox>([](const OutputBox& self) {
             return "<tenon.Output '" + self.output.name() + "' " + Describe(self.output.dtype(), self.output.shape()) +
                    ">";
           }));
}

void BindOperation(nb::module_& module) {
  nb::class_<OperationBox>(module, "Operation", nb::type_slots(traversed_slots<OperationBox>), "A node of a graph.")
      .def_ro("graph", &OperationBox::graph)
      .def_prop_ro("name", Asking<OperationBox>([](const OperationBox& self) { return self.operation.name(); }))
      .def_prop_ro("type", Asking<OperationBox>([](const OperationBox& self) { return self.operation.op(); }),
                   "The op: \"MatMul\"")
      .def_prop_ro(
          "device", Asking<OperationBox>([](const OperationBox& self) {
            return std::string(host::Text(tenon_graph_node_device(self.operation.graph(), self.operation.node())));
          }),
          "What was asked for; \"\": none")
      .def_prop_ro("inputs", &InputsOf)
      .def_prop_ro("outputs", &OutputsOf)
      .def_prop_ro("control_inputs", &ControlInputsOf,
                   "The nodes that it waits for beyond those whose outputs it takes")
      .def("attr", &GetAttr, nb::arg("name"), "The value of an attribute.")
      .def(
          "__eq__",
          [](const OperationBox& self, nb::object other) {
            if (!nb::isinstance<OperationBox>(other)) return false;
            const host::Operation& to = nb::cast<OperationBox&>(other).operation;
            return self.operation.graph() == to.graph() && self.operation.node() == to.node();
          },
          nb::arg("other").none())
      .def("__hash__", [](const OperationBox& self) { return std::hash<int64_t>()(self.operation.node()); })
      .def("__repr__", Asking<OperationBox>([](const OperationBox& self) {
             std::string text = "<tenon.Operation '" + self.operation.name() + "' " + self.operation.op() + "(";
             const host::Operation& operation = self.operation;
             for (int32_t i = 0; i < operation.input_count(); ++i) {
               tenon_output source = {-1, 0, 0};
               Check(Status::Take(tenon_graph_node_input(operation.graph(), operation.node(), i, &source)));
               text += (i > 0 ? ", " : "") + host::Output(operation.graph(), source.node, source.index).name();
             }
             text += ")";
             for (const host::Output& output : operation.outputs())
               text += (output.index() == 0 ? " -> " : ", ") + Describe(output.dtype(), output.shape());
             return text + ">";
           }));
}

}  // namespace

GraphBox& BoxOf(nb::handle graph) { return *nb::cast<GraphHandle&>(graph).box; }

std::vector<host::Output> ToOutputs(nb::handle outputs) {
  std::vector<host::Output> list;
  for (const nb::handle output : nb::iter(outputs)) list.push_back(OutputOf(output).output);
  return list;
}

std::string NameOfTensor(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (nb::isinstance<OperationBox>(value)) {
    const auto& box = nb::cast<OperationBox&>(value);
    const Locked locked(BoxOf(box.graph));
    return box.operation.name();
  }
  const OutputBox& box = OutputOf(value);
  const Locked locked(BoxOf(box.graph));
  return box.output.name();
}

void BindGraphs(nb::module_& module) {
  BindOutput(module);
  BindOperation(module);
  nb::class_<GuardBox>(module, "Block", nb::type_slots(traversed_slots<GuardBox>),
                       "A `with` block over a graph: a scope, a device, or control dependencies.")
      .def("__enter__", [](GuardBox& self) { self.Enter(); })
      .def("__exit__", [](GuardBox& self, nb::args) { self.Exit(); });
  nb::class_<GraphHandle>(module, "GraphBase", nb::is_weak_referenceable())
      .def(nb::init<>())
      .def(
          "_begin",
          [](GraphHandle& self, const RuntimeBox& runtime) {
            self.box = std::make_shared<GraphBox>(runtime.runtime, host::Graph(*runtime.runtime));
            Check(self.box->graph.TakeStatus());
          },
          nb::arg("runtime"))
      .def(
          "_begin_body", [](GraphHandle& self, const GraphHandle& around) { self.box = MakeBody(around).box; },
          nb::arg("around"))
      .def(
          "_lock_around",
          [](GraphHandle& self, int by) {
            const Locked locked(*self.box->around);
            self.box->around->bodies += by;
          },
          nb::arg("by"))
      .def("_add_node", [](nb::object self, const std::string& op, nb::list inputs, nb::list attrs,
                           const std::string& name) { return AddNode(self, op, inputs, attrs, name); })
      .def("_constant", &AddConstant, nb::arg("value"), nb::arg("dtype").none(), nb::arg("name"))
      .def("_gradients", &Gradients)
      .def("_add_function", &AddFunction)
      .def("_copy_function",
           [](GraphHandle& self, const GraphHandle& from, const std::string& name) {
             const Locked locked(*from.box);
             Changed(*self.box, [&](host::Graph& graph) { return host::CopyFunction(graph, from.box->graph, name); });
           })
      .def("_set_function_gradient",
           [](GraphHandle& self, const std::string& function, const std::string& gradient) {
             Changed(*self.box, [&](host::Graph& graph) {
               Check(Status::Take(
                   tenon_graph_set_function_gradient(graph.get(), host::Span(function), host::Span(gradient))));
               return true;
             });
           })
      .def("_register_gradient",
           [](GraphHandle& self, const std::string& op_type, const std::string& function) {
             Changed(*self.box, [&](host::Graph& graph) {
               graph.RegisterGradient(op_type, host::Function{function});
               return true;
             });
           })
      .def("_function",
           [](const GraphHandle& self, const std::string& name) {
             const Locked locked(*self.box);
             return FromFunction(self, Take(host::FindFunction(self.box->graph, name)));
           })
      .def("_function_names",
           [](const GraphHandle& self) {
             const Locked locked(*self.box);
             std::vector<std::string> names;
             for (const tenon_function_info& info : host::Functions(self.box->graph))
               names.emplace_back(host::Text(info.name));
             return names;
           })
      .def("_import",
           [](GraphHandle& self, nb::bytes graph_def) {
             Changed(*self.box, [&](host::Graph& graph) {
               const WithoutLock unlocked;
               Check(graph.ImportMore({graph_def.c_str(), graph_def.size()}));
               return true;
             });
           })
      .def("_export",
           [](const GraphHandle& self) {
             const Locked locked(*self.box);
             std::string bytes;
             {
               const WithoutLock unlocked;
               bytes = Take(self.box->graph.Export());
             }
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("_find",
           [](nb::object self, const std::string& name) {
             const Locked locked(BoxOf(self));
             return OperationBox{self, Take(BoxOf(self).graph.Find(name))};
           })
      .def("_output",
           [](nb::object self, const OperationBox& operation, int32_t index) {
             return OutputBox{self, operation.operation.output(index)};
           })
      .def_prop_ro("node_count",
                   [](const GraphHandle& self) {
                     const Locked locked(*self.box);
                     return self.box->graph.node_count();
                   })
      .def_prop_ro("operations", &AllOperations, "The nodes, in the order of their making.")
      .def(
          "scope",
          [](nb::object self, std::string name) {
            return new GuardBox(self, [name = std::move(name)](host::Graph& graph) { return graph.Scope(name); });
          },
          nb::arg("name"), "A block in which new names begin with \"name/\".")
      .def(
          "device",
          [](nb::object self, std::string device) {
            return new GuardBox(self,
                                [device = std::move(device)](host::Graph& graph) { return graph.Device(device); });
          },
          nb::arg("device"),
          "A block in which new nodes ask for this device, whole or in part (\"GPU:0\"); \"\" asks for none.")
      .def(
          "override_gradient",
          [](nb::object self, std::string op, std::string op_type) {
            return new GuardBox(self, [op = std::move(op), op_type = std::move(op_type)](host::Graph& graph) {
              return graph.OverrideGradient(op, op_type);
            });
          },
          nb::arg("op"), nb::arg("op_type"),
          "A block in which the gradient of new nodes of the op is what is registered for op_type; \"\": the op's own.")
      .def(
          "control_dependencies",
          [](nb::object self, nb::object on, bool only) { return ControlDependencies(self, on, only); }, nb::arg("on"),
          nb::kw_only(), nb::arg("only") = false,
          "A block in which new nodes wait for these nodes; only: and not for those of the blocks around.");
}

}  // namespace tenon::python
