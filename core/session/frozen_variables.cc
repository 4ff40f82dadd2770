// SPDX-License-Identifier: Apache-2.0
#include "core/session/frozen_variables.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/graph/op_def.h"
#include "core/graph/op_registry.h"

namespace tenon::session {

using graph::Edge;
using graph::Graph;
using graph::Node;
using graph::NodeId;

namespace {

constexpr std::string_view kHandle = "variable_handle", kReference = "reference_variable", kRead = "read_variable";

bool Plays(const Node& node, std::string_view role) {
  return std::find(node.op->roles.begin(), node.op->roles.end(), role) != node.op->roles.end();
}

// What becomes of a step's graph.
class Freezing {
 public:
  Freezing(Graph* graph, optimize::Request* request)
      : graph_(graph), request_(request), fed_(request->feeds.begin(), request->feeds.end()), size_(graph->size()) {}

  // Which handles and references are of which variables, who reads them, and whether somebody writes.
  Status Look() {
    TENON_ASSIGN_OR_RETURN(order_, graph_->TopologicalOrder());
    for (const NodeId id : order_) {
      const Node& node = graph_->node(id);
      Follow(node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Edge* const variable = VariableOf(node.inputs[i]);
        if (variable == nullptr) continue;
        if (node.has(TENON_OP_WRITES_STATE) && (IsRef(node.input_types[i]) || node.input_types[i] == TENON_DT_RESOURCE))
          return FailedPrecondition(StrCat(node.Describe(), " writes to ", graph_->node(variable->node).Describe(),
                                           ", and the session is frozen: its variables are constants to its steps. "
                                           "Write to them in a session that is not, or before it is"));
        // What dereferences it.
        if (IsRef(graph_->TypeOf(node.inputs[i])) && !IsRef(node.input_types[i]) &&
            Plays(graph_->node(node.inputs[i].node), kReference))
          Want(node.inputs[i], *variable, BaseType(node.input_types[i]));
      }
      if (Plays(node, kRead) && node.inputs.size() == 1 && node.output_types.size() == 1 && !fed_.contains({id, 0}) &&
          VariableOf(node.inputs[0]) != nullptr) {
        Want(node.inputs[0], *VariableOf(node.inputs[0]), node.output_types[0]);
        reads_.push_back(id);
      }
    }
    for (const Edge& fetch : request_->fetches) {
      if (IsRef(graph_->TypeOf(fetch)) && Plays(graph_->node(fetch.node), kReference) && VariableOf(fetch) != nullptr)
        Want(fetch, fetch, BaseType(graph_->TypeOf(fetch)));
    }
    return Status::Ok();
  }
  // By variable.
  const std::map<Edge, DType>& variables() const { return variables_; }

  void Give(const Edge& variable, Tensor value) { values_.emplace(variable, std::move(value)); }

  Status Replace() {
    TENON_RETURN_IF_ERROR(MakeValues());
    const std::set<NodeId> awaited = Awaited();
    for (const NodeId id : reads_) {
      const Node& node = graph_->node(id);
      const auto value = made_.find(node.inputs[0]);
      if (value == made_.end()) continue;
      values_of_.emplace(Edge{id, 0}, value->second);
      // Nothing waits here: passes and compilers find the value where it is read.
      if (node.controls.empty() && !awaited.contains(id)) continue;
      graph::NodeSpec spec{nullptr, NewName(node), {value->second}, node.controls, {}, node.device};
      TENON_ASSIGN_OR_RETURN(spec.op, graph_->registry().FindRole("identity"));
      TENON_ASSIGN_OR_RETURN(const NodeId made, Add(id, std::move(spec)));
      values_of_[{id, 0}] = {made, 0};
      instead_.emplace(id, made);
    }
    for (const NodeId id : graph_->ids()) {
      Node& node = graph_->mutable_node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (const auto value = values_of_.find(node.inputs[i]);
            value != values_of_.end() && !IsRef(node.input_types[i]))
          node.inputs[i] = value->second;
      for (NodeId& control : node.controls) control = Instead(control);
    }
    for (Edge& fetch : request_->fetches)
      if (const auto value = values_of_.find(fetch); value != values_of_.end()) fetch = value->second;
    for (NodeId& target : request_->targets) target = Instead(target);
    TENON_ASSIGN_OR_RETURN(*graph_, optimize::Prune(*graph_, request_, [this](NodeId id) { return PlaceOf(id); }));
    return Status::Ok();
  }

