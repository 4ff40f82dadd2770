// SPDX-License-Identifier: Apache-2.0
#include "core/graph/function/inline_call.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/checked.h"
#include "core/base/plugin_call.h"
#include "core/graph/builder.h"
#include "core/graph/function/function_body.h"
#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"
#include "core/graph/op_registry.h"
#include "core/tensor/allowance.h"

namespace tenon::graph {
namespace {

using Function = std::shared_ptr<const FunctionDef>;

// The name of a node of the body, or of an argument, that a value of it comes from.
std::string_view SourceOf(std::string_view value) { return value.substr(0, value.find(':')); }

// Inlines one node.
class Inliner {
 public:
  Inliner(Graph* graph, const Node& node) : graph_(graph), node_(node) {}

  Result<std::unique_ptr<Node>> Run() {
    TENON_RETURN_IF_ERROR(node_.has(TENON_OP_WHILE)    ? Loop()
                          : node_.has(TENON_OP_BRANCH) ? Conditional()
                          : node_.has(TENON_OP_CALL)   ? Call()
                                                       : Decompose());
    NodeSpec spec;
    TENON_ASSIGN_OR_RETURN(spec.op, graph_->registry().FindRole(results_.empty() ? "no_op" : "identity_n"));
    spec.inputs = std::move(results_);
    spec.controls = std::move(effects_);
    spec.controls.insert(spec.controls.end(), node_.controls.begin(), node_.controls.end());
    spec.device = node_.device;
    auto replaced = graph_->Replace(node_.id, std::move(spec));
    if (!replaced.ok()) return Status(replaced.status()).Annotate(node_.Describe());
    return replaced;
  }

 private:
  struct Outcome {
    std::vector<Edge> results;
    std::vector<NodeId> effects;
  };

  Status Bad(std::string text) const { return InvalidArgument(StrCat(node_.Describe(), ": ", text)); }

  // ---- Functions ----

  Result<Function> Find(std::string_view name) const {
    const auto it = graph_->library().find(name);
    if (it == graph_->library().end())
      return NotFound(
          StrCat(node_.Describe(), " calls the function '", name, "', which the graph's library does not have"));
    return it->second;
  }
  Result<const FunctionRef*> RefOf(std::string_view attr, size_t index = 0) const {
    const AttrValue* value = node_.FindAttr(attr);
    if (value == nullptr || (value->kind() & ~TENON_ATTR_LIST) != TENON_ATTR_FUNCTION || index >= value->size())
      return Bad(StrCat("its attribute '", attr, "' names no function"));
    return &value->function(index);
  }
  // One call of the function within the node.
  Result<Outcome> Add(const FunctionRef& ref, std::string_view part, std::vector<Edge> inputs, std::vector<DType> types,
                      NodeId pivot, std::vector<NodeId> early = {}) {
    TENON_ASSIGN_OR_RETURN(const Function function, Find(ref.name));
    CallSite site{node_.Describe(),
                  StrCat(node_.name, "/", part),
                  StrCat(StateName(node_), kInBody, part),
                  node_.device,
                  std::move(inputs),
                  std::move(types),
                  {},
                  {pivot},
                  true,
                  std::move(early)};
    if (ref.attrs) site.attrs = *ref.attrs;
    Outcome out;
    TENON_RETURN_IF_ERROR(AddFunctionBody(graph_, site, *function, &out.results, &out.effects));
    return out;
  }

  // ---- Nodes ----

  Result<Edge> Make(std::string_view role, std::string_view name, std::vector<Edge> inputs,
                    std::vector<NodeId> controls = {}, AttrMap attrs = {}) {
    NodeSpec spec;
    TENON_ASSIGN_OR_RETURN(spec.op, graph_->registry().FindRole(role));
    spec.name = graph_->UniqueName(StrCat(node_.name, "/", name));
    spec.inputs = std::move(inputs);
    spec.controls = std::move(controls);
    spec.attrs = std::move(attrs);
    spec.device = node_.device;
    TENON_ASSIGN_OR_RETURN(const NodeId id, graph_->Add(std::move(spec)));
    return Edge{id, 0};
  }
  // The value, once the nodes have run.
  Result<Edge> After(Edge value, std::string_view name, const std::vector<NodeId>& effects) {
    if (effects.empty()) return value;
    return Make("identity", name, {value}, effects);
  }

