// SPDX-License-Identifier: Apache-2.0
#include "core/graph/function/make_function.h"

#include <algorithm>
#include <set>

#include "core/graph/function/function_def.h"
#include "core/graph/function/function_library.h"
#include "core/graph/node_name.h"
#include "core/graph/op_registry.h"

namespace tenon::graph {
namespace {

// What GraphDef allows as an argument's name: "x:0" would be an output of a node x.
bool IsArgumentName(std::string_view name) {
  const auto word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), word);
}

class Maker {
 public:
  Maker(const Graph& graph, FunctionSource source) : graph_(graph), source_(std::move(source)) {}

  Result<FunctionDef> Run() {
    if (!IsValidNodeName(source_.name))
      return InvalidArgument(
          StrCat("'", source_.name, "' cannot be a function's name: it stands where names of ops do"));
    made_.name = source_.name;
    made_.description = source_.description;
    made_.labels = source_.labels;
    TENON_RETURN_IF_ERROR(AddInputs());
    TENON_RETURN_IF_ERROR(FindNeeded());
    NameNodes();
    for (const auto& [id, name] : names_) AddNode(graph_.node(id), name);
    TENON_RETURN_IF_ERROR(AddOutputs());
    return std::move(made_);
  }

 private:
  Status Bad(std::string text) const { return InvalidArgument(StrCat("function '", source_.name, "': ", text)); }

  Status CheckName(const char* what, const std::string& name, std::set<std::string>* taken) const {
    if (!IsArgumentName(name))
      return Bad(StrCat(what, " '", name, "': a name is of letters, digits and '_', and begins with no digit"));
    return taken->insert(name).second ? Status::Ok() : Bad(StrCat(what, " '", name, "' stands twice"));
  }
  Status CheckEdge(const char* what, const std::string& name, Edge edge) const {
    if (!graph_.Has(edge.node))
      return Bad(StrCat(what, " '", name, "' is of node ", edge.node.number(), "; its graph has ", graph_.size()));
    const Node& node = graph_.node(edge.node);
    if (edge.index < 0 || static_cast<size_t>(edge.index) >= node.output_types.size())
      return Bad(StrCat(what, " '", name, "' is output ", edge.index, " of ", node.Describe(), ", which has ",
                        node.output_types.size()));
    if (IsRef(graph_.TypeOf(edge)))
      return Bad(StrCat(what, " '", name, "' is a reference, from ", node.Describe(),
                        "; functions pass values: give what reads it (Identity), or a resource"));
    return Status::Ok();
  }

  Status AddInputs() {
    for (const auto& [name, edge] : source_.inputs) {
      TENON_RETURN_IF_ERROR(CheckName("input", name, &arguments_));
      TENON_RETURN_IF_ERROR(CheckEdge("input", name, edge));
      const auto [it, fresh] = inputs_.emplace(edge, name);
      if (!fresh)
        return Bad(StrCat("the inputs '", it->second, "' and '", name, "' are one value, ", graph_.EdgeName(edge)));
      gives_input_.insert(edge.node);
      made_.inputs.push_back({name, BaseType(graph_.TypeOf(edge)), "", "", ""});
    }
    return Status::Ok();
  }

  Status FindNeeded() {
    std::set<std::string> names;
    for (const auto& [name, edge] : source_.outputs) {
      TENON_RETURN_IF_ERROR(CheckName("output", name, &names));
      TENON_RETURN_IF_ERROR(CheckEdge("output", name, edge));
      Need(edge);
    }
    names.clear();
    for (const auto& [name, node] : source_.control_outputs) {
      TENON_RETURN_IF_ERROR(CheckName("control output", name, &names));
      if (!graph_.Has(node))
        return Bad(StrCat("control output '", name, "' is node ", node.number(), "; its graph has ", graph_.size()));
      Need(node);
    }
    while (!left_.empty()) {
      const Node& node = graph_.node(left_.back());
      left_.pop_back();
      TENON_RETURN_IF_ERROR(CheckNode(node));
      for (const Edge& edge : node.inputs) Need(edge);
      for (const NodeId control : node.controls)
        if (!gives_input_.contains(control)) Need(control);  // whose value comes from the caller has run
    }
    return Status::Ok();
  }
  void Need(Edge edge) {
    if (!inputs_.contains(edge)) Need(edge.node);
  }
  void Need(NodeId node) {
    if (names_.emplace(node, "").second) left_.push_back(node);
  }