 private:
  // Its outputs, if they are a variable's handle or reference.
  void Follow(const Node& node) {
    const bool is_variable = Plays(node, kHandle) || Plays(node, kReference);
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      const Edge edge{node.id, static_cast<int32_t>(k)};
      if ((!IsRef(node.output_types[k]) && node.output_types[k] != TENON_DT_RESOURCE) || fed_.contains(edge)) continue;
      if (is_variable && node.inputs.empty()) {
        variable_of_.emplace(edge, edge);
        continue;
      }
      const size_t input = node.has(TENON_OP_IDENTITY) ? k : 0;
      if (!node.has(TENON_OP_IDENTITY | TENON_OP_ENTER | TENON_OP_SWITCH) || input >= node.inputs.size()) continue;
      if (const Edge* const variable = VariableOf(node.inputs[input])) variable_of_.emplace(edge, *variable);
    }
  }
  const Edge* VariableOf(const Edge& edge) const {
    const auto found = edge.node ? variable_of_.find(edge) : variable_of_.end();
    return found == variable_of_.end() ? nullptr : &found->second;
  }
  // Somebody wants the value of what `edge` is a handle or a reference of.
  void Want(const Edge& edge, const Edge& variable, DType dtype) {
    if (!IsPlain(dtype) && dtype != TENON_DT_STRING) return;  // no constant is of these
    wanted_.insert(edge);
    variables_.emplace(variable, dtype);
  }

  // For each handle that is read a value beside it: a constant, and what that goes through to be where the handle is.
  Status MakeValues() {
    for (auto id = order_.rbegin(); id != order_.rend(); ++id) {
      const Node& node = graph_->node(*id);
      for (size_t k = 0; k < node.output_types.size(); ++k) {
        const Edge edge{*id, static_cast<int32_t>(k)};
        if (const Edge* const variable = VariableOf(edge);
            wanted_.contains(edge) && variable != nullptr && *variable != edge)
          wanted_.insert(node.inputs[node.has(TENON_OP_IDENTITY) ? k : 0]);
      }
    }
    for (const NodeId id : order_) {
      // Adding nodes does not move them.
      const Node& node = graph_->node(id);
      std::vector<Edge> outputs;
      for (size_t k = 0; k < node.output_types.size(); ++k) {
        const Edge edge{id, static_cast<int32_t>(k)};
        const Edge* const variable = VariableOf(edge);
        if (variable == nullptr || !wanted_.contains(edge) || !values_.contains(*variable)) continue;
        if (*variable == edge) {
          TENON_ASSIGN_OR_RETURN(const Edge constant, AddConstant(node, values_.at(edge)));
          (IsRef(node.output_types[k]) ? values_of_ : made_).emplace(edge, constant);
          continue;
        }
        const Edge source = node.inputs[node.has(TENON_OP_IDENTITY) ? k : 0];
        const auto value = made_.find(source);
        if (value == made_.end()) continue;
        if (node.has(TENON_OP_IDENTITY)) {
          made_.emplace(edge, value->second);
          continue;
        }
        if (outputs.empty()) {
          TENON_ASSIGN_OR_RETURN(const NodeId copy, AddCopy(node, value->second));
          for (size_t j = 0; j < node.output_types.size(); ++j) outputs.push_back({copy, static_cast<int32_t>(j)});
        }
        made_.emplace(edge, outputs[k]);
      }
    }
    return Status::Ok();
  }
  Result<Edge> AddConstant(const Node& variable, const Tensor& value) {
    graph::NodeSpec spec;
    TENON_ASSIGN_OR_RETURN(spec.op, graph_->registry().FindRole("constant"));
    spec.name = NewName(variable);
    spec.attrs.emplace("dtype", graph::AttrValue::Type(value.dtype()));
    spec.attrs.emplace("value", graph::AttrValue::OfTensor(value));
    spec.device = variable.device;
    TENON_ASSIGN_OR_RETURN(const NodeId made, Add(variable.id, std::move(spec)));
    return Edge{made, 0};
  }
  // The loop's entry, or the switch, of a value.
  Result<NodeId> AddCopy(const Node& node, const Edge& value) {
    graph::NodeSpec spec{node.op, NewName(node), node.inputs, node.controls, node.attrs, node.device};
    spec.inputs[0] = value;
    spec.attrs.erase("T");  // as the value has it
    return Add(node.id, std::move(spec));
  }
  std::string NewName(const Node& beside) const { return graph_->UniqueName(beside.name + "/frozen"); }
  // Nodes that others wait for, or that are targets.
  std::set<NodeId> Awaited() const {
    std::set<NodeId> awaited(request_->targets.begin(), request_->targets.end());
    for (const NodeId id : order_) awaited.insert(graph_->node(id).controls.begin(), graph_->node(id).controls.end());
    return awaited;
  }
  NodeId Instead(NodeId id) const {
    const auto found = instead_.find(id);
    return found == instead_.end() ? id : found->second;
  }
  Result<NodeId> Add(NodeId beside, graph::NodeSpec spec) {
    beside_.push_back(beside);
    return graph_->Add(std::move(spec));
  }
  // New nodes stand where those stood whose values they are.
  NodeId PlaceOf(NodeId id) const {
    return static_cast<size_t>(id.number()) < size_ ? id : beside_[static_cast<size_t>(id.number()) - size_];
  }