  // ---- A call ----

  Status Call() {
    std::string name = node_.op->name;
    CallSite site{node_.Describe(),
                  node_.name,
                  std::string(StateName(node_)),
                  node_.device,
                  node_.inputs,
                  node_.output_types,
                  {},
                  node_.controls,
                  false,
                  {}};
    if (node_.has(TENON_OP_REMOTE)) {
      TENON_ASSIGN_OR_RETURN(site.device, Target());
      site.inputs.erase(site.inputs.begin());
    }
    if (const AttrValue* f = node_.FindAttr("f"); f != nullptr && f->kind() == TENON_ATTR_FUNCTION) {
      if (!graph_->library().contains(name)) name = f->function().name;
      if (f->function().attrs) site.attrs = *f->function().attrs;
    }
    for (const auto& [attr, value] : node_.attrs)
      if (attr != "f") site.attrs.emplace(attr, value);
    TENON_ASSIGN_OR_RETURN(const Function function, Find(name));
    return AddFunctionBody(graph_, site, *function, &results_, &effects_);
  }

  // The device that the first input names.
  Result<std::string> Target() const {
    if (node_.inputs.empty()) return Bad("it names no device");
    Edge at = node_.inputs[0];
    while (graph_->node(at.node).has(TENON_OP_IDENTITY)) at = graph_->node(at.node).inputs[at.index];
    const AttrValue* const value =
        graph_->node(at.node).has(TENON_OP_CONSTANT) ? graph_->node(at.node).FindAttr("value") : nullptr;
    if (value == nullptr || value->tensor().dtype() != TENON_DT_STRING || value->tensor().shape().rank() != 0)
      return Unimplemented(StrCat(node_.Describe(), ": the device on which its function runs is computed by ",
                                  graph_->node(at.node).Describe(),
                                  "; placement happens before the step: make it a constant"));
    return std::string(value->tensor().string(0));
  }

  // ---- An op of others ----

  Status Decompose() {
    Builder builder(graph_);
    builder.set_scope(node_.name);
    builder.set_state_scope(std::string(StateName(node_)));
    builder.set_device(node_.device);
    builder.set_controls(node_.controls);
    std::vector<tenon_output> inputs, outputs(node_.output_types.size(), {-1, 0, 0});
    for (const Edge& input : node_.inputs) inputs.push_back(ToC(input));
    Status status = node_.op->plugin->Call("decompose", &node_.name, &node_.op->name, [&](tenon_plugin_self* self) {
      return node_.op->c->decompose(self, builder.c(), NodeServices(), &node_, inputs.data(), outputs.data());
    });
    if (!status.ok()) return std::move(status).Annotate("the decomposition of ", node_.Describe());
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Edge edge = FromC(outputs[k]);
      const bool there = graph_->Has(edge.node) && Within(edge.index, graph_->node(edge.node).output_types.size());
      if (!there || graph_->TypeOf(edge) != node_.output_types[k])
        return Internal(StrCat("the decomposition of ", node_.Describe(), " gives no ", TypeName(node_.output_types[k]),
                               " for output ", k, ": an error of package '", node_.op->package, "'"));
      results_.push_back(edge);
    }
    return Status::Ok();
  }

  // ---- A conditional ----

  Status Conditional() {
    if (node_.inputs.empty()) return Bad("it has no condition");
    const std::vector<Edge> inputs(node_.inputs.begin() + 1, node_.inputs.end());
    std::vector<const FunctionRef*> branches;
    std::vector<Edge> conditions;  // i: that the branch is i or one before it; none for the last
    if (node_.FindAttr("branches") != nullptr) {
      for (size_t i = 0; i < node_.FindAttr("branches")->size(); ++i) {
        TENON_ASSIGN_OR_RETURN(const FunctionRef* ref, RefOf("branches", i));
        branches.push_back(ref);
      }
      if (branches.empty()) return Bad("it has no branches");
      TENON_RETURN_IF_ERROR(AddIndexConditions(branches.size() - 1, &conditions));
    } else {
      TENON_ASSIGN_OR_RETURN(const FunctionRef* then, RefOf("then_branch"));
      TENON_ASSIGN_OR_RETURN(const FunctionRef* otherwise, RefOf("else_branch"));
      branches = {then, otherwise};
      TENON_ASSIGN_OR_RETURN(const Edge condition, Truth(node_.inputs[0]));
      conditions = {condition};
    }
    TENON_ASSIGN_OR_RETURN(Edge pivot, Make("identity", "begin", {node_.inputs[0]}, node_.controls));
    if (branches.size() == 1) {  // which nothing else asks for its index: a switch refuses one that is no scalar
      TENON_RETURN_IF_ERROR(AddIndexConditions(1, &conditions));
      TENON_ASSIGN_OR_RETURN(pivot, Make("switch", "side", {conditions[0], conditions[0]}, {pivot.node}));
    }
    TENON_ASSIGN_OR_RETURN(Outcome out, Choose(branches, conditions, 0, branches.size(), inputs, pivot.node));
    results_ = std::move(out.results);
    effects_ = std::move(out.effects);
    return Status::Ok();
  }

