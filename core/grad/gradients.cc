// SPDX-License-Identifier: Apache-2.0
#include "core/grad/gradients.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/base/plugin_call.h"
#include "core/graph/inline_call.h"
#include "core/graph/loop_analysis.h"
#include "core/tensor/allowance.h"

namespace tenon::grad {
namespace {

using graph::AttrMap;
using graph::AttrValue;
using graph::Builder;
using graph::Edge;
using graph::Frame;
using graph::FrameId;
using graph::Graph;
using graph::LoopAnalysis;
using graph::LoopVariable;
using graph::Node;

// Gradients that arrived at one edge over several paths.
using Arrived = std::map<Edge, std::vector<tenon_gradient>>;

// Whether values of the type may have gradients: a variant has one of its elements'.
bool MayCarry(DType dtype) { return IsFloating(dtype) || BaseType(dtype) == TENON_DT_VARIANT; }

tenon_gradient Dense(Edge edge) { return {TENON_GRADIENT_DENSE, 0, graph::ToC(edge), {-1, 0, 0}, {-1, 0, 0}}; }

// One side of a conditional: the predicate and the output of its switch.
struct Branch {
  Edge predicate;
  int side;
  bool operator==(const Branch&) const = default;
};

// The backward loop that belongs to a forward loop; the root has none.
struct Backward {
  FrameId frame = graph::kStep;  // the forward frame
  Backward* parent = nullptr;
  std::string name;           // the backward frame's
  int64_t parallel_iterations = 10;
  // In the forward loop: counts turns; pushes hang between the counter and its next value.
  graph::NodeId forward_turn;  // the counter in a turn
  graph::NodeId forward_add;
  Edge forward_condition;     // the loop condition's output
  // In the backward loop.
  graph::NodeId turn;          // identity of the counter in a turn: what must run in each turn waits for it
  graph::NodeId subtract;
  std::map<Edge, Edge> forward_values;  // forward edge -> what stands for it here
  std::map<Edge, Edge> entered;         // value of the parent -> its constant Enter
};

Result<Edge> ConstantAfter(Builder* builder, Shape shape, int32_t value, const std::vector<graph::NodeId>& controls) {
  TENON_ASSIGN_OR_RETURN(Tensor tensor, Tensor::FromValues<int32_t>(KeptPool(), TENON_DT_INT32, std::move(shape), std::span(&value, 1)));
  const std::vector<graph::NodeId> before = builder->controls();
  if (!controls.empty()) builder->set_controls(controls);
  auto edge = builder->Constant(std::move(tensor));
  builder->set_controls(before);
  return edge;
}

class Differentiator {
 public:
  Differentiator(Builder* builder, const std::vector<Edge>& ys, const std::vector<Edge>& xs)
      : builder_(builder), graph_(builder->graph()), ys_(ys), xs_(xs), forward_end_(graph_.next_id()) {}

  // Calls on the way, and what has no gradient but is made of ops that do; their bodies must be in the graph before Run.
  std::vector<graph::NodeId> Calls() {
    FindBetween();
    std::vector<graph::NodeId> calls;
    for (const graph::NodeId id : ForwardIds()) {
      const Node& node = graph_.node(id);
      const bool made_of_others = graph::Decomposes(node) && node.op->c->gradient == nullptr;
      if (between_[id] && (node.has(graph::kCallsFunctions) || made_of_others) && GradientOfCall(node).empty()) calls.push_back(id);
    }
    return calls;
  }

  Result<std::vector<tenon_gradient>> Run(const std::vector<Edge>& initial) {
    TENON_ASSIGN_OR_RETURN(order_, graph_.TopologicalOrder());
    TENON_ASSIGN_OR_RETURN(loops_, LoopAnalysis::Run(graph_, order_));
    TENON_RETURN_IF_ERROR(CheckEnds());
    FindBetween();
    FindBranches();
    Backward root;
    Arrived arrived;
    for (size_t i = 0; i < ys_.size(); ++i) {
      Edge seed;
      if (initial.empty()) {
        TENON_ASSIGN_OR_RETURN(const graph::NodeId ones, builder_->AddRole("ones_like", {ys_[i]}));
        seed = {ones, 0};
      } else {
        seed = initial[i];
      }
      arrived[ys_[i]].push_back(Dense(seed));
    }
    TENON_RETURN_IF_ERROR(Walk(&root, &arrived));
    std::vector<tenon_gradient> out;
    for (const Edge& x : xs_) {
      TENON_ASSIGN_OR_RETURN(const tenon_gradient gradient, Total(&arrived, x));
      out.push_back(gradient);
    }
    return out;
  }

 private:
  IdRange<graph::NodeId> ForwardIds() const { return {graph::NodeId(0), forward_end_}; }
  FrameId FrameOf(graph::NodeId node) const { return node < forward_end_ ? loops_.frame_of(node) : FrameId(); }
  // The frame in which a value lives.
  FrameId FrameOfEdge(Edge edge) const {
    const FrameId frame = FrameOf(edge.node);
    if (frame > graph::kStep && graph_.node(edge.node).has(TENON_OP_EXIT)) return loops_.frame(frame).parent;
    return frame;
  }

  Status CheckEnds() const {
    for (const Edge& y : ys_)
      if (FrameOfEdge(y) != graph::kStep) return InvalidArgument(StrCat("'", graph_.EdgeName(y), "' is inside a loop; differentiate what leaves it"));
    for (const Edge& x : xs_)
      if (FrameOfEdge(x) != graph::kStep) return InvalidArgument(StrCat("'", graph_.EdgeName(x), "' is inside a loop; differentiate with respect to what enters it"));
    for (const Edge& y : ys_)
      if (!IsFloating(graph_.TypeOf(y)))
        return InvalidArgument(StrCat("'", graph_.EdgeName(y), "' is ", TypeName(graph_.TypeOf(y)), ", which has no gradient"));
    return Status::Ok();
  }

  // ---- What lies between xs and ys ----

