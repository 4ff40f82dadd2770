// SPDX-License-Identifier: Apache-2.0
// The functions of app.h.
#include "core/graph/function/function_library.h"
#include "core/graph/function/make_function.h"
#include "core/graph/op_registry.h"
#include "sdk/app/host/objects.h"

using namespace tenon;  // NOLINT: this file implements C functions of the global namespace
using host::List;

namespace {

using graph::FunctionDef;
using graph::FunctionSource;

Result<graph::AttrMap> ReadAttrs(const tenon_attr* attrs, uint64_t count) {
  graph::AttrMap out;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name(View(attrs[i].name));
    auto value = graph::AttrValue::FromC(attrs[i].value);
    if (!value.ok()) return Status(value.status()).Annotate(StrCat("attribute '", name, "'"));
    if (name.empty() || !out.emplace(name, *std::move(value)).second)
      return InvalidArgument(name.empty() ? "an attribute has no name" : StrCat("attribute '", name, "' stands twice"));
  }
  return out;
}

std::vector<FunctionSource::NamedEdge> ReadEdges(const tenon_named_output* edges, uint64_t count) {
  std::vector<FunctionSource::NamedEdge> out;
  for (uint64_t i = 0; i < count; ++i) {
    const tenon_output& output = edges[i].output;
    const bool fits = output.node >= 0 && output.node <= INT32_MAX;
    out.push_back(
        {std::string(View(edges[i].name)), {fits ? graph::NodeId(output.node) : graph::NodeId(), output.index}});
  }
  return out;
}

Result<FunctionSource> ReadSource(const tenon_function_spec& spec) {
  FunctionSource source;
  source.name = View(spec.name);
  source.description = View(spec.description);
  source.inputs = ReadEdges(spec.inputs, spec.input_count);
  source.outputs = ReadEdges(spec.outputs, spec.output_count);
  for (uint64_t i = 0; i < spec.control_output_count; ++i) {
    const tenon_named_node& named = spec.control_outputs[i];
    const bool fits = named.node >= 0 && named.node <= INT32_MAX;
    source.control_outputs.push_back(
        {std::string(View(named.name)), fits ? graph::NodeId(named.node) : graph::NodeId()});
  }
  TENON_ASSIGN_OR_RETURN(source.labels, ReadAttrs(spec.attrs, spec.attr_count));
  return source;
}

// Copies what the function calls of the body's library. All that it calls is there now, so that it is not itself.
Status TakeCalled(const FunctionDef& function, const graph::FunctionLibrary& of_body,
                  const graph::FunctionLibrary& library, graph::FunctionLibrary* taken) {
  for (const FunctionDef::BodyNode& node : function.nodes)
    for (const std::string_view called : graph::CalledBy(node, of_body)) {
      if (of_body.contains(called)) TENON_RETURN_IF_ERROR(graph::CopyFunction(of_body, called, taken));
      if (!taken->contains(called) && !library.contains(called))
        return NotFound(StrCat("node '", node.name, "' (", node.op, ") calls '", called,
                               "', which is no function here; a function is defined after those that it ",
                               "calls, and so cannot call itself"));
    }
  return Status::Ok();
}

Status Define(tenon_app_graph* graph, const tenon_function_spec& spec) {
  if (spec.body->runtime != graph->runtime)
    return InvalidArgument("its body is a graph of another runtime; make the body with the graph's runtime");
  TENON_ASSIGN_OR_RETURN(FunctionSource source, ReadSource(spec));
  TENON_RETURN_IF_ERROR(graph::CheckFunctionName(graph->graph.registry(), source.name));
  TENON_ASSIGN_OR_RETURN(FunctionDef function, graph::MakeFunction(spec.body->graph, std::move(source)));
  graph::FunctionLibrary& library = graph->graph.library();
  if (spec.gradient.size != 0) {
    function.gradient = View(spec.gradient);
    TENON_ASSIGN_OR_RETURN(const auto gradient, graph::FindFunction(library, function.gradient));
    TENON_RETURN_IF_ERROR(graph::CheckGradient(function, *gradient));
  }
  graph::FunctionLibrary added;
  TENON_RETURN_IF_ERROR(TakeCalled(function, spec.body->graph.library(), library, &added));
  const auto shared = std::make_shared<const FunctionDef>(std::move(function));
  TENON_RETURN_IF_ERROR(graph::AddFunction(&added, shared));
  graph->functions.clear();
  return graph::CopyFunction(added, shared->name, &library);
}

// Of the graph, or of those around it whose body it is.
Result<std::shared_ptr<const FunctionDef>> Find(const tenon_app_graph* graph, tenon_span name) {
  const tenon_app_graph* at = graph;
  while (at->outer != nullptr && !at->graph.library().contains(View(name))) at = at->outer;
  return graph::FindFunction(at->graph.library(), View(name));
}