  // The value as a bool.
  Result<Edge> Truth(Edge value) {
    if (graph_->TypeOf(value) == TENON_DT_BOOL) return value;
    return Make("to_bool", "condition", {value});
  }

  // Condition i: the index is at most i, and at least 0. What is none of the branches' takes the last.
  Status AddIndexConditions(size_t count, std::vector<Edge>* conditions) {
    const auto constant = [this](int32_t value) -> Result<Edge> {
      TENON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(KeptPool(), TENON_DT_INT32, Shape()));
      *tensor.as<int32_t>() = value;
      return Make("constant", "number", {}, {node_.inputs[0].node},
                  {{"dtype", AttrValue::Type(TENON_DT_INT32)}, {"value", AttrValue::OfTensor(std::move(tensor))}});
    };
    if (count == 0) return Status::Ok();
    TENON_ASSIGN_OR_RETURN(const Edge zero, constant(0));
    TENON_ASSIGN_OR_RETURN(const Edge positive, Make("greater_equal", "positive", {node_.inputs[0], zero}));
    for (size_t i = 0; i < count; ++i) {
      TENON_ASSIGN_OR_RETURN(const Edge end, constant(static_cast<int32_t>(i) + 1));
      TENON_ASSIGN_OR_RETURN(const Edge below, Make("less", "below", {node_.inputs[0], end}));
      TENON_ASSIGN_OR_RETURN(const Edge is_it, Make("logical_and", "is_it", {positive, below}));
      conditions->push_back(is_it);
    }
    return Status::Ok();
  }

  // One of the branches from `begin` to before `end`, found by halves: conditionals lie in each other as deep as the
  // logarithm of how many branches there are.
  Result<Outcome> Choose(const std::vector<const FunctionRef*>& branches, const std::vector<Edge>& conditions,
                         size_t begin, size_t end, const std::vector<Edge>& inputs, NodeId pivot) {
    if (end - begin == 1) {
      const std::string part = branches.size() == 2 ? (begin == 0 ? "then" : "else") : StrCat("branch_", begin);
      return Add(*branches[begin], part, inputs, node_.output_types, pivot);
    }
    const size_t middle = begin + (end - begin) / 2;
    const Edge condition = conditions[middle - 1];
    TENON_ASSIGN_OR_RETURN(const Edge side, Make("switch", "side", {condition, condition}, {pivot}));
    std::vector<Edge> of_side[2];
    Edge pivots[2];
    for (int32_t taken : {0, 1}) {
      TENON_ASSIGN_OR_RETURN(pivots[taken], Make("identity", taken == 1 ? "taken" : "not_taken", {{side.node, taken}}));
    }
    for (const Edge& input : inputs) {
      TENON_ASSIGN_OR_RETURN(const Edge both, Make("switch", "input", {input, condition}, {pivot}));
      for (int32_t taken : {0, 1}) of_side[taken].push_back({both.node, taken});
    }
    Outcome sides[2];
    TENON_ASSIGN_OR_RETURN(sides[1], Choose(branches, conditions, begin, middle, of_side[1], pivots[1].node));
    TENON_ASSIGN_OR_RETURN(sides[0], Choose(branches, conditions, middle, end, of_side[0], pivots[0].node));
    return Join(sides, pivots);
  }