  void FindBetween() {
    const size_t count = forward_end_.index();
    graph::NodeMap<std::vector<graph::NodeId>> users(count);
    for (const graph::NodeId id : ForwardIds())
      for (const Edge& edge : graph_.node(id).inputs)
        if (edge.node) users[edge.node].push_back(id);
    graph::NodeMap<bool> after_x(count, false), before_y(count, false);
    std::vector<graph::NodeId> stack;
    const auto visit = [&stack](graph::NodeMap<bool>& seen, graph::NodeId id) {
      if (seen[id]) return;
      seen[id] = true;
      stack.push_back(id);
    };
    for (const Edge& x : xs_) {
      // What uses the x itself, not the node's other outputs.
      for (graph::NodeId user : users[x.node])
        for (const Edge& edge : graph_.node(user).inputs)
          if (edge == x) visit(after_x, user);
    }
    while (!stack.empty()) {
      const graph::NodeId id = stack.back();
      stack.pop_back();
      if (graph_.node(id).has(TENON_OP_NO_GRADIENT)) continue;
      for (graph::NodeId user : users[id]) visit(after_x, user);
    }
    for (const Edge& y : ys_) visit(before_y, y.node);
    while (!stack.empty()) {
      const graph::NodeId id = stack.back();
      stack.pop_back();
      for (const Edge& edge : graph_.node(id).inputs)
        if (edge.node) visit(before_y, edge.node);
    }
    between_.assign(count, false);
    for (const graph::NodeId id : ForwardIds()) between_[id] = after_x[id] && before_y[id];
  }

  // The conditionals around each node, outermost first. A merge that is no loop variable ends one.
  void FindBranches() {
    branches_.resize(forward_end_.index());
    for (graph::NodeId id : order_) {
      const Node& node = graph_.node(id);
      std::vector<Branch> longest;
      const auto consider = [&](Edge edge) {
        if (!edge.node || graph::IsBackEdge(graph_.node(edge.node), node)) return;
        std::vector<Branch> around = BranchesOf(edge);
        if (around.size() > longest.size()) longest = std::move(around);
      };
      for (const Edge& edge : node.inputs) consider(edge);
      for (graph::NodeId control : node.controls) consider({control, -1});
      if (node.has(TENON_OP_MERGE) && !IsLoopMerge(node) && !longest.empty()) longest.pop_back();
      branches_[id] = std::move(longest);
    }
  }

  bool IsLoopSwitch(const Node& node) const {
    return node.has(TENON_OP_SWITCH) && graph_.node(node.inputs[1].node).has(TENON_OP_LOOP_CONDITION);
  }
  bool IsLoopMerge(const Node& node) const {
    for (const Edge& edge : node.inputs)
      if (graph_.node(edge.node).has(TENON_OP_NEXT_ITERATION)) return true;
    return false;
  }
  std::vector<Branch> BranchesOf(Edge edge) const {
    const Node& node = graph_.node(edge.node);
    std::vector<Branch> out = branches_[edge.node];
    if (node.has(TENON_OP_SWITCH) && !IsLoopSwitch(node) && edge.index >= 0) out.push_back({node.inputs[1], edge.index});
    return out;
  }

  // ---- Sums ----

  // All that arrived at an edge as one gradient.
  Result<tenon_gradient> Total(Arrived* arrived, Edge edge) {
    const auto it = arrived->find(edge);
    if (it == arrived->end() || it->second.empty()) return tenon_gradient{TENON_GRADIENT_NONE, 0, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
    std::vector<tenon_gradient>& list = it->second;
    std::erase_if(list, [](const tenon_gradient& g) { return g.kind == TENON_GRADIENT_ZERO; });
    if (list.empty()) return tenon_gradient{TENON_GRADIENT_ZERO, 0, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
    if (list.size() == 1) return list[0];
    const bool all_slices = std::all_of(list.begin(), list.end(), [](const tenon_gradient& g) { return g.kind == TENON_GRADIENT_SLICES; });
    TENON_ASSIGN_OR_RETURN(const tenon_gradient sum, all_slices ? JoinSlices(list) : SumDense(list));
    list = {sum};
    return sum;
  }

  Result<tenon_gradient> SumDense(const std::vector<tenon_gradient>& list) {
    std::vector<Edge> edges;
    for (const tenon_gradient& gradient : list) {
      TENON_ASSIGN_OR_RETURN(const Edge dense, Densify(gradient));
      edges.push_back(dense);
    }
    TENON_ASSIGN_OR_RETURN(const graph::NodeId sum, builder_->AddRole("sum", edges));
    return Dense({sum, 0});
  }

  // A constant of the walk's loop waits for the turn, so that it belongs there.
  std::vector<graph::NodeId> ControlsHere() const {
    return current_ != nullptr && current_->frame != graph::kStep ? std::vector<graph::NodeId>{current_->turn} : std::vector<graph::NodeId>();
  }

  // Slices are put one after the other, not added.
  Result<tenon_gradient> JoinSlices(const std::vector<tenon_gradient>& list) {
    std::vector<Edge> values, indices;
    for (const tenon_gradient& gradient : list) {
      values.push_back(graph::FromC(gradient.dense));
      indices.push_back(graph::FromC(gradient.indices));
    }
    TENON_ASSIGN_OR_RETURN(const Edge axis, ConstantAfter(builder_, Shape(), 0, ControlsHere()));
    values.push_back(axis);
    indices.push_back(axis);
    TENON_ASSIGN_OR_RETURN(const graph::NodeId value, builder_->AddRole("concat", values));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId index, builder_->AddRole("concat", indices));
    return tenon_gradient{TENON_GRADIENT_SLICES, 0, {value.number(), 0, 0}, {index.number(), 0, 0}, list[0].dense_shape};
  }

  Result<Edge> Densify(const tenon_gradient& gradient) { return grad::Densify(builder_, gradient, ControlsHere()); }

  // ---- Walking back ----

  // Walks the items of back->frame from last to first. `arrived` has what arrived from later items.
  Status Walk(Backward* back, Arrived* arrived) {
    Backward* const before = std::exchange(current_, back);
    Status status = WalkItems(back, arrived);
    current_ = before;
    return status;
  }

  Status WalkItems(Backward* back, Arrived* arrived) {
    TENON_ASSIGN_OR_RETURN(const std::vector<LoopAnalysis::Item> items, loops_.Items(graph_, order_, back->frame));
    for (auto item = items.rbegin(); item != items.rend(); ++item) {
      if (!item->node) {
        TENON_RETURN_IF_ERROR(WalkLoop(item->child, back, arrived));
        continue;
      }
      if (!between_[item->node]) continue;
      const Node& node = graph_.node(item->node);
      constexpr uint64_t kByLoop = TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION;
      if (node.has(kByLoop) || IsLoopSwitch(node) || (node.has(TENON_OP_MERGE) && IsLoopMerge(node))) continue;
      if (Status status = WalkNode(node.id, back, arrived); !status.ok())
        return std::move(status).Annotate(StrCat("gradient of ", graph_.node(item->node).Describe()));
    }
    return Status::Ok();
  }

  void Arrive(Arrived* arrived, Edge input, tenon_gradient gradient) {
    if (gradient.kind == TENON_GRADIENT_NONE) return;
    const uint32_t type = BaseType(graph_.TypeOf(input));
    if (!MayCarry(type) && type != TENON_DT_RESOURCE) return;
    (*arrived)[input].push_back(gradient);
  }

  Status WalkNode(graph::NodeId id, Backward* back, Arrived* arrived) {
    std::vector<tenon_gradient> dy;
    bool any = false;
    for (size_t k = 0; k < graph_.node(id).output_types.size(); ++k) {
      TENON_ASSIGN_OR_RETURN(const tenon_gradient total, Total(arrived, {id, static_cast<int32_t>(k)}));
      any = any || total.kind == TENON_GRADIENT_DENSE || total.kind == TENON_GRADIENT_SLICES;
      dy.push_back(total);
    }
    if (!any) return Status::Ok();
    const graph::NodeId first_new = graph_.next_id();
    const Node node = graph_.node(id);  // a copy: the graph grows
    std::vector<tenon_gradient> dx(node.inputs.size(), tenon_gradient{TENON_GRADIENT_NONE, 0, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}});
    if (node.has(TENON_OP_SWITCH)) {
      TENON_RETURN_IF_ERROR(SwitchGradient(node, dy, &dx));
    } else if (node.has(TENON_OP_MERGE)) {
      TENON_RETURN_IF_ERROR(MergeGradient(node, dy, &dx));
    } else if (node.has(TENON_OP_CALL)) {
      TENON_RETURN_IF_ERROR(CallGradient(node, dy, &dx));
    } else {
      TENON_RETURN_IF_ERROR(OpGradient(id, node, dy, &dx));
    }
    TENON_RETURN_IF_ERROR(Localize(first_new, back));
    for (tenon_gradient& gradient : dx)
      for (tenon_output* end : {&gradient.dense, &gradient.indices, &gradient.dense_shape}) {
        const FrameId frame = end->node < 0 || back->frame == graph::kStep ? FrameId() : ForwardFrame(graph::FromC(*end));
        if (!frame) continue;
        TENON_ASSIGN_OR_RETURN(const Edge here, ForwardValue(graph::FromC(*end), frame, back));
        *end = graph::ToC(here);
      }
    for (size_t i = 0; i < dx.size(); ++i) {
      if (dx[i].kind == TENON_GRADIENT_NOT_DIFFERENTIABLE) {
        if (LeadsToX(node.inputs[i]))
          return Status(Code::kInvalidArgument, StrCat("the op is not differentiable with respect to its input ", i));
        continue;
      }
      Arrive(arrived, node.inputs[i], dx[i]);
    }
    return Status::Ok();
  }

