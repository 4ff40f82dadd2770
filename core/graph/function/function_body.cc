// SPDX-License-Identifier: Apache-2.0
#include "core/graph/function/function_body.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <set>

#include "core/base/checked.h"
#include "core/graph/graph.h"
#include "core/graph/op_registry.h"

namespace tenon::graph {
namespace {

void FillDefaults(const FunctionDef& function, AttrMap* attrs) {
  for (const auto& def : function.attrs)
    if (def.default_value) attrs->emplace(def.name, *def.default_value);
}

// The types of one argument's values, or of a result's.
Status AppendTypes(const FunctionDef::Arg& arg, const AttrMap& attrs, std::vector<DType>* out) {
  const auto find = [&](const std::string& name, uint32_t kind) -> Result<const AttrValue*> {
    const auto it = attrs.find(name);
    if (it == attrs.end() || (it->second.kind() != kind && !it->second.empty_list()))
      return InvalidArgument(StrCat("attribute '", name, "' of '", arg.name, "' is not bound"));
    return &it->second;
  };
  if (!arg.type_list_attr.empty()) {
    TENON_ASSIGN_OR_RETURN(const AttrValue* const list, find(arg.type_list_attr, TENON_ATTR_TYPE | TENON_ATTR_LIST));
    for (size_t i = 0; i < list->size(); ++i) out->push_back(BaseType(list->type(i)));
    return Status::Ok();
  }
  DType type = BaseType(arg.type);
  if (type == TENON_DT_INVALID) {
    TENON_ASSIGN_OR_RETURN(const AttrValue* const bound, find(arg.type_attr, TENON_ATTR_TYPE));
    type = BaseType(bound->type());
  }
  int64_t count = 1;
  if (!arg.number_attr.empty()) {
    TENON_ASSIGN_OR_RETURN(const AttrValue* const bound, find(arg.number_attr, TENON_ATTR_INT));
    count = bound->i();
  }
  constexpr int64_t kMost = 1 << 16;
  if (count < 0 || count > kMost)
    return InvalidArgument(StrCat("'", arg.name, "' is ", count, " values; at most ", kMost, " can be"));
  out->insert(out->end(), static_cast<size_t>(count), type);
  return Status::Ok();
}

class Body {
 public:
  Body(Graph* graph, const CallSite& site, const FunctionDef& function)
      : graph_(graph), site_(site), function_(function), attrs_(site.attrs) {}

  Status Run(std::vector<Edge>* results, std::vector<NodeId>* effects) {
    FillDefaults(function_, &attrs_);
    TENON_RETURN_IF_ERROR(BindArguments());
    TENON_RETURN_IF_ERROR(AddBody(effects));
    for (const auto& output : function_.outputs) {
      const auto it = function_.returns.find(output.name);
      if (it == function_.returns.end()) return Bad(StrCat("result '", output.name, "' has no value"));
      TENON_ASSIGN_OR_RETURN(std::vector<Edge> edges, Resolve(it->second));
      results->insert(results->end(), edges.begin(), edges.end());
    }
    for (const auto& [output, name] : function_.control_returns)
      if (const auto it = nodes_.find(name); it != nodes_.end()) effects->push_back(it->second);
    if (results->size() != site_.output_types.size())
      return Bad(
          StrCat("it gives ", results->size(), " results, the call has ", site_.output_types.size(), " outputs"));
    for (size_t i = 0; i < results->size(); ++i)
      if (graph_->TypeOf((*results)[i]) != site_.output_types[i])
        return Bad(StrCat("result ", i, " is of ", TypeName(graph_->TypeOf((*results)[i])), ", the call's output of ",
                          TypeName(site_.output_types[i])));
    return Status::Ok();
  }

 private:
  Status Bad(std::string text) const {
    return InvalidArgument(StrCat(site_.what, ": function '", function_.name, "': ", text));
  }

  Status BindArguments() {
    size_t at = 0;
    for (const auto& arg : function_.inputs) {
      int64_t count = 1;
      if (!arg.number_attr.empty()) {
        const auto it = attrs_.find(arg.number_attr);
        if (it == attrs_.end()) return Bad(StrCat("attribute '", arg.number_attr, "' is not bound"));
        count = it->second.i();
      } else if (!arg.type_list_attr.empty()) {
        const auto it = attrs_.find(arg.type_list_attr);
        if (it == attrs_.end()) return Bad(StrCat("attribute '", arg.type_list_attr, "' is not bound"));
        count = static_cast<int64_t>(it->second.size());
      }
      std::vector<Edge>& edges = arguments_[arg.name];
      for (int64_t i = 0; i < count; ++i) {
        if (at >= site_.inputs.size()) return Bad(StrCat("the call gives ", site_.inputs.size(), " arguments"));
        const DType wanted = TypeOf(arg, i), found = BaseType(graph_->TypeOf(site_.inputs[at]));
        if (wanted != TENON_DT_INVALID && wanted != found)
          return Bad(
              StrCat("argument '", arg.name, "' is of ", TypeName(wanted), ", the call gives ", TypeName(found)));
        edges.push_back(site_.inputs[at++]);
      }
    }
    if (at != site_.inputs.size())
      return Bad(StrCat("it takes ", at, " arguments, the call gives ", site_.inputs.size()));
    return Status::Ok();
  }

