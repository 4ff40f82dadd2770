// SPDX-License-Identifier: Apache-2.0
// Functions: a part of a graph that is built once and called by name.
//
//   Function square_sum = Define(graph, "square_sum", [](Graph& body, const std::vector<Output>& x) {
//     return body.Op("AddV2", {body.Op("Square", {x[0]}), body.Op("Square", {x[1]})});
//   }, {DType::kFloat, DType::kFloat});
//   Output y = graph.Call(square_sum, {a, b});
//   std::vector<Gradient> d = graph.Gradients({y}, {a, b});      // through the call
//
// A body uses its arguments and what it makes itself: an Output of the graph around is refused by name. It may call
// functions that the graph has, so those are defined before it, and none calls itself. Calls become the functions'
// nodes before a step. As attributes, functions are what PartitionedCall, If, Case, While and SymbolicGradient take;
// Cond, Case and While below write those nodes.
//
// A failure, the body's too, stands in graph.status(). Threads: as Graph says; a body is built within the call of
// Define.
#ifndef TENON_HOST_FUNCTION_H_
#define TENON_HOST_FUNCTION_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/host/control_flow.h"
#include "tenon/host/graph.h"

namespace tenon::host {

// An argument of a function that is defined: {DType::kFloat}, {DType::kFloat, {-1, 3}, "x"}.
struct Argument {
  // NOLINT: implicit on purpose
  Argument(DType argument_dtype, Shape argument_shape = Shape::Unknown(), std::string argument_name = {})
      : dtype(argument_dtype), shape(std::move(argument_shape)), name(std::move(argument_name)) {}
  DType dtype;
  Shape shape;       // what the body may know of it; a call is not held to it
  std::string name;  // letters, digits, '_'; empty: "x0", "x1", ...
};

// What a body gives.
struct FunctionResults {
  FunctionResults(Output output) : outputs{std::move(output)} {}  // NOLINT: implicit on purpose, as the two below
  FunctionResults(const Operation& operation) : outputs{operation} {}                   // NOLINT
  FunctionResults(std::vector<Output> of_function, std::vector<Operation> to_run = {})  // NOLINT
      : outputs(std::move(of_function)), effects(std::move(to_run)) {}
  std::vector<Output> outputs;
  // that each call runs, whatever is read of it, as assignments; at the call they are control outputs
  std::vector<Operation> effects;
};

using FunctionBody = std::function<FunctionResults(Graph& body, const std::vector<Output>& arguments)>;

struct FunctionOptions {
  std::string description = {};                // for people
  std::vector<std::string> output_names = {};  // empty: "y0", "y1", ...
  std::string gradient = {};  // a function of the graph that computes the gradient; empty: it is made of the body
  Attrs attrs = {};                            // said of the function itself, as {"_noinline", true}
};

namespace internal {

// The spec of a function whose body stands, with what it borrows.
class FunctionMaker {
 public:
  FunctionMaker(const Graph& body, const std::vector<Argument>& arguments) : body_(body) {
    for (const Argument& argument : arguments)
      input_names_.push_back(argument.name.empty() ? "x" + std::to_string(input_names_.size()) : argument.name);
  }
  const std::string& input_name(size_t i) const { return input_names_[i]; }

  Status Define(Graph& graph, std::string_view name, const std::vector<Output>& inputs, const FunctionResults& results,
                const FunctionOptions& options) {
    TENON_TRY(body_.status());
    if (!options.output_names.empty() && options.output_names.size() != results.outputs.size())
      return Status(Code::kInvalidArgument, std::to_string(options.output_names.size()) + " names for " +
                                                std::to_string(results.outputs.size()) + " outputs");
    TENON_TRY(AddEdges("input", inputs, input_names_, &inputs_));
    std::vector<std::string> output_names = options.output_names, effect_names;
    for (size_t i = output_names.size(); i < results.outputs.size(); ++i)
      output_names.push_back("y" + std::to_string(i));
    for (size_t i = 0; i < results.effects.size(); ++i) effect_names.push_back("effect" + std::to_string(i));
    TENON_TRY(AddEdges("output", results.outputs, output_names, &outputs_));
    for (size_t i = 0; i < results.effects.size(); ++i)
      effects_.push_back({Span(effect_names[i]), results.effects[i].node()});
    for (const Attr& attr : options.attrs) attrs_.push_back(attr.Get());
    tenon_function_spec spec = {};
    spec.struct_size = sizeof(spec);
    spec.name = Span(name);
    spec.description = Span(options.description);
    spec.body = body_.get();
    spec.inputs = inputs_.data();
    spec.input_count = inputs_.size();
    spec.outputs = outputs_.data();
    spec.output_count = outputs_.size();
    spec.control_outputs = effects_.data();
    spec.control_output_count = effects_.size();
    spec.attrs = attrs_.data();
    spec.attr_count = attrs_.size();
    spec.gradient = Span(options.gradient);
    return Status::Take(tenon_graph_add_function(graph.get(), &spec));
  }