  bool LeadsToX(Edge edge) const {
    return between_[edge.node] || std::find(xs_.begin(), xs_.end(), edge) != xs_.end();
  }

  struct HostArgs {
    Differentiator* self;
    const Node* node;
  };

  static tenon_status* DenseDy(const tenon_gradient_args* args, int32_t index, tenon_output* out_output) {
    auto* host = static_cast<HostArgs*>(args->host);
    if (index < 0 || index >= args->output_count)
      return Internal(StrCat("its gradient asked for dy ", index, " of ", args->output_count)).release();
    auto edge = host->self->DenseOrZeros(*host->node, index, args->dy[index]);
    if (!edge.ok()) return Status(edge.status()).release();
    *out_output = graph::ToC(*edge);
    return nullptr;
  }

  Result<Edge> DenseOrZeros(const Node& node, int32_t index, const tenon_gradient& gradient) {
    if (gradient.kind == TENON_GRADIENT_DENSE || gradient.kind == TENON_GRADIENT_SLICES) return Densify(gradient);
    TENON_ASSIGN_OR_RETURN(const graph::NodeId zeros, builder_->AddRole("zeros_like", {Edge{node.id, index}}));
    return Edge{zeros, 0};
  }

  // That what a plugin's gradient function gave for an input is there, and a gradient of it.
  Status CheckGradient(const Node& node, size_t input, const tenon_gradient& gradient) const {
    if (gradient.kind > TENON_GRADIENT_NOT_DIFFERENTIABLE) return Internal(StrCat("a gradient of kind ", gradient.kind, ", which does not exist"));
    if (gradient.reserved != 0) return Internal("a gradient whose reserved member is not 0");
    if (gradient.kind == TENON_GRADIENT_DENSE) return CheckOutput("the gradient", gradient.dense, node.input_types[input]);
    if (gradient.kind != TENON_GRADIENT_SLICES) return Status::Ok();
    TENON_RETURN_IF_ERROR(CheckOutput("the values", gradient.dense, node.input_types[input]));
    TENON_RETURN_IF_ERROR(CheckOutput("the indices", gradient.indices, TENON_DT_INVALID));
    return CheckOutput("the shape", gradient.dense_shape, TENON_DT_INVALID);
  }
  // type: of the input; what is no plain value may have a gradient of another type.
  Status CheckOutput(const char* what, const tenon_output& output, DType type) const {
    if (output.node < 0 || static_cast<uint64_t>(output.node) >= graph_.size()) return Internal(StrCat(what, " at node ", output.node, "; the graph has ", graph_.size(), " nodes"));
    const Node& node = graph_.node(graph::NodeId(output.node));
    if (output.index < 0 || static_cast<size_t>(output.index) >= node.output_types.size())
      return Internal(StrCat(what, " at output ", output.index, " of ", node.Describe(), ", which has ", node.output_types.size(), " outputs"));
    const DType given = BaseType(node.output_types[output.index]);
    if (IsPlain(BaseType(type)) && type != TENON_DT_INVALID && given != BaseType(type))
      return Internal(StrCat(what, " at ", node.Describe(), ", which is ", TypeName(given), " and not ", TypeName(BaseType(type))));
    return Status::Ok();
  }