  Graph* const graph_;
  optimize::Request* const request_;
  const std::set<Edge> fed_;
  const size_t size_;
  std::vector<NodeId> order_, reads_, beside_;
  std::map<Edge, Edge> variable_of_;
  std::map<Edge, DType> variables_;  // that are read
  std::set<Edge> wanted_;
  std::map<Edge, Tensor> values_;
  std::map<Edge, Edge> made_;       // by handle: the value beside it
  std::map<Edge, Edge> values_of_;  // by what is read, or a reference: the value in its place
  std::map<NodeId, NodeId> instead_;
};

}  // namespace

Status FrozenVariables::Replace(Graph* graph, optimize::Request* request, const Run& run) {
  Freezing freezing(graph, request);
  TENON_RETURN_IF_ERROR(freezing.Look());
  std::vector<Variable> variables;
  for (const auto& [edge, dtype] : freezing.variables()) variables.push_back({edge, dtype});
  if (variables.empty()) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(std::vector<Tensor> values, ValuesOf(*graph, variables, run));
  for (size_t i = 0; i < variables.size(); ++i)
    if (values[i].buffer() != nullptr) freezing.Give(variables[i].edge, std::move(values[i]));
  return freezing.Replace();
}

const Tensor* FrozenVariables::Find(const Graph& graph, const Variable& variable, const Tensor* first) {
  const Node& node = graph.node(variable.edge.node);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first && a.second.Equals(b.second); };
  const std::string name = graph.EdgeName(variable.edge);
  const auto [begin, end] = known_.equal_range(name);
  for (auto known = begin; known != end; ++known)
    if (known->second.op == node.op && known->second.value.dtype() == variable.dtype &&
        std::equal(node.attrs.begin(), node.attrs.end(), known->second.attrs.begin(), known->second.attrs.end(), same))
      return &known->second.value;
  return first == nullptr ? nullptr : &known_.emplace(name, Known{node.op, node.attrs, *first})->second.value;
}

Result<std::vector<Tensor>> FrozenVariables::ValuesOf(const Graph& graph, const std::vector<Variable>& variables,
                                                      const Run& run) {
  std::vector<Tensor> values(variables.size());
  std::vector<size_t> missing;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < variables.size(); ++i) {
      if (const Tensor* const known = Find(graph, variables[i], nullptr)) values[i] = *known;
      else missing.push_back(i);
    }
  }
  // Reads of those of the variables, alone.
  const auto read = [&](const std::vector<size_t>& which) -> Result<std::vector<Tensor>> {
    Graph reads(&graph.registry());
    std::map<NodeId, NodeId> added;
    std::vector<Edge> fetches;
    for (const size_t i : which) {
      const Node& node = graph.node(variables[i].edge.node);
      NodeId& copy = added[node.id];
      if (!copy) {
        TENON_ASSIGN_OR_RETURN(copy, reads.Add({node.op, node.name, {}, {}, node.attrs, node.device}));
      }
      const Edge edge{copy, variables[i].edge.index};
      if (IsRef(reads.TypeOf(edge))) {
        fetches.push_back(edge);
        continue;
      }
      graph::NodeSpec spec;
      TENON_ASSIGN_OR_RETURN(spec.op, graph.registry().FindRole(kRead));
      spec.name = reads.UniqueName(node.name + "/read");
      spec.inputs = {edge};
      spec.attrs.emplace("dtype", graph::AttrValue::Type(variables[i].dtype));
      spec.device = node.device;
      TENON_ASSIGN_OR_RETURN(const NodeId made, reads.Add(std::move(spec)));
      fetches.push_back({made, 0});
    }
    return run(std::move(reads), fetches);
  };
  if (missing.empty()) return values;
  // One that has no value, or another type than the step says, does not keep the others from being constants: the step
  // itself says so, if it reads it.
  const auto has_none = [](const Status& status) {
    return status.code() == Code::kFailedPrecondition || status.code() == Code::kDataLoss ||
           status.code() == Code::kInvalidArgument;
  };
  std::vector<Tensor> found(missing.size());
  if (Result<std::vector<Tensor>> all = read(missing); all.ok()) {
    found = std::move(*all);
  } else if (!has_none(all.status())) {
    return all;
  } else {
    for (size_t k = 0; k < missing.size(); ++k) {
      Result<std::vector<Tensor>> one = read({missing[k]});
      if (one.ok()) found[k] = std::move(one->front());
      else if (!has_none(one.status())) return one;
    }
  }
  const std::lock_guard lock(mutex_);
  for (size_t k = 0; k < missing.size(); ++k) {
    // Who was first gives all steps the same value.
    if (found[k].buffer() != nullptr) values[missing[k]] = *Find(graph, variables[missing[k]], &found[k]);
  }
  return values;
}

}  // namespace tenon::session