  Result<Outcome> Join(const Outcome (&sides)[2], const Edge (&pivots)[2]) {
    Outcome out;
    for (size_t k = 0; k < node_.output_types.size(); ++k) {
      TENON_ASSIGN_OR_RETURN(const Edge merged, Make("merge", "result", {sides[0].results[k], sides[1].results[k]}));
      out.results.push_back(merged);
    }
    if (sides[0].effects.empty() && sides[1].effects.empty()) return out;
    Edge done[2];
    for (int taken : {0, 1}) {
      TENON_ASSIGN_OR_RETURN(done[taken], Make("identity", "done", {pivots[taken]}, sides[taken].effects));
    }
    TENON_ASSIGN_OR_RETURN(const Edge either, Make("merge", "either_done", {done[0], done[1]}));
    out.effects.push_back(either.node);
    return out;
  }

  // ---- A loop ----

  // Which inputs the body gives back as it got them. At least one is carried: it paces the loop.
  std::vector<bool> FindCarried(const FunctionDef& body) const {
    std::vector<bool> carried(node_.inputs.size(), true);
    if (body.inputs.size() != node_.inputs.size() || body.outputs.size() != node_.inputs.size()) return carried;
    for (size_t i = 0; i < carried.size(); ++i) {
      const auto it = body.returns.find(body.outputs[i].name);
      carried[i] = it == body.returns.end() || ThroughIdentities(body, it->second) != body.inputs[i].name;
    }
    if (std::none_of(carried.begin(), carried.end(), [](bool each) { return each; })) carried[0] = true;
    return carried;
  }
  std::string_view ThroughIdentities(const FunctionDef& body, std::string_view value) const {
    std::string_view source = SourceOf(value);
    for (size_t steps = 0; steps <= body.nodes.size(); ++steps) {
      const auto node =
          std::find_if(body.nodes.begin(), body.nodes.end(), [&](const auto& each) { return each.name == source; });
      if (node == body.nodes.end()) break;  // an argument
      const auto op = graph_->registry().Find(node->op);
      if (!op.ok() || !(*op)->has(TENON_OP_IDENTITY) || (*op)->inputs.size() != 1 ||
          !(*op)->inputs[0].type_list_attr.empty() || node->inputs.empty())
        break;
      source = SourceOf(node->inputs[0]);
    }
    return source;
  }

  Status Loop() {
    if (node_.inputs.empty()) return Bad("it has no loop variables");
    TENON_ASSIGN_OR_RETURN(const FunctionRef* condition_ref, RefOf("cond"));
    TENON_ASSIGN_OR_RETURN(const FunctionRef* body_ref, RefOf("body"));
    TENON_ASSIGN_OR_RETURN(const Function body_function, Find(body_ref->name));
    const std::vector<bool> carried = FindCarried(*body_function);
    const size_t count = node_.inputs.size();
    const AttrValue* const parallel = node_.FindAttr("parallel_iterations");
    const std::string frame = StrCat(StateName(node_), kInBody, "frame");
    std::vector<Edge> now(count);  // of each variable, in a turn
    Edge pivot;
    for (size_t i = 0; i < count; ++i) {
      AttrMap attrs{{"frame_name", AttrValue::String(frame)}, {"is_constant", AttrValue::Bool(!carried[i])}};
      if (parallel != nullptr) attrs.emplace("parallel_iterations", *parallel);
      TENON_ASSIGN_OR_RETURN(now[i], Make("enter", "enter", {node_.inputs[i]}, node_.controls, std::move(attrs)));
      if (!carried[i]) continue;
      TENON_ASSIGN_OR_RETURN(now[i], Make("merge", "merge", {now[i], Edge()}));
      if (!pivot.node) pivot = now[i];
    }
    TENON_ASSIGN_OR_RETURN(const Function condition_function, Find(condition_ref->name));
    DType type = TENON_DT_BOOL;
    if (condition_function->outputs.size() == 1 && condition_function->outputs[0].type != TENON_DT_INVALID)
      type = condition_function->outputs[0].type;
    TENON_ASSIGN_OR_RETURN(const Outcome condition,
                           Add(*condition_ref, "cond", now, {type}, pivot.node, Invariants(carried, now)));
    TENON_ASSIGN_OR_RETURN(const Edge truth, Truth(condition.results[0]));
    TENON_ASSIGN_OR_RETURN(const Edge goes_on, Make("loop_condition", "goes_on", {truth}, condition.effects));
    return Turn(*body_ref, carried, now, goes_on);
  }