  // The op's own, or another package's; no function: it has none.
  graph::OpRegistry::GradientEntry GradientOf(const graph::OpDef& op) const {
    if (op.c != nullptr && op.c->gradient != nullptr) return {op.c->gradient, op.plugin};
    if (op.c == nullptr || op.has(TENON_OP_NO_GRADIENT) || op.has(TENON_OP_IDENTITY)) return {};
    return graph_.registry().FindGradient(op.name);
  }

  Status OpGradient(graph::NodeId id, const Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx) {
    const graph::OpRegistry::GradientEntry gradient = GradientOf(*node.op);
    if (gradient.gradient == nullptr) {
      if (node.has(TENON_OP_NO_GRADIENT)) return Status::Ok();
      if (node.has(TENON_OP_IDENTITY)) {
        for (size_t i = 0; i < dx->size() && i < dy.size(); ++i) (*dx)[i] = dy[i];
        return Status::Ok();
      }
      return Status(Code::kUnimplemented, StrCat("op '", node.op->name, "' of plugin '", node.op->package, "' has no gradient"));
    }
    // Gradient functions rely on what the op's shape function has checked; a node that cannot run has no gradient.
    TENON_RETURN_IF_ERROR(builder_->Check(id));
    std::vector<tenon_output> inputs, outputs;
    for (const Edge& edge : node.inputs) inputs.push_back(graph::ToC(edge));
    for (size_t k = 0; k < node.output_types.size(); ++k) outputs.push_back({id.number(), static_cast<int32_t>(k), 0});
    HostArgs host{this, &node};
    tenon_gradient_args args = {TENON_HEAD(tenon_gradient_args), builder_->c(), graph::NodeServices(), &node,
                                inputs.data(), outputs.data(), dy.data(), dx->data(), static_cast<int32_t>(inputs.size()),
                                static_cast<int32_t>(outputs.size()), &DenseDy, &host, Span(builder_->scope()), nullptr};
    TENON_RETURN_IF_ERROR(gradient.plugin->Call("gradient", &node.name, &node.op->name, [&](tenon_plugin_self* self) {
      args.self = self;
      return gradient.gradient(&args);
    }));
    for (size_t i = 0; i < dx->size(); ++i)
      if (Status status = CheckGradient(node, i, (*dx)[i]); !status.ok())
        return std::move(status).Annotate(StrCat(DescribePlugin(gradient.plugin->id()), ": its gradient() gave input ", i));
    return Status::Ok();
  }

  // The function that the library names as the gradient of the one that the node calls; empty: there is none, or it calls none.
  std::string GradientOfCall(const Node& node) const {
    if (!node.has(TENON_OP_CALL) || node.has(TENON_OP_REMOTE)) return {};
    auto function = graph_.library().find(node.op->name);
    if (const graph::AttrValue* f = node.FindAttr("f"); function == graph_.library().end() && f != nullptr && f->kind() == TENON_ATTR_FUNCTION)
      function = graph_.library().find(f->function().name);
    return function == graph_.library().end() ? std::string() : function->second->gradient;
  }

  // A call of that function: with the inputs, then a gradient of each output.
  Status CallGradient(const Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx) {
    const std::string gradient = GradientOfCall(node);
    std::vector<Edge> inputs = node.inputs;
    for (size_t k = 0; k < dy.size(); ++k) {
      TENON_ASSIGN_OR_RETURN(const Edge dense, DenseOrZeros(node, static_cast<int32_t>(k), dy[k]));
      inputs.push_back(dense);
    }
    TENON_ASSIGN_OR_RETURN(const graph::OpDef* const op, graph_.FunctionOp(gradient));
    const std::vector<graph::NodeId> before = builder_->controls();
    builder_->set_controls(ControlsHere());
    auto call = builder_->Add(gradient, std::move(inputs), BoundBy(node, *op));
    builder_->set_controls(before);
    if (!call.ok()) return Status(call.status()).Annotate(StrCat("a call of '", gradient, "', which is the gradient of its function"));
    const Node& made = graph_.node(*call);
    if (made.output_types.size() != dx->size())
      return InvalidArgument(StrCat("'", gradient, "', which is the gradient of its function, gives ", made.output_types.size(), " values for ", dx->size(), " inputs"));
    for (size_t i = 0; i < dx->size(); ++i) {
      if (!MayCarry(BaseType(graph_.TypeOf(node.inputs[i])))) continue;
      (*dx)[i] = Dense({*call, static_cast<int32_t>(i)});
      TENON_RETURN_IF_ERROR(CheckOutput(StrCat("'", gradient, "' gives input ", i).c_str(), (*dx)[i].dense, node.input_types[i]));
    }
    return Status::Ok();
  }

  // Attributes of the call, or of its attribute f, that the gradient's function has too.
  static AttrMap BoundBy(const Node& call, const graph::OpDef& op) {
    AttrMap bound;
    const auto take = [&](const AttrMap& attrs) {
      for (const auto& [name, value] : attrs)
        if (op.FindAttr(name) != nullptr) bound.emplace(name, value);
    };
    if (const graph::AttrValue* f = call.FindAttr("f"); f != nullptr && f->kind() == TENON_ATTR_FUNCTION && f->function().attrs) take(*f->function().attrs);
    take(call.attrs);
    return bound;
  }

  // Whichever side was taken has its gradient; the other is dead. A side without gradient gives zeros, alive or dead
  // as the side is.
  Status SwitchGradient(const Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx) {
    std::vector<Edge> sides;
    for (int32_t k = 0; k < 2; ++k) {
      TENON_ASSIGN_OR_RETURN(const Edge side, DenseOrZeros(node, k, dy[k]));
      sides.push_back(side);
    }
    TENON_ASSIGN_OR_RETURN(const graph::NodeId merge, builder_->AddRole("merge", sides));
    (*dx)[0] = Dense({merge, 0});
    return Status::Ok();
  }

  // The gradient goes the way that the value came: the merge's index says which.
  Status MergeGradient(const Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx) {
    if (node.inputs.size() != 2) return Unimplemented(StrCat("a merge of ", node.inputs.size(), " values has no gradient; merge two at a time"));
    if (dy[0].kind != TENON_GRADIENT_DENSE && dy[0].kind != TENON_GRADIENT_SLICES) return Status::Ok();
    TENON_ASSIGN_OR_RETURN(const Edge dense, Densify(dy[0]));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId second, builder_->AddRole("cast", {Edge{node.id, 1}}, {{"DstT", AttrValue::Type(TENON_DT_BOOL)}}));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId gate, builder_->AddRole("switch", {dense, Edge{second, 0}}));
    for (int32_t i = 0; i < 2; ++i) (*dx)[i] = Dense({gate, i});
    return Status::Ok();
  }