  // Of the i-th value of an argument; INVALID: nothing says it.
  DType TypeOf(const FunctionDef::Arg& arg, size_t i) const {
    if (arg.type != TENON_DT_INVALID) return BaseType(arg.type);
    const std::string& name = arg.type_list_attr.empty() ? arg.type_attr : arg.type_list_attr;
    const auto it = attrs_.find(name);
    if (it == attrs_.end() || (it->second.kind() & ~TENON_ATTR_LIST) != TENON_ATTR_TYPE) return TENON_DT_INVALID;
    const size_t at = arg.type_list_attr.empty() ? 0 : i;
    return at < it->second.size() ? BaseType(it->second.type(at)) : TENON_DT_INVALID;
  }

  // "arg", "arg:i", "node:out:i", "node:out", "node:i".
  Result<std::vector<Edge>> Resolve(std::string_view text) const {
    std::vector<std::string_view> parts;
    for (std::string_view rest = text;;) {
      const size_t colon = rest.find(':');
      parts.push_back(rest.substr(0, colon));
      if (colon == std::string_view::npos) break;
      rest = rest.substr(colon + 1);
    }
    const auto number = [](std::string_view digits) {
      int32_t value = -1;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return error == std::errc() && end == digits.data() + digits.size() ? value : -1;
    };
    const auto pick = [&](const std::vector<Edge>& edges, int32_t index) -> Result<std::vector<Edge>> {
      if (index < 0) return edges;
      if (!Within(index, edges.size())) return Bad(StrCat("'", text, "' does not exist"));
      return std::vector<Edge>{edges[index]};
    };
    if (const auto it = arguments_.find(parts[0]); it != arguments_.end())
      return pick(it->second, parts.size() > 1 ? number(parts.back()) : -1);
    const auto it = nodes_.find(parts[0]);
    if (it == nodes_.end()) return Bad(StrCat("'", text, "' names no node or argument"));
    const Node& node = graph_->node(it->second);
    std::vector<Edge> outputs;
    if (parts.size() == 1 || (parts.size() == 2 && number(parts[1]) >= 0)) {
      for (size_t k = 0; k < node.output_types.size(); ++k) outputs.push_back({node.id, static_cast<int32_t>(k)});
      return pick(outputs, parts.size() == 1 ? (outputs.size() > 1 ? 0 : -1) : number(parts[1]));
    }
    for (size_t a = 0; a < node.op->outputs.size(); ++a)
      if (node.op->outputs[a].name == parts[1]) {
        for (int32_t k = 0; k < node.output_ranges[a].count; ++k)
          outputs.push_back({node.id, node.output_ranges[a].begin + k});
        return pick(outputs, parts.size() > 2 ? number(parts[2]) : -1);
      }
    return Bad(StrCat("'", text, "': ", node.Describe(), " has no output '", parts[1], "'"));
  }

  static std::string_view NodeOf(std::string_view input) {
    if (input.starts_with("^")) return input.substr(1);
    return input.substr(0, input.find(':'));
  }

  // Nodes with an op that nobody here knows, and what reads them, as far as the function's results do without.
  std::set<std::string_view> LeftOut() const {
    std::set<std::string_view> out;
    for (const auto& body : function_.nodes)
      if (!graph_->library().contains(body.op) && graph_->registry().FindOrNull(body.op) == nullptr)
        out.insert(body.name);
    if (out.empty()) return out;
    const std::set<std::string_view> needed = Needed();
    const auto drop = [&](const FunctionDef::BodyNode& body) {
      return !out.contains(body.name) && std::any_of(body.inputs.begin(), body.inputs.end(),
                                                     [&](const auto& input) { return out.contains(NodeOf(input)); });
    };
    std::erase_if(out, [&](std::string_view name) { return needed.contains(name); });
    for (bool more = true; more;) {
      more = false;
      for (const auto& body : function_.nodes)
        if (!needed.contains(body.name) && drop(body)) more = out.insert(body.name).second;
    }
    return out;
  }