tenon_function_info InfoOfFunction(const FunctionDef& function) {
  tenon_function_info info = {TENON_HEAD(tenon_function_info), Span(function.name),
                              Span(function.description),      Span(function.gradient),
                              function.inputs.size(),          function.outputs.size(),
                              function.control_returns.size(), function.nodes.size(),
                              function.is_stateful ? 1u : 0u,  0};
  return info;
}

Result<tenon_function_argument> ArgumentOf(const FunctionDef& function, uint32_t which, uint64_t index) {
  if (which > TENON_FUNCTION_CONTROL_OUTPUT) return InvalidArgument(StrCat(which, " is none of TENON_FUNCTION_*"));
  tenon_function_argument out = {};
  out.struct_size = sizeof(out);
  const auto& arguments = which == TENON_FUNCTION_INPUT ? function.inputs : function.outputs;
  const size_t count = which == TENON_FUNCTION_CONTROL_OUTPUT ? function.control_returns.size() : arguments.size();
  if (index >= count) {
    const char* const kinds[] = {"inputs", "outputs", "control outputs"};
    return OutOfRange(StrCat("function '", function.name, "' has ", count, " ", kinds[which], ", and no ", index));
  }
  if (which == TENON_FUNCTION_CONTROL_OUTPUT) {
    out.name = Span(std::next(function.control_returns.begin(), static_cast<ptrdiff_t>(index))->first);
    return out;
  }
  const FunctionDef::Arg& argument = arguments[index];
  out.name = Span(argument.name);
  out.dtype = argument.type;
  out.type_attr = Span(argument.type_attr);
  out.number_attr = Span(argument.number_attr);
  out.type_list_attr = Span(argument.type_list_attr);
  return out;
}

// The attribute of a node that names functions; INVALID_ARGUMENT and OUT_OF_RANGE say what there is.
Result<const graph::AttrValue*> FunctionAttr(const tenon_app_graph* graph, int64_t node, tenon_span attr,
                                             uint64_t index) {
  if (node < 0 || static_cast<uint64_t>(node) >= graph->graph.size())
    return OutOfRange(StrCat("there is no node ", node, "; the graph has ", graph->graph.size()));
  const graph::Node& n = graph->graph.node(graph::NodeId(node));
  const graph::AttrValue* const value = n.FindAttr(View(attr));
  if (value == nullptr) return NotFound(StrCat(n.Describe(), " has no attribute '", View(attr), "'"));
  if ((value->kind() & ~TENON_ATTR_LIST) != TENON_ATTR_FUNCTION)
    return InvalidArgument(StrCat(n.Describe(), ": attribute '", View(attr), "' is of kind ",
                                  graph::AttrKindName(value->kind()), " and names no function"));
  if (index >= value->size())
    return OutOfRange(
        StrCat(n.Describe(), ": attribute '", View(attr), "' names ", value->size(), " functions, and no ", index));
  return value;
}

}  // namespace

Status tenon::host::TakeFunctions(tenon_app_graph* graph, const tenon_node_spec& spec) {
  const auto take = [graph](std::string_view name) {
    const tenon_app_graph* from = graph->outer;
    if (from == nullptr || graph->graph.library().contains(name)) return Status::Ok();
    while (from != nullptr && !from->graph.library().contains(name)) from = from->outer;
    if (from == nullptr) return Status::Ok();  // an op's name, or one that adding the node refuses
    graph->functions.clear();
    return graph::CopyFunction(from->graph.library(), name, &graph->graph.library());
  };
  TENON_RETURN_IF_ERROR(take(View(spec.op)));
  for (uint64_t i = 0; i < spec.attr_count; ++i) {
    const tenon_attr_value& value = spec.attrs[i].value;
    if ((value.kind & ~TENON_ATTR_LIST) != TENON_ATTR_FUNCTION || value.data == nullptr) continue;
    for (uint64_t k = 0; k < value.count; ++k)
      TENON_RETURN_IF_ERROR(take(View(static_cast<const tenon_span*>(value.data)[k])));
  }
  return Status::Ok();
}

extern "C" {

tenon_status* tenon_graph_create_body(const tenon_app_graph* graph, tenon_app_graph** out_body) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, out_body);
    auto body = std::make_unique<tenon_app_graph>(graph->runtime);
    body->outer = graph;
    *out_body = body.release();
    return Status::Ok();
  });
}

tenon_status* tenon_graph_add_function(tenon_app_graph* graph, const tenon_function_spec* spec) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, spec);
    tenon_function_spec known;
    TENON_RETURN_IF_ERROR(host::ReadOptions(spec, &known, "spec"));
    return Define(graph, known).Annotate("defining function '", View(known.name), "'");
  });
}