  // ---- Loops ----

  AttrMap EnterAttrs(const Backward& back, bool constant) const {
    return {{"frame_name", AttrValue::String(back.name)},
            {"is_constant", AttrValue::Bool(constant)},
            {"parallel_iterations", AttrValue::Int(back.parallel_iterations)}};
  }

  struct Variable {
    graph::NodeId merge;
    Edge in_turn;  // the switch's true side
    Edge exit;
  };

  // A loop variable: Enter, Merge with an open back edge, Switch, Exit. condition.node -1: the switch is made later.
  Result<graph::NodeId> OpenVariable(const AttrMap& enter_attrs, Edge initial) {
    TENON_ASSIGN_OR_RETURN(const graph::NodeId enter, builder_->AddRole("enter", {initial}, enter_attrs));
    // The second input stands in until the next-iteration exists; types are the same.
    TENON_ASSIGN_OR_RETURN(const graph::NodeId merge, builder_->AddRole("merge", {Edge{enter, 0}, Edge{enter, 0}}));
    return merge;
  }
  Result<Variable> CloseVariable(graph::NodeId merge, Edge condition) {
    Variable variable;
    variable.merge = merge;
    TENON_ASSIGN_OR_RETURN(const graph::NodeId gate, builder_->AddRole("switch", {Edge{merge, 0}, condition}));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId turn, builder_->AddRole("identity", {Edge{gate, 1}}));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId exit, builder_->AddRole("exit", {Edge{gate, 0}}));
    variable.in_turn = {turn, 0};
    variable.exit = {exit, 0};
    return variable;
  }
  Status SetNext(graph::NodeId merge, Edge value) {
    TENON_ASSIGN_OR_RETURN(const graph::NodeId next, builder_->AddRole("next_iteration", {value}));
    return graph_.SetInput(merge, 1, {next, 0});
  }

  // A constant in a frame: waits for `pivot`, so that it belongs to the turn.
  Result<Edge> ConstantIn(graph::NodeId pivot, int32_t value) {
    const std::vector<graph::NodeId> before = builder_->controls();
    builder_->set_controls({pivot});
    auto edge = builder_->ScalarInt32(value);
    builder_->set_controls(before);
    return edge;
  }

  Status WalkLoop(FrameId index, Backward* parent, Arrived* arrived) {
    const Frame& frame = loops_.frame(index);
    // Which variables and invariants the gradient flows through.
    bool any = false;
    std::vector<LoopVariable> variables = VariablesOf(frame);
    for (const LoopVariable& variable : variables) {
      if (!variable.exit) continue;
      TENON_ASSIGN_OR_RETURN(const tenon_gradient total, Total(arrived, {variable.exit, 0}));
      any = any || total.kind == TENON_GRADIENT_DENSE || total.kind == TENON_GRADIENT_SLICES;
    }
    if (!any) return Status::Ok();
    if (!frame.condition) return Unimplemented(StrCat("loop '", frame.name, "' has no loop condition; it has no gradient"));
    for (const LoopVariable& variable : variables)
      if (!variable.enter)
        return InvalidArgument(StrCat("loop '", frame.name, "': ", graph_.node(variable.merge).Describe(), " does not begin with an Enter; it has no gradient"));
    Backward back;
    back.frame = index;
    back.parent = parent;
    back.name = graph_.UniqueName(builder_->scope() + "/" + frame.name + "_gradient");
    if (const AttrValue* parallel = graph_.node(frame.enters[0]).FindAttr("parallel_iterations"); parallel != nullptr)
      back.parallel_iterations = parallel->i();
    back.forward_condition = {frame.condition, 0};
    TENON_ASSIGN_OR_RETURN(const Edge count, CountTurns(frame, &back));
    TENON_ASSIGN_OR_RETURN(const Edge count_here, ForwardValue(count, frame.parent, parent));

    // The backward counter and its condition.
    TENON_ASSIGN_OR_RETURN(const graph::NodeId counter, OpenVariable(EnterAttrs(back, false), count_here));
    TENON_ASSIGN_OR_RETURN(const Edge one, ConstantIn(counter, 1));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId more, builder_->AddRole("greater_equal", {Edge{counter, 0}, one}));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId condition, builder_->AddRole("loop_condition", {Edge{more, 0}}));
    TENON_ASSIGN_OR_RETURN(const Variable turns, CloseVariable(counter, {condition, 0}));
    back.turn = turns.in_turn.node;
    TENON_ASSIGN_OR_RETURN(const Edge step, ConstantIn(back.turn, 1));
    TENON_ASSIGN_OR_RETURN(back.subtract, builder_->AddRole("subtract", {turns.in_turn, step}));
    TENON_RETURN_IF_ERROR(SetNext(counter, {back.subtract, 0}));

    // One backward variable for each forward one that may carry a gradient.
    Arrived inside;
    std::vector<std::pair<const LoopVariable*, Variable>> carried;
    for (const LoopVariable& variable : variables) {
      if (!variable.switch_node || !between_[variable.merge] ||
          !MayCarry(graph_.TypeOf({variable.merge, 0})))
        continue;
      Edge first;
      tenon_gradient total{};
      if (variable.exit) {
        TENON_ASSIGN_OR_RETURN(total, Total(arrived, {variable.exit, 0}));
      }
      if (total.kind == TENON_GRADIENT_DENSE || total.kind == TENON_GRADIENT_SLICES) {
        TENON_ASSIGN_OR_RETURN(first, Densify(total));
      } else {
        TENON_ASSIGN_OR_RETURN(first, ZerosForVariable(variable, parent));
      }
      TENON_ASSIGN_OR_RETURN(const graph::NodeId merge, OpenVariable(EnterAttrs(back, false), first));
      TENON_ASSIGN_OR_RETURN(const Variable made, CloseVariable(merge, {condition, 0}));
      carried.emplace_back(&variable, made);
      inside[graph_.node(variable.next).inputs[0]].push_back(Dense(made.in_turn));
    }
    // Invariants gather what each turn adds.
    std::vector<std::pair<graph::NodeId, Variable>> invariants;
    for (graph::NodeId enter : frame.enters) {
      if (!IsInvariant(enter) || !between_[enter] || !MayCarry(graph_.TypeOf({enter, 0}))) continue;
      const Edge outside = graph_.node(enter).inputs[0];
      const graph::NodeId first_new = graph_.next_id();
      TENON_ASSIGN_OR_RETURN(const graph::NodeId zeros, builder_->AddRole("zeros_like", {outside}));
      TENON_RETURN_IF_ERROR(Localize(first_new, parent));
      TENON_ASSIGN_OR_RETURN(const graph::NodeId merge, OpenVariable(EnterAttrs(back, false), {zeros, 0}));
      TENON_ASSIGN_OR_RETURN(const Variable made, CloseVariable(merge, {condition, 0}));
      invariants.emplace_back(enter, made);
    }
    TENON_RETURN_IF_ERROR(Walk(&back, &inside));
    Backward* const before = std::exchange(current_, &back);
    Status status = CloseLoop(carried, invariants, &inside, arrived);
    current_ = before;
    return status;
  }

  // The next values of the backward variables, and what leaves the backward loop.
  Status CloseLoop(const std::vector<std::pair<const LoopVariable*, Variable>>& carried,
                   const std::vector<std::pair<graph::NodeId, Variable>>& invariants, Arrived* inside, Arrived* arrived) {
    for (const auto& [variable, made] : carried) {
      // The body may read the variable before or after its switch.
      std::vector<tenon_gradient>& at_switch = (*inside)[{variable->switch_node, 1}];
      for (const tenon_gradient& gradient : (*inside)[{variable->merge, 0}]) at_switch.push_back(gradient);
      TENON_ASSIGN_OR_RETURN(const tenon_gradient total, Total(inside, {variable->switch_node, 1}));
      Edge next;
      if (total.kind == TENON_GRADIENT_DENSE || total.kind == TENON_GRADIENT_SLICES) {
        TENON_ASSIGN_OR_RETURN(next, Densify(total));
      } else {
        TENON_ASSIGN_OR_RETURN(const graph::NodeId zeros, builder_->AddRole("zeros_like", {made.in_turn}));
        next = {zeros, 0};
      }
      TENON_RETURN_IF_ERROR(SetNext(made.merge, next));
      Arrive(arrived, graph_.node(variable->enter).inputs[0], Dense(made.exit));
    }
    for (const auto& [enter, made] : invariants) {
      TENON_ASSIGN_OR_RETURN(const tenon_gradient total, Total(inside, {enter, 0}));
      Edge next = made.in_turn;
      if (total.kind == TENON_GRADIENT_DENSE || total.kind == TENON_GRADIENT_SLICES) {
        TENON_ASSIGN_OR_RETURN(const Edge dense, Densify(total));
        TENON_ASSIGN_OR_RETURN(const graph::NodeId sum, builder_->AddRole("sum", {made.in_turn, dense}));
        next = {sum, 0};
      }
      TENON_RETURN_IF_ERROR(SetNext(made.merge, next));
      Arrive(arrived, graph_.node(enter).inputs[0], Dense(made.exit));
    }
    return Status::Ok();
  }

  bool IsInvariant(graph::NodeId enter) const {
    const AttrValue* value = graph_.node(enter).FindAttr("is_constant");
    return value != nullptr && value->kind() == TENON_ATTR_BOOL && value->b();
  }

  // The loop's variables, whether or not the loop has conditionals inside.
  std::vector<LoopVariable> VariablesOf(const Frame& frame) const {
    std::map<graph::NodeId, LoopVariable> by_merge;
    for (graph::NodeId id : frame.nodes) {
      const Node& node = graph_.node(id);
      if (!node.has(TENON_OP_MERGE) || !IsLoopMerge(node)) continue;
      LoopVariable variable;
      variable.merge = id;
      for (const Edge& edge : node.inputs) {
        if (graph_.node(edge.node).has(TENON_OP_NEXT_ITERATION)) variable.next = edge.node;
        else if (graph_.node(edge.node).has(TENON_OP_ENTER)) variable.enter = edge.node;
      }
      by_merge[id] = variable;
    }
    for (graph::NodeId id : frame.nodes) {
      const Node& node = graph_.node(id);
      if (!IsLoopSwitch(node)) continue;
      if (const auto it = by_merge.find(node.inputs[0].node); it != by_merge.end()) it->second.switch_node = id;
    }
    for (graph::NodeId id : frame.nodes) {
      const Node& node = graph_.node(id);
      if (!node.has(TENON_OP_EXIT)) continue;
      for (auto& [merge, variable] : by_merge)
        if (variable.switch_node == node.inputs[0].node) variable.exit = id;
    }
    std::vector<LoopVariable> out;
    for (auto& [merge, variable] : by_merge) out.push_back(variable);
    return out;
  }

  // Zeros of the shape that the variable has when it leaves the loop.
  Result<Edge> ZerosForVariable(const LoopVariable& variable, Backward* parent) {
    const graph::NodeId first_new = graph_.next_id();
    const Edge like = variable.exit ? Edge{variable.exit, 0} : graph_.node(variable.enter).inputs[0];
    TENON_ASSIGN_OR_RETURN(const graph::NodeId zeros, builder_->AddRole("zeros_like", {like}));
    TENON_RETURN_IF_ERROR(Localize(first_new, parent));
    return Edge{zeros, 0};
  }

  // Adds a counter to the forward loop; gives the number of turns, as a value of the frame around it.
  Result<Edge> CountTurns(const Frame& frame, Backward* back) {
    const Node enter = graph_.node(frame.enters[0]);
    AttrMap attrs = {{"frame_name", AttrValue::String(frame.name)}, {"is_constant", AttrValue::Bool(false)}};
    if (const AttrValue* parallel = enter.FindAttr("parallel_iterations"); parallel != nullptr) attrs.emplace("parallel_iterations", *parallel);
    // The zero must live in the frame around the loop: it waits for what enters it.
    std::vector<graph::NodeId> pivot;
    if (frame.parent != graph::kStep) pivot = {enter.inputs[0].node};
    const std::vector<graph::NodeId> before = builder_->controls();
    builder_->set_controls(pivot);
    auto zero = builder_->ScalarInt32(0, "turns");
    builder_->set_controls(before);
    if (!zero.ok()) return zero.status();
    TENON_ASSIGN_OR_RETURN(const graph::NodeId merge, OpenVariable(attrs, *zero));
    TENON_ASSIGN_OR_RETURN(const Variable variable, CloseVariable(merge, back->forward_condition));
    back->forward_turn = variable.in_turn.node;
    TENON_ASSIGN_OR_RETURN(const Edge one, ConstantIn(back->forward_turn, 1));
    TENON_ASSIGN_OR_RETURN(back->forward_add, builder_->AddRole("add", {variable.in_turn, one}));
    TENON_RETURN_IF_ERROR(SetNext(merge, {back->forward_add, 0}));
    // New nodes of the forward loop: they are looked up like forward values.
    extra_frames_[variable.exit.node] = frame.parent;
    extra_branches_[variable.exit.node] = BranchesOf(enter.inputs[0]);
    return variable.exit;
  }

  // ---- Forward values in backward loops ----

  // The frame of a value of the forward graph, counters and stacks that were added to it included; -1: none.
  FrameId ForwardFrame(Edge edge) const {
    if (const auto it = extra_frames_.find(edge.node); it != extra_frames_.end()) return it->second;
    return edge.node < forward_end_ ? FrameOfEdge(edge) : FrameId();
  }

  // New nodes may read values of the forward graph; in a backward loop those become what stands for them there. New
  // nodes without inputs wait for the turn.
  Status Localize(graph::NodeId first_new, Backward* back) {
    if (back->frame == graph::kStep) return Status::Ok();
    const graph::NodeId end = graph_.next_id();
    for (graph::NodeId id = first_new; id < end; ++id) {
      if (made_by_loops_.contains(id)) continue;
      for (size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
        const Edge edge = graph_.node(id).inputs[i];
        const FrameId frame = ForwardFrame(edge);
        if (!frame) continue;
        TENON_ASSIGN_OR_RETURN(const Edge here, ForwardValue(edge, frame, back));
        TENON_RETURN_IF_ERROR(graph_.SetInput(id, static_cast<int32_t>(i), here));
      }
      if (graph_.node(id).inputs.empty() && graph_.node(id).controls.empty()) graph_.AddControl(back->turn, id);
    }
    // What ForwardValue added stands where it belongs.
    for (const graph::NodeId id : IdRange(end, graph_.next_id())) made_by_loops_.insert(id);
    builder_->Forget();
    return Status::Ok();
  }

  // What stands in the backward loop `back` for a forward value of frame `frame`.
  Result<Edge> ForwardValue(Edge edge, FrameId frame, Backward* back) {
    if (frame == back->frame && frame == graph::kStep) return edge;
    if (const auto it = back->forward_values.find(edge); it != back->forward_values.end()) return it->second;
    Edge here;
    if (frame != back->frame) {
      // A value of a frame further out: goes in as an invariant.
      TENON_ASSIGN_OR_RETURN(const Edge outside, ForwardValue(edge, frame, back->parent));
      TENON_ASSIGN_OR_RETURN(here, EnterConstant(outside, back));
    } else if (edge.node < forward_end_ && graph_.node(edge.node).has(TENON_OP_ENTER) && IsInvariant(edge.node)) {
      const Edge source = graph_.node(edge.node).inputs[0];
      TENON_ASSIGN_OR_RETURN(const Edge outside, ForwardValue(source, ForwardFrame(source), back->parent));
      TENON_ASSIGN_OR_RETURN(here, EnterConstant(outside, back));
    } else {
      TENON_ASSIGN_OR_RETURN(here, ThroughStack(edge, back));
    }
    back->forward_values[edge] = here;
    return here;
  }

  Result<Edge> EnterConstant(Edge outside, Backward* back) {
    if (const auto it = back->entered.find(outside); it != back->entered.end()) return it->second;
    TENON_ASSIGN_OR_RETURN(const graph::NodeId enter, builder_->AddRole("enter", {outside}, EnterAttrs(*back, true)));
    back->entered[outside] = {enter, 0};
    return Edge{enter, 0};
  }

  // Pushed in each forward turn, popped in each backward turn. A value of a branch is pushed and popped only when the
  // branch was taken.
  Result<Edge> ThroughStack(Edge edge, Backward* back) {
    const DType type = BaseType(graph_.TypeOf(edge));
    const Frame& frame = loops_.frame(back->frame);
    const Node enter = graph_.node(frame.enters[0]);
    // The stack lives in the frame around the forward loop.
    const std::vector<graph::NodeId> before = builder_->controls();
    if (frame.parent != graph::kStep) builder_->set_controls({enter.inputs[0].node});
    auto limit = builder_->ScalarInt32(-1, "stack_limit");
    builder_->set_controls(before);
    if (!limit.ok()) return limit.status();
    TENON_ASSIGN_OR_RETURN(const graph::NodeId stack, builder_->AddRole("stack", {*limit}, {{"elem_type", AttrValue::Type(type)}}));
    extra_frames_[stack] = frame.parent;
    extra_branches_[stack] = enter.inputs[0].node < forward_end_ ? BranchesOf(enter.inputs[0]) : std::vector<Branch>();
    AttrMap enter_attrs = {{"frame_name", AttrValue::String(frame.name)}, {"is_constant", AttrValue::Bool(true)}};
    if (const AttrValue* parallel = enter.FindAttr("parallel_iterations"); parallel != nullptr) enter_attrs.emplace("parallel_iterations", *parallel);
    TENON_ASSIGN_OR_RETURN(const graph::NodeId handle, builder_->AddRole("enter", {Edge{stack, 0}}, enter_attrs));
    // Only in turns: a value that the condition part computes also comes once more at the end.
    Edge pushed = edge;
    if (!frame.body.contains(edge.node)) {
      TENON_ASSIGN_OR_RETURN(const graph::NodeId gate, builder_->AddRole("switch", {edge, back->forward_condition}));
      pushed = {gate, 1};
    }
    TENON_ASSIGN_OR_RETURN(const graph::NodeId push, builder_->AddRole("stack_push", {Edge{handle, 0}, pushed}, {}, {}, {back->forward_turn}));
    // Turns push one after the other. The trigger is alive even where the push was not taken.
    TENON_ASSIGN_OR_RETURN(const graph::NodeId pushed_once, builder_->AddRole("control_trigger", {}, {}, {}, {push}));
    graph_.AddControl(pushed_once, back->forward_add);

    TENON_ASSIGN_OR_RETURN(const Edge stack_outside, ForwardValue({stack, 0}, frame.parent, back->parent));
    TENON_ASSIGN_OR_RETURN(Edge handle_here, EnterConstant(stack_outside, back));
    for (const Branch& branch : edge.node < forward_end_ ? BranchesOf(edge) : extra_branches_[edge.node]) {
      if (ForwardFrame(branch.predicate) != back->frame) continue;  // a conditional around the whole loop
      TENON_ASSIGN_OR_RETURN(const Edge predicate, ForwardValue(branch.predicate, back->frame, back));
      TENON_ASSIGN_OR_RETURN(const graph::NodeId gate, builder_->AddRole("switch", {handle_here, predicate}));
      handle_here = {gate, branch.side};
    }
    TENON_ASSIGN_OR_RETURN(const graph::NodeId pop, builder_->AddRole("stack_pop", {handle_here}, {{"elem_type", AttrValue::Type(type)}}, {}, {back->turn}));
    TENON_ASSIGN_OR_RETURN(const graph::NodeId popped_once, builder_->AddRole("control_trigger", {}, {}, {}, {pop}));
    graph_.AddControl(popped_once, back->subtract);
    return Edge{pop, 0};
  }

  Builder* builder_;
  Graph& graph_;
  const std::vector<Edge>& ys_;
  const std::vector<Edge>& xs_;
  const graph::NodeId forward_end_;  // what was added since is not of the forward graph
  std::vector<graph::NodeId> order_;
  LoopAnalysis loops_;
  graph::NodeMap<bool> between_;
  graph::NodeMap<std::vector<Branch>> branches_;
  std::map<graph::NodeId, FrameId> extra_frames_;           // nodes added to the forward graph that backward loops read
  std::map<graph::NodeId, std::vector<Branch>> extra_branches_;
  Backward* current_ = nullptr;                   // of the walk
  std::unordered_set<graph::NodeId> made_by_loops_;     // new nodes that stand where they belong
};

}  // namespace