  // What the function's results and control results read.
  std::set<std::string_view> Needed() const {
    std::map<std::string_view, const FunctionDef::BodyNode*> by_name;
    for (const auto& body : function_.nodes) by_name.emplace(body.name, &body);
    std::vector<std::string_view> left;
    for (const auto& [output, node] : function_.control_returns) left.push_back(node);
    for (const auto& [output, value] : function_.returns) left.push_back(NodeOf(value));
    std::set<std::string_view> needed;
    while (!left.empty()) {
      const std::string_view name = left.back();
      left.pop_back();
      const auto it = by_name.find(name);
      if (it == by_name.end() || !needed.insert(it->first).second) continue;
      for (const std::string& input : it->second->inputs) left.push_back(NodeOf(input));
    }
    return needed;
  }

  // Adds body nodes when what they read is there. A body with a loop leaves the merge's back edge open.
  Status AddBody(std::vector<NodeId>* effects) {
    std::deque<const FunctionDef::BodyNode*> waiting;
    const std::set<std::string_view> left_out = LeftOut();
    needed_ = Needed();
    for (const auto& body : function_.nodes)
      if (!left_out.contains(body.name)) waiting.push_back(&body);
    std::vector<std::pair<NodeId, std::pair<int32_t, std::string>>> open;
    size_t idle = 0;
    while (!waiting.empty()) {
      const FunctionDef::BodyNode* body = waiting.front();
      waiting.pop_front();
      bool added = false;
      TENON_RETURN_IF_ERROR(TryAdd(*body, idle > waiting.size(), &added, effects, &open));
      if (added) {
        idle = 0;
      } else {
        waiting.push_back(body);
        if (++idle > 2 * waiting.size() + 2) return Bad(StrCat("its body has a cycle at node '", body->name, "'"));
      }
    }
    for (const auto& [node, input] : open) {
      TENON_ASSIGN_OR_RETURN(std::vector<Edge> edges, Resolve(input.second));
      if (edges.size() != 1) return Bad(StrCat("'", input.second, "' is no single value"));
      TENON_RETURN_IF_ERROR(graph_->SetInput(node, input.first, edges[0]));
    }
    return Status::Ok();
  }

  Result<const OpDef*> FindOp(const FunctionDef::BodyNode& body) {
    if (graph_->library().contains(body.op)) return graph_->FunctionOp(body.op);
    auto op = graph_->registry().Find(body.op);
    if (!op.ok())
      return Status(op.status()).Annotate(StrCat("function '", function_.name, "', node '", body.name, "'"));
    return op;
  }

  Status TryAdd(const FunctionDef::BodyNode& body, bool may_leave_open, bool* added, std::vector<NodeId>* effects,
                std::vector<std::pair<NodeId, std::pair<int32_t, std::string>>>* open) {
    TENON_ASSIGN_OR_RETURN(const OpDef* op, FindOp(body));
    NodeSpec spec{op, graph_->UniqueName(StrCat(site_.name, "/", body.name)), {}, {}, {}, body.device};
    std::vector<std::pair<int32_t, std::string>> opened;
    for (const std::string& input : body.inputs) {
      if (input[0] == '^') {
        const std::string name = input.substr(1);
        if (arguments_.contains(name)) continue;
        const auto it = nodes_.find(name);
        if (it == nodes_.end()) return Status::Ok();
        spec.controls.push_back(it->second);
        continue;
      }
      const std::string_view head = NodeOf(input);
      if (!arguments_.contains(head) && !nodes_.contains(head)) {
        if (!(may_leave_open && op->has(TENON_OP_MERGE))) return Status::Ok();
        opened.emplace_back(static_cast<int32_t>(spec.inputs.size()), input);
        spec.inputs.push_back(Edge());
        continue;
      }
      TENON_ASSIGN_OR_RETURN(std::vector<Edge> edges, Resolve(input));
      spec.inputs.insert(spec.inputs.end(), edges.begin(), edges.end());
    }
    // What enters the loop is known first: a merge of another loop may wait for this one.
    if (!opened.empty() && opened.size() == spec.inputs.size()) return Status::Ok();
    for (const auto& [name, value] : body.attrs) {
      if (value.placeholder().empty()) {
        spec.attrs.emplace(name, value);
        continue;
      }
      const auto bound = attrs_.find(value.placeholder());
      if (bound == attrs_.end())
        return Bad(StrCat("node '", body.name, "' needs the attribute '", value.placeholder(), "'"));
      spec.attrs.emplace(name, bound->second);
    }
    // Two calls have two loops, and two states.
    if (const auto frame = spec.attrs.find("frame_name");
        op->has(TENON_OP_ENTER) && frame != spec.attrs.end() && frame->second.kind() == TENON_ATTR_STRING)
      frame->second = AttrValue::String(StrCat(site_.state_name, kInBody, frame->second.s()));
    if (HoldsState(*op))
      spec.attrs.insert_or_assign(std::string(kStateNameAttr),
                                  AttrValue::String(StrCat(site_.state_name, kInBody, StateNameIn(body))));
    // Within a loop of the body's own a node waits by its Enter: an edge from outside would not fit into its frame.
    const int depth = DepthOf(spec);
    const bool chosen = op->has(TENON_OP_SWITCH) || IsChosen(spec);
    const bool is_source = spec.inputs.empty() && spec.controls.empty(),
               begins = op->has(TENON_OP_STATEFUL | TENON_OP_SWITCH | TENON_OP_ENTER);
    bool waits = Waits(spec);
    if (depth == 0 &&
        (!site_.sources_wait || is_source || op->has(kCallsFunctions) || (begins && !waits && !site_.early.empty()))) {
      waits = true;
      spec.controls.insert(spec.controls.end(), site_.controls.begin(), site_.controls.end());
    }
    if (spec.device.empty()) spec.device = site_.device;
    TENON_ASSIGN_OR_RETURN(const NodeId id, graph_->Add(std::move(spec)));
    nodes_.emplace(body.name, id);
    for (auto& [index, input] : opened) open->push_back({id, {index, std::move(input)}});
    depths_[id] = depth + (op->has(TENON_OP_ENTER) ? 1 : op->has(TENON_OP_EXIT) ? -1 : 0);
    if (chosen) chosen_.insert(id);
    if (waits) waiting_.insert(id);
    // Nothing outside can wait for what lies in a loop, or in a branch that may not be taken; but what a result needs
    // has run when the result is there.
    if (op->has(TENON_OP_STATEFUL) && !((depth > 0 || chosen) && needed_.contains(body.name))) effects->push_back(id);
    *added = true;
    return Status::Ok();
  }