  Status CheckNode(const Node& node) const {
    if (node.has(TENON_OP_FEED | TENON_OP_ARGUMENT))
      return Bad(StrCat(node.Describe(),
                        " is a value that somebody has to feed, and nobody feeds a function; make it an input"));
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!node.inputs[i].node)
        return Bad(StrCat("input ", i, " of ", node.Describe(), " is open: close the loop first"));
    return Status::Ok();
  }

  // An argument's name goes before a node's.
  void NameNodes() {
    std::set<std::string> taken = arguments_;
    for (const auto& [id, name] : names_)
      if (!taken.contains(graph_.node(id).name)) taken.insert(graph_.node(id).name);
    for (auto& [id, name] : names_) {
      name = graph_.node(id).name;
      for (int i = 1; arguments_.contains(name) || (name != graph_.node(id).name && taken.contains(name)); ++i)
        name = StrCat(graph_.node(id).name, "_", i);
      taken.insert(name);
    }
  }

  std::string NameOf(Edge edge) const {
    if (const auto it = inputs_.find(edge); it != inputs_.end()) return it->second;
    const Node& node = graph_.node(edge.node);
    size_t argument = 0;
    while (edge.index >= node.output_ranges[argument].begin + node.output_ranges[argument].count) ++argument;
    return StrCat(names_.at(edge.node), ":", node.op->outputs[argument].name, ":",
                  edge.index - node.output_ranges[argument].begin);
  }

  void AddNode(const Node& node, const std::string& name) {
    FunctionDef::BodyNode body{name, node.op->name, node.device, {}, node.attrs};
    for (const Edge& input : node.inputs) body.inputs.push_back(NameOf(input));
    for (const NodeId control : node.controls)
      if (names_.contains(control)) body.inputs.push_back(StrCat("^", names_.at(control)));
    made_.is_stateful = made_.is_stateful || node.has(TENON_OP_STATEFUL) || CallsStateful(body);
    made_.nodes.push_back(std::move(body));
  }
  bool CallsStateful(const FunctionDef::BodyNode& body) const {
    const std::vector<std::string_view> called = CalledBy(body, graph_.library());
    return std::any_of(called.begin(), called.end(), [this](std::string_view name) {
      const auto it = graph_.library().find(name);
      return it != graph_.library().end() && it->second->is_stateful;
    });
  }

  Status AddOutputs() {
    for (const auto& [name, edge] : source_.outputs) {
      made_.outputs.push_back({name, BaseType(graph_.TypeOf(edge)), "", "", ""});
      made_.returns.emplace(name, NameOf(edge));
    }
    for (const auto& [name, node] : source_.control_outputs) made_.control_returns.emplace(name, names_.at(node));
    return Status::Ok();
  }

  const Graph& graph_;
  const FunctionSource source_;
  FunctionDef made_;
  std::set<std::string> arguments_;     // names
  std::map<Edge, std::string> inputs_;  // the argument that stands for it
  std::set<NodeId> gives_input_;
  std::map<NodeId, std::string> names_;  // of the body's nodes, in the order of the graph
  std::vector<NodeId> left_;             // to look at
};

}  // namespace

Result<FunctionDef> MakeFunction(const Graph& graph, FunctionSource source) {
  return Maker(graph, std::move(source)).Run();
}

}  // namespace tenon::graph