namespace {

// Puts the bodies of calls on the way into the graph, nested ones too; `replaced` holds the calls as they were.
Status InlineOnTheWay(Builder* builder, const std::vector<Edge>& ys, const std::vector<Edge>& xs,
                      std::vector<std::unique_ptr<Node>>* replaced) {
  for (int depth = 0; depth <= graph::kMaxCallDepth; ++depth) {
    const std::vector<graph::NodeId> calls = Differentiator(builder, ys, xs).Calls();
    if (calls.empty()) return Status::Ok();
    for (graph::NodeId call : calls) {
      if (builder->graph().node(call).has(TENON_OP_GRADIENT)) {
        TENON_ASSIGN_OR_RETURN(std::unique_ptr<Node> gradient, MakeGradientCall(&builder->graph(), call));
        replaced->push_back(std::move(gradient));
      }
      TENON_ASSIGN_OR_RETURN(std::unique_ptr<Node> old, graph::InlineCall(&builder->graph(), call));
      replaced->push_back(std::move(old));
    }
    builder->Forget();
  }
  return ResourceExhausted(StrCat("calls between the ys and the xs are nested deeper than ", graph::kMaxCallDepth));
}

// The wish, or the wish with a number, that no node's name begins with.
std::string FreeScope(const Graph& graph, const std::string& wish) {
  std::set<std::string, std::less<>> taken;
  for (const graph::NodeId id : graph.ids()) {
    const std::string_view name = graph.node(id).name;
    if (!name.starts_with(wish)) continue;
    if (const size_t end = name.find('/', wish.size()); end != name.npos) taken.emplace(name.substr(0, end));
  }
  std::string scope = wish;
  for (int i = 1; taken.contains(scope); ++i) scope = StrCat(wish, "_", i);
  return scope;
}

}  // namespace