tenon_status* tenon_graph_copy_function(tenon_app_graph* graph, const tenon_app_graph* from, tenon_span name) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, from, name);
    if (from->runtime != graph->runtime)
      return InvalidArgument(StrCat("copying function '", View(name),
                                    "': the graphs are of two runtimes; export and import GraphDefs instead"));
    graph->functions.clear();
    return graph::CopyFunction(from->graph.library(), View(name), &graph->graph.library());
  });
}

tenon_status* tenon_graph_set_function_gradient(tenon_app_graph* graph, tenon_span function, tenon_span gradient) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, function, gradient);
    graph->functions.clear();
    return graph::SetGradient(&graph->graph.library(), View(function), View(gradient));
  });
}

tenon_status* tenon_graph_register_gradient(tenon_app_graph* graph, tenon_span op_type, tenon_span function) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, op_type, function);
    return graph::RegisterGradient(&graph->graph.library(), View(op_type), View(function));
  });
}

uint64_t tenon_graph_function_count(const tenon_app_graph* graph) {
  return graph == nullptr ? 0 : graph->graph.library().size();
}

tenon_status* tenon_graph_function(const tenon_app_graph* graph, uint64_t index, tenon_function_info* out_info) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, out_info);
    const graph::FunctionLibrary& library = graph->graph.library();
    if (index >= library.size())
      return OutOfRange(StrCat("there is no function ", index, "; the graph has ", library.size()));
    if (graph->functions.empty())
      for (const auto& [name, function] : library) graph->functions.push_back(function);
    return Status(host::WriteOut(InfoOfFunction(*graph->functions[index]), out_info));
  });
}

tenon_status* tenon_graph_find_function(const tenon_app_graph* graph, tenon_span name, tenon_function_info* out_info) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, name, out_info);
    TENON_ASSIGN_OR_RETURN(const auto function, Find(graph, name));
    return Status(host::WriteOut(InfoOfFunction(*function), out_info));
  });
}

tenon_status* tenon_graph_function_argument(const tenon_app_graph* graph, tenon_span function, uint32_t which,
                                            uint64_t index, tenon_function_argument* out_argument) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, function, out_argument);
    TENON_ASSIGN_OR_RETURN(const auto found, Find(graph, function));
    TENON_ASSIGN_OR_RETURN(const tenon_function_argument argument, ArgumentOf(*found, which, index));
    return Status(host::WriteOut(argument, out_argument));
  });
}

tenon_status* tenon_graph_function_attr(const tenon_app_graph* graph, tenon_span function, tenon_span name,
                                        tenon_attr_value* out_value) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, function, name, out_value);
    TENON_ASSIGN_OR_RETURN(const auto found, Find(graph, function));
    const auto it = found->labels.find(View(name));
    if (it == found->labels.end())
      return NotFound(StrCat("function '", found->name, "' has no attribute '", View(name), "'"));
    *out_value = it->second.c();
    return Status::Ok();
  });
}

tenon_status* tenon_graph_bind_function(tenon_app_graph* graph, int64_t node, tenon_span attr, uint64_t index,
                                        const tenon_attr* bound, uint64_t bound_count) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, attr, List(bound, bound_count));
    TENON_ASSIGN_OR_RETURN(const graph::AttrValue* const value, FunctionAttr(graph, node, attr, index));
    TENON_ASSIGN_OR_RETURN(graph::AttrMap attrs, ReadAttrs(bound, bound_count));
    std::vector<graph::FunctionRef> functions;
    for (size_t i = 0; i < value->size(); ++i) functions.push_back(value->function(i));
    functions[index].attrs = attrs.empty() ? nullptr : std::make_shared<const graph::AttrMap>(std::move(attrs));
    const bool list = (value->kind() & TENON_ATTR_LIST) != 0;
    graph->graph.mutable_node(graph::NodeId(node)).attrs.find(View(attr))->second =
        graph::AttrValue::Functions(std::move(functions), list);
    return Status::Ok();
  });
}

tenon_status* tenon_graph_bound_attr(const tenon_app_graph* graph, int64_t node, tenon_span attr, uint64_t index,
                                     tenon_span name, tenon_attr_value* out_value) {
  return host::Guard([&]() -> Status {
    TENON_CHECK(graph, attr, name, out_value);
    TENON_ASSIGN_OR_RETURN(const graph::AttrValue* const value, FunctionAttr(graph, node, attr, index));
    const graph::FunctionRef& function = value->function(index);
    const auto found = function.attrs ? function.attrs->find(View(name)) : graph::AttrMap::const_iterator();
    if (!function.attrs || found == function.attrs->end())
      return NotFound(
          StrCat("'", View(attr), "' binds no attribute '", View(name), "' of function '", function.name, "'"));
    *out_value = found->second.c();
    return Status::Ok();
  });
}

}  // extern "C"