  static std::vector<NodeId> Invariants(const std::vector<bool>& carried, const std::vector<Edge>& now) {
    std::vector<NodeId> invariants;
    for (size_t i = 0; i < now.size(); ++i)
      if (!carried[i]) invariants.push_back(now[i].node);
    return invariants;
  }

  Status Turn(const FunctionRef& body_ref, const std::vector<bool>& carried, const std::vector<Edge>& now,
              Edge goes_on) {
    std::vector<Edge> inside = now;
    results_ = node_.inputs;
    Edge pivot;
    for (size_t i = 0; i < now.size(); ++i) {
      if (!carried[i]) continue;
      TENON_ASSIGN_OR_RETURN(const Edge sides, Make("switch", "switch", {now[i], goes_on}));
      inside[i] = {sides.node, 1};
      if (!pivot.node) {
        TENON_ASSIGN_OR_RETURN(pivot, Make("identity", "turn", {inside[i]}));
      }
      TENON_ASSIGN_OR_RETURN(results_[i], Make("exit", "exit", {sides}));
    }
    TENON_ASSIGN_OR_RETURN(const Outcome body,
                           Add(body_ref, "body", inside, node_.output_types, pivot.node, Invariants(carried, now)));
    std::set<NodeId> paced{pivot.node};
    for (size_t i = 0; i < now.size(); ++i)
      if (carried[i]) paced.insert(inside[i].node);
    const std::map<NodeId, std::vector<bool>> waits = FindPaced(pivot.node, paced);
    for (size_t i = 0; i < now.size(); ++i) {
      if (!carried[i]) continue;
      std::vector<NodeId> first = body.effects;
      if (!IsPaced(body.results[i], waits)) first.push_back(pivot.node);
      TENON_ASSIGN_OR_RETURN(const Edge value, After(body.results[i], "next", first));
      TENON_ASSIGN_OR_RETURN(const Edge next, Make("next_iteration", "next_iteration", {value}));
      TENON_RETURN_IF_ERROR(graph_->SetInput(now[i].node, 1, next));
    }
    return Status::Ok();
  }

  // Which outputs of the body's nodes wait for the turn. What is made of invariants alone is there before, and as a
  // next value would begin turn after turn. Of a call that is not dataflow yet nobody knows. By node; the last output
  // stands for those behind it.
  std::map<NodeId, std::vector<bool>> FindPaced(NodeId pivot, const std::set<NodeId>& paced) const {
    std::map<NodeId, std::vector<bool>> waits;
    for (const NodeId id : paced) waits[id] = {true};
    // Loops of the body have edges back, from nodes that come later: what they bring is seen in the next round.
    for (bool more = true; more;) {
      more = false;
      for (NodeId id = pivot; id != graph_->next_id(); ++id) {
        const Node& node = graph_->node(id);
        if (paced.contains(id) || node.has(kCallsFunctions)) continue;
        const auto is_paced = [&](const Edge& input) { return IsPaced(input, waits); };
        const bool by_control = std::any_of(node.controls.begin(), node.controls.end(), [&](NodeId control) {
          return IsPaced({control, 0}, waits);
        });
        std::vector<bool> now{by_control || std::any_of(node.inputs.begin(), node.inputs.end(), is_paced)};
        if (node.has(TENON_OP_IDENTITY) && node.inputs.size() == node.output_types.size() && !node.inputs.empty()) {
          now.clear();
          for (const Edge& input : node.inputs) now.push_back(by_control || is_paced(input));
        }
        std::vector<bool>& known = waits[id];
        more = more || known != now;
        known = std::move(now);
      }
    }
    return waits;
  }
  static bool IsPaced(const Edge& value, const std::map<NodeId, std::vector<bool>>& waits) {
    const auto at = waits.find(value.node);
    return at != waits.end() && !at->second.empty() &&
           at->second[std::min<size_t>(static_cast<size_t>(value.index), at->second.size() - 1)];
  }

  Graph* graph_;
  const Node node_;  // a copy: the graph grows
  std::vector<Edge> results_;
  std::vector<NodeId> effects_;
};

}  // namespace

Result<std::unique_ptr<Node>> InlineCall(Graph* graph, NodeId call) { return Inliner(graph, graph->node(call)).Run(); }

}  // namespace tenon::graph