Result<Edge> Densify(Builder* builder, const tenon_gradient& gradient, const std::vector<graph::NodeId>& controls) {
  if (gradient.kind == TENON_GRADIENT_DENSE) return graph::FromC(gradient.dense);
  std::vector<Edge> inputs = {graph::FromC(gradient.dense_shape)};
  for (const int32_t value : {0, 1, 1}) {
    TENON_ASSIGN_OR_RETURN(const Edge edge, ConstantAfter(builder, Shape({1}), value, controls));
    inputs.push_back(edge);
  }
  TENON_ASSIGN_OR_RETURN(const graph::NodeId rows, builder->AddRole("strided_slice", inputs, {{"shrink_axis_mask", AttrValue::Int(1)}}));
  TENON_ASSIGN_OR_RETURN(const graph::NodeId dense, builder->AddRole("unsorted_segment_sum", {graph::FromC(gradient.dense),
                                                                                        graph::FromC(gradient.indices), {rows, 0}}));
  return Edge{dense, 0};
}

Result<std::vector<tenon_gradient>> AddGradients(Builder* builder, const std::vector<Edge>& ys, const std::vector<Edge>& xs,
                                                 const std::vector<Edge>& initial) {
  if (ys.empty() || xs.empty()) return InvalidArgument("gradients need at least one y and one x");
  if (!initial.empty() && initial.size() != ys.size())
    return InvalidArgument(StrCat("there are ", ys.size(), " ys and ", initial.size(), " initial gradients"));
  Graph& graph = builder->graph();
  const size_t size = graph.size();
  const std::string scope = builder->scope();
  const std::vector<graph::NodeId> controls = builder->controls();
  builder->set_scope(FreeScope(graph, scope.empty() ? "gradients" : scope + "/gradients"));
  builder->set_controls({});
  std::vector<std::unique_ptr<Node>> replaced;
  const auto differentiate = [&]() -> Result<std::vector<tenon_gradient>> {
    TENON_RETURN_IF_ERROR(InlineOnTheWay(builder, ys, xs, &replaced));
    return Differentiator(builder, ys, xs).Run(initial);
  };
  auto gradients = differentiate();
  builder->set_scope(scope);
  builder->set_controls(controls);
  if (!gradients.ok()) {
    for (; !replaced.empty(); replaced.pop_back()) {
      // A body's own calls go with it.
      if (replaced.back()->id.index() < size) graph.Restore(std::move(replaced.back()));
    }
    graph.Truncate(size);
  }
  builder->Forget();
  return gradients;
}

}  // namespace tenon::grad