 private:
  Status AddEdges(const char* what, const std::vector<Output>& edges, const std::vector<std::string>& names,
                  std::vector<tenon_named_output>* named) {
    for (size_t i = 0; i < edges.size(); ++i) {
      if (edges[i].graph() != body_.get())
        return Status(
            Code::kInvalidArgument,
            std::string(what) + " '" + names[i] + "' is " +
                (edges[i].valid() ? "'" + edges[i].name() +
                                        "' of another graph than the body; pass it to the function as an argument"
                                  : "no output of a node"));
      named->push_back({Span(names[i]), edges[i].c_output()});
    }
    return Status();
  }

  const Graph& body_;
  std::vector<std::string> input_names_;
  std::vector<tenon_named_output> inputs_, outputs_;
  std::vector<tenon_named_node> effects_;
  std::vector<tenon_attr> attrs_;
};

}  // namespace internal

// Defines a function of the graph; `body` is called once, now, with a graph of its own and the arguments in it. Where
// the graph has one of that name: fine when it is the same, ALREADY_EXISTS when not. The body's scopes, devices and
// control dependencies are its own.
inline Function Define(Graph& graph, std::string_view name, const FunctionBody& body,
                       const std::vector<Argument>& arguments, const FunctionOptions& options = {}) {
  if (!graph.status().ok()) return Function{std::string(name)};
  Graph inside = graph.Body();
  internal::FunctionMaker maker(inside, arguments);
  std::vector<Output> inputs;
  for (const Argument& argument : arguments)
    inputs.push_back(inside.Placeholder(maker.input_name(inputs.size()), argument.dtype, argument.shape));
  const FunctionResults results = body(inside, inputs);
  graph.Fail(maker.Define(graph, name, inputs, results, options).Annotate("function '" + std::string(name) + "'"));
  return Function{std::string(name)};
}

// Those of another graph of the runtime, with what they call.
inline Function CopyFunction(Graph& graph, const Graph& from, std::string_view name) {
  if (graph.status().ok()) graph.Fail(Status::Take(tenon_graph_copy_function(graph.get(), from.get(), Span(name))));
  return Function{std::string(name)};
}

// Of one function; NOT_FOUND names near misses. Texts are borrowed until the graph changes.
inline Result<tenon_function_info> FindFunction(const Graph& graph, std::string_view name) {
  tenon_function_info info = {};
  info.struct_size = sizeof(info);
  TENON_TRY(Status::Take(tenon_graph_find_function(graph.get(), Span(name), &info)));
  return info;
}

// Of all, by name; borrowed as above.
inline std::vector<tenon_function_info> Functions(const Graph& graph) {
  std::vector<tenon_function_info> infos(tenon_graph_function_count(graph.get()));
  for (size_t i = 0; i < infos.size(); ++i) {
    infos[i].struct_size = sizeof(infos[i]);
    (void)Status::Take(tenon_graph_function(graph.get(), i, &infos[i]));
  }
  return infos;
}

// which: TENON_FUNCTION_INPUT, .._OUTPUT or .._CONTROL_OUTPUT; borrowed as above.
inline Result<std::vector<tenon_function_argument>> FunctionArguments(const Graph& graph, const Function& function,
                                                                      uint32_t which) {
  TENON_TRY_ASSIGN(const tenon_function_info info, FindFunction(graph, function.name));
  std::vector<tenon_function_argument> arguments(which == TENON_FUNCTION_INPUT    ? info.input_count
                                                 : which == TENON_FUNCTION_OUTPUT ? info.output_count
                                                                                  : info.control_output_count);
  for (size_t i = 0; i < arguments.size(); ++i) {
    arguments[i].struct_size = sizeof(arguments[i]);
    TENON_TRY(Status::Take(tenon_graph_function_argument(graph.get(), Span(function.name), which, i, &arguments[i])));
  }
  return arguments;
}

// What the operation's attribute binds of its function's own attributes: {"T", DType::kFloat} of a function for any
// type.
inline void BindFunction(Graph& graph, const Operation& operation, std::string_view attr, const Attrs& bound,
                         uint64_t index = 0) {
  std::vector<tenon_attr> c_bound;
  for (const Attr& each : bound) c_bound.push_back(each.Get());
  if (graph.status().ok())
    graph.Fail(Status::Take(
        tenon_graph_bind_function(graph.get(), operation.node(), Span(attr), index, c_bound.data(), c_bound.size())));
}

namespace internal {

// The types of the function's results; a failure, and none, where a caller would have to bind them.
inline std::vector<DType> ResultTypes(Graph& graph, const Function& function) {
  std::vector<DType> types;
  auto outputs = FunctionArguments(graph, function, TENON_FUNCTION_OUTPUT);
  if (!outputs.ok()) graph.Fail(outputs.status());
  if (!graph.status().ok()) return types;
  for (const tenon_function_argument& output : *outputs) {
    if (output.dtype == TENON_DT_INVALID || output.number_attr.size != 0)
      graph.Fail(Status(Code::kInvalidArgument, "function '" + function.name +
                                                    "': attributes that a caller binds say the type of its result '" +
                                                    std::string(Text(output.name)) +
                                                    "'; add the node with AddNode, and BindFunction"));
    types.push_back(static_cast<DType>(output.dtype));
  }
  return types;
}

inline bool AnyIsStateful(const Graph& graph, const std::vector<Function>& functions) {
  for (const Function& function : functions) {
    const auto info = FindFunction(graph, function.name);
    if (info.ok() && info->stateful != 0) return true;
  }
  return false;
}

}  // namespace internal

// The results of branches[index](inputs), of the last branch where there is none of that index; index is one int32. All
// branches take the inputs and give results of the same types. The branch that is taken runs alone.
inline std::vector<Output> Case(Graph& graph, const Output& index, const std::vector<Function>& branches,
                                const std::vector<Output>& inputs, const std::string& name = "case") {
  if (branches.empty()) graph.Fail(Status(Code::kInvalidArgument, "Case '" + name + "': there are no branches"));
  if (!graph.status().ok()) return {};
  std::vector<Output> all{index};
  all.insert(all.end(), inputs.begin(), inputs.end());
  const std::vector<DType> types = internal::ResultTypes(graph, branches[0]);
  return graph
      .AddNode(internal::AnyIsStateful(graph, branches) ? "Case" : "StatelessCase", all,
               {{"branches", branches}, {"Tout", types}}, name)
      .outputs();
}

// predicate ? when_true(inputs) : when_false(inputs), as Case.
inline std::vector<Output> Cond(Graph& graph, const Output& predicate, const std::vector<Output>& inputs,
                                const Function& when_true, const Function& when_false,
                                const std::string& name = "cond") {
  std::vector<Output> all{predicate};
  all.insert(all.end(), inputs.begin(), inputs.end());
  const std::vector<DType> types = internal::ResultTypes(graph, when_true);
  const bool stateful = internal::AnyIsStateful(graph, {when_true, when_false});
  return graph
      .AddNode(stateful ? "If" : "StatelessIf", all,
               {{"then_branch", when_true}, {"else_branch", when_false}, {"Tout", types}}, name)
      .outputs();
}

// The last values of the variables: while condition(variables) holds, variables = body(variables). What the body gives
// back as it got it costs nothing from turn to turn.
inline std::vector<Output> While(Graph& graph, const std::vector<Output>& variables, const Function& condition,
                                 const Function& body, const LoopOptions& options = {}) {
  const bool stateful = internal::AnyIsStateful(graph, {condition, body});
  return graph
      .AddNode(stateful ? "While" : "StatelessWhile", variables,
               {{"cond", condition}, {"body", body}, {"parallel_iterations", options.parallel_iterations}},
               options.name)
      .outputs();
}

}  // namespace tenon::host

#endif  // TENON_HOST_FUNCTION_H_