  // Of a node of the body: among the body's.
  static std::string_view StateNameIn(const FunctionDef::BodyNode& body) {
    const auto given = body.attrs.find(kStateNameAttr);
    return given != body.attrs.end() && given->second.kind() == TENON_ATTR_STRING && given->second.placeholder().empty()
               ? given->second.s()
               : std::string_view(body.name);
  }

  // In how many of the body's loops a node with these inputs lies.
  int DepthOf(const NodeSpec& spec) const {
    int depth = 0;
    const auto look = [&](NodeId id) {
      if (const auto it = depths_.find(id); it != depths_.end()) depth = std::max(depth, it->second);
    };
    for (const Edge& input : spec.inputs)
      if (input.node) look(input.node);
    for (const NodeId control : spec.controls) look(control);
    return depth;
  }

  // Whether one of its inputs waits for what the body waits for.
  bool Waits(const NodeSpec& spec) const {
    const auto waits = [&](NodeId id) {
      if (waiting_.contains(id)) return true;
      const bool is_argument =
          std::any_of(site_.inputs.begin(), site_.inputs.end(), [&](const Edge& input) { return input.node == id; });
      return is_argument && std::find(site_.early.begin(), site_.early.end(), id) == site_.early.end();
    };
    return std::any_of(spec.inputs.begin(), spec.inputs.end(),
                       [&](const Edge& input) { return input.node && waits(input.node); }) ||
           std::any_of(spec.controls.begin(), spec.controls.end(), waits);
  }
  // Whether it depends on a switch of the body.
  bool IsChosen(const NodeSpec& spec) const {
    return std::any_of(spec.inputs.begin(), spec.inputs.end(),
                       [&](const Edge& input) { return chosen_.contains(input.node); }) ||
           std::any_of(spec.controls.begin(), spec.controls.end(),
                       [&](NodeId control) { return chosen_.contains(control); });
  }

  Graph* graph_;
  const CallSite& site_;
  const FunctionDef& function_;
  AttrMap attrs_;
  std::set<std::string_view> needed_;  // by the results
  std::set<NodeId> chosen_;            // that depend on a switch of the body
  std::set<NodeId> waiting_;           // that wait for what the body waits for
  std::map<NodeId, int> depths_;       // in loops of the body, of what a node gives
  std::map<std::string, std::vector<Edge>, std::less<>> arguments_;
  std::map<std::string, NodeId, std::less<>> nodes_;
};

}  // namespace

Result<FunctionSignature> SignatureOf(const FunctionDef& function, AttrMap bound) {
  FillDefaults(function, &bound);
  FunctionSignature signature;
  Status status;
  for (const auto& arg : function.inputs)
    if (status.ok()) status = AppendTypes(arg, bound, &signature.arguments);
  for (const auto& arg : function.outputs)
    if (status.ok()) status = AppendTypes(arg, bound, &signature.results);
  if (!status.ok()) return std::move(status).Annotate(StrCat("function '", function.name, "'"));
  return signature;
}

Status AddFunctionBody(Graph* graph, const CallSite& site, const FunctionDef& function, std::vector<Edge>* results,
                       std::vector<NodeId>* effects) {
  return Body(graph, site, function).Run(results, effects);
}

}  // namespace tenon::graph
