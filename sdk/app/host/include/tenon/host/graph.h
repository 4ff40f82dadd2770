// SPDX-License-Identifier: Apache-2.0
// Graphs: nodes, edges, scopes, control dependencies and gradients.
//
// A graph grows by Op() and AddNode(). Attributes that the inputs determine may be left out, and defaults are filled
// in. The first failure sticks: status() keeps it, and every later node is skipped and gives an invalid Output. So a
// model is written without a check on each line, and one check before it is run (Session does it).
//
//   auto scope = graph.Scope("layer1");                          // names below get "layer1/"
//   Output y = graph.Op("Relu", {graph.Op("BiasAdd", {graph.Op("MatMul", {x, w}), b})});
//   std::vector<Gradient> d = graph.Gradients({loss}, {w, b});
//   auto after = graph.ControlDependencies({assign});            // nodes below wait for `assign`
//
// Scopes, control dependencies and devices are guards: they end with their block, in the reverse order of their making.
// Threads: one at a time per graph, its Outputs and Operations included, which ask it. The runtime outlives its graphs.
#ifndef TENON_HOST_GRAPH_H_
#define TENON_HOST_GRAPH_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/host/attr.h"
#include "tenon/host/dtype.h"
#include "tenon/host/runtime.h"
#include "tenon/host/status.h"
#include "tenon/host/tensor.h"
#include "tenon/op.h"

namespace tenon::host {

class Operation;

// One end of an edge: output `index` of a node. Valid as long as its graph.
class Output {
 public:
  Output() = default;  // no edge
  Output(tenon_app_graph* graph, int64_t node, int32_t index) : graph_(graph), edge_{node, index, 0} {}
  Output(const Operation& operation);  // NOLINT: its first output

  bool valid() const { return graph_ != nullptr && edge_.node >= 0; }
  int64_t node() const { return edge_.node; }
  int32_t index() const { return edge_.index; }
  tenon_output c_output() const { return edge_; }
  tenon_app_graph* graph() const { return graph_; }
  DType dtype() const {
    return valid() ? static_cast<DType>(tenon_graph_output_dtype(graph_, edge_)) : DType::kInvalid;
  }
  // What is known of the shape before a step runs; Unknown() also of an invalid output.
  Shape shape() const {
    tenon_shape shape = {};
    if (!valid() || !Status::Take(tenon_graph_output_shape(graph_, edge_, &shape)).ok()) return Shape::Unknown();
    return Shape::From(shape);
  }
  // "node:1", or "node" for output 0; empty when invalid.
  std::string name() const {
    if (!valid()) return {};
    std::string name(Text(tenon_graph_node_name(graph_, edge_.node)));
    return edge_.index == 0 ? name : name + ":" + std::to_string(edge_.index);
  }

 private:
  tenon_app_graph* graph_ = nullptr;
  tenon_output edge_ = {-1, 0, 0};
};

// A node. Valid as long as its graph. An invalid one, which a failed graph gives, answers with empty texts and 0.
class Operation {
 public:
  Operation() = default;
  Operation(tenon_app_graph* graph, int64_t node) : graph_(graph), node_(node) {}
  Operation(const Output& output) : Operation(output.graph(), output.node()) {}  // NOLINT: the node that makes it

  bool valid() const { return graph_ != nullptr && node_ >= 0; }
  int64_t node() const { return node_; }
  tenon_app_graph* graph() const { return graph_; }
  std::string name() const { return valid() ? std::string(Text(tenon_graph_node_name(graph_, node_))) : std::string(); }
  std::string op() const { return valid() ? std::string(Text(tenon_graph_node_op(graph_, node_))) : std::string(); }
  // Of data; control dependencies are not counted.
  int32_t output_count() const { return valid() ? tenon_graph_node_output_count(graph_, node_) : 0; }
  int32_t input_count() const { return valid() ? tenon_graph_node_input_count(graph_, node_) : 0; }
  // Unchecked: whoever uses an output that there is not gets the error.
  Output output(int32_t index) const { return Output(graph_, node_, index); }
  std::vector<Output> outputs() const {
    std::vector<Output> all;
    for (int32_t i = 0; i < output_count(); ++i) all.push_back(output(i));
    return all;
  }
  // The nodes it waits for beyond those whose outputs it takes.
  std::vector<Operation> control_inputs() const {
    std::vector<int64_t> nodes(valid() ? tenon_graph_node_control_inputs(graph_, node_, nullptr, 0) : 0);
    if (!nodes.empty()) tenon_graph_node_control_inputs(graph_, node_, nodes.data(), nodes.size());
    std::vector<Operation> all;
    for (const int64_t node : nodes) all.emplace_back(graph_, node);
    return all;
  }

 private:
  tenon_app_graph* graph_ = nullptr;
  int64_t node_ = -1;
};

inline Output::Output(const Operation& operation) : Output(operation.graph(), operation.node(), 0) {}

// What Gradients() found for one x.
struct Gradient {
  enum class Kind : uint32_t {
    kNone = TENON_GRADIENT_NONE,      // y does not depend on x
    kDense = TENON_GRADIENT_DENSE,    // `dense` has x's shape
    // Rows `indices` (a vector) of a tensor of shape `dense_shape` (a vector) get the rows of `dense`; a row that
    // stands twice, their sum.
    kSlices = TENON_GRADIENT_SLICES,
  };
  Kind kind = Kind::kNone;
  Output dense;
  Output indices;
  Output dense_shape;
};

namespace internal {

// What a Graph and its guards share; on the heap, so that a graph can move while guards live.
struct GraphState {
  GraphState() = default;
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;
  ~GraphState() {
    if (owned) tenon_graph_release(graph);
  }

  std::string Path() const {
    std::string path;
    for (const std::string& scope : scopes) path += (path.empty() ? "" : "/") + scope;
    return path;
  }
  void ApplyScope() const { tenon_graph_set_scope(graph, Span(Path())); }
  void ApplyDevice() const {
    tenon_graph_set_device(graph, Span(devices.empty() ? std::string_view() : std::string_view(devices.back())));
  }
  // What nodes of an op ask for, of the innermost guard; empty: nothing.
  std::string_view GradientFor(std::string_view op) const {
    for (auto at = gradients.rbegin(); at != gradients.rend(); ++at)
      if (at->first == op) return at->second;
    return {};
  }
  void ApplyControlInputs() {
    std::vector<int64_t> nodes;
    for (const Level& level : control_inputs) {
      if (level.replaces) nodes.clear();
      nodes.insert(nodes.end(), level.nodes.begin(), level.nodes.end());
    }
    Status set = Status::Take(tenon_graph_set_control_inputs(graph, nodes.data(), nodes.size()));
    if (status.ok()) status = std::move(set);
  }

  tenon_app_graph* graph = nullptr;
  bool owned = true;
  Status status;
  std::vector<std::string> scopes;
  struct Level {
    std::vector<int64_t> nodes;
    bool replaces = false;  // the levels before it
  };
  std::vector<Level> control_inputs;
  std::vector<std::string> devices;
  std::vector<std::pair<std::string, std::string>> gradients;  // an op, and what its nodes ask for
};

}  // namespace internal

// Moves, and is not copied. Guards keep to the graph that it was moved to.
class Graph {
 public:
  explicit Graph(const Runtime& runtime) : state_(std::make_unique<internal::GraphState>()) {
    Check(tenon_graph_create(runtime.get(), &state_->graph));
  }
  // The nodes of a serialized GraphDef; functions of its library too.
  static Result<Graph> Import(const Runtime& runtime, std::string_view graph_def) {
    Graph graph(runtime);
    TENON_TRY(graph.ImportMore(graph_def));
    return graph;
  }

  // One that was made through C, and stays its owner's, who outlives this. Begins in the scope and with the control
  // inputs that it has, and leaves it with them.
  static Graph Borrow(tenon_app_graph* graph) {
    auto state = std::make_unique<internal::GraphState>();
    state->graph = graph;
    state->owned = false;
    if (const std::string_view scope = Text(tenon_graph_get_scope(graph)); !scope.empty())
      state->scopes.emplace_back(scope);
    std::vector<int64_t> nodes(tenon_graph_get_control_inputs(graph, nullptr, 0));
    tenon_graph_get_control_inputs(graph, nodes.data(), nodes.size());
    if (!nodes.empty()) state->control_inputs.push_back({std::move(nodes), false});
    return Graph(std::move(state));
  }

  // An empty graph for the body of a function of this one (host/function.h). It knows this one's functions, and nodes
  // in it have the gradients that OverrideGradient says here; this one stays as it is while the body is built, and
  // longer than it.
  Graph Body() const {
    Graph body(std::make_unique<internal::GraphState>());
    if (state_->status.ok()) body.Check(tenon_graph_create_body(get(), &body.state_->graph));
    body.state_->gradients = state_->gradients;
    body.Fail(state_->status);
    return body;
  }

  tenon_app_graph* get() const { return state_->graph; }
  // The first failure, or success.
  const Status& status() const { return state_->status; }
  // Records a failure of the caller's own; the first one stays.
  void Fail(Status status) {
    if (state_->status.ok()) state_->status = std::move(status);
  }
  // The first failure, or success, which the graph then forgets: what failed added nothing, so that it can go on. For
  // callers who look after each call.
  Status TakeStatus() { return std::exchange(state_->status, Status()); }

  // Adds them under their own names, whatever scopes are open. Nothing is added when one of them is wrong, and the
  // graph stays usable.
  Status ImportMore(std::string_view graph_def) {
    TENON_TRY(status());
    return Status::Take(tenon_graph_import(get(), Span(graph_def)));
  }
  // A serialized GraphDef.
  Result<std::string> Export() const {
    TENON_TRY(status());
    tenon_text* text = nullptr;
    TENON_TRY(Status::Take(tenon_graph_export(get(), &text)));
    std::string bytes(Text(tenon_text_span(text)));
    tenon_text_release(text);
    return bytes;
  }

  // Adds a node. An empty name becomes the op's; names are made unique ("MatMul_1"), below the open scopes. Inputs
  // stand in the order of the op's arguments, those of list arguments one after the other. A failure (an unknown op, a
  // type or shape that does not fit, an output of another graph) adds nothing, and stands in status().
  Operation AddNode(std::string_view op, const std::vector<Output>& inputs, const Attrs& attrs = {},
                    std::string_view name = {}) {
    if (!state_->status.ok()) return Operation();
    std::vector<tenon_output> c_inputs;
    for (const Output& input : inputs) {
      if (!input.valid() || input.graph() != get()) return Refuse(op, name, c_inputs.size(), input);
      c_inputs.push_back(input.c_output());
    }
    std::vector<tenon_attr> c_attrs;
    for (const Attr& attr : attrs) c_attrs.push_back(attr.Get());
    const Attr gradient("_gradient_op_type", std::string(state_->GradientFor(op)));
    if (!state_->GradientFor(op).empty()) c_attrs.push_back(gradient.Get());
    tenon_node_spec spec = {};
    spec.struct_size = sizeof(spec);
    spec.op = Span(op);
    spec.name = Span(name);
    spec.inputs = c_inputs.data();
    spec.input_count = c_inputs.size();
    spec.attrs = c_attrs.data();
    spec.attr_count = c_attrs.size();
    int64_t node = -1;
    Check(tenon_graph_add_node(get(), &spec, Span(""), &node));
    return status().ok() ? Operation(get(), node) : Operation();
  }
  // The same; its first output.
  Output Op(std::string_view op, const std::vector<Output>& inputs, const Attrs& attrs = {},
            std::string_view name = {}) {
    return AddNode(op, inputs, attrs, name);
  }

  // Calls a function of the graph (host/function.h); its outputs are the function's.
  Operation Call(const Function& function, const std::vector<Output>& inputs, std::string_view name = {}) {
    return AddNode(function.name, inputs, {}, name);
  }

  // Makes a function of the graph the gradient of an op, or of what asks for it: of nodes under OverrideGradient, or
  // with an attribute "_gradient_op_type" of that name. It takes the node's inputs, then a gradient of each output, and
  // gives one of each input.
  void RegisterGradient(std::string_view op_type, const Function& function) {
    if (state_->status.ok()) Check(tenon_graph_register_gradient(get(), Span(op_type), Span(function.name)));
  }

  // Replaces input `index`. Closes a loop: a Merge is made before the NextIteration that it reads.
  void SetInput(const Operation& operation, int32_t index, const Output& source) {
    if (state_->status.ok()) Check(tenon_graph_set_input(get(), operation.node(), index, source.c_output()));
  }

  // A value that every step has to be fed, of this type and a shape that fits.
  Output Placeholder(std::string_view name, DType dtype, const Shape& shape = Shape::Unknown()) {
    return Op("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}, name);
  }
  // Constants: a number, a list of numbers (a vector), elements with a shape, a tensor, a string. The elements are
  // copied into the graph.
  Output Const(const View& value, std::string_view name = "Const") {
    if (!state_->status.ok()) return Output();
    const tenon_tensor_view view = value.c_view();
    tenon_output output = {-1, 0, 0};
    Check(tenon_graph_add_constant(get(), Span(name), &view, &output));
    return status().ok() ? Output(get(), output.node, output.index) : Output();
  }
  template <Element T>
  Output Const(T value, std::string_view name = "Const") {
    return Const(View(std::span<const T>(&value, 1), Shape()), name);
  }
  template <Element T>
  Output Const(std::initializer_list<T> values, std::string_view name = "Const") {
    return Const(View(std::span<const T>(values.begin(), values.size()), Shape{static_cast<int64_t>(values.size())}),
                 name);
  }
  template <Element T>
  Output Const(const std::vector<T>& values, const Shape& shape, std::string_view name = "Const") {
    return Const(View(values, shape), name);
  }
  Output StringConst(std::string_view value, std::string_view name = "Const") {
    return ConstOf(Tensor::String(value), name);
  }
  Output StringConst(const std::vector<std::string>& values, std::string_view name = "Const") {
    return ConstOf(Tensor::Strings(values, Shape{static_cast<int64_t>(values.size())}), name);
  }

  // d(sum of ys)/d(xs), one entry an x, in their order; nodes that compute them are added below "gradients/". initial:
  // what the ys' gradients are, one a y and of its shape, or empty for ones. With a failure in status(), such as an op
  // on the way without a gradient, all are kNone and no node is added.
  std::vector<Gradient> Gradients(const std::vector<Output>& ys, const std::vector<Output>& xs,
                                  const std::vector<Output>& initial = {}) {
    std::vector<Gradient> gradients(xs.size());
    if (!state_->status.ok()) return gradients;
    if (!initial.empty() && initial.size() != ys.size()) {
      Fail(Status(Code::kInvalidArgument, "Gradients: " + std::to_string(initial.size()) + " initial gradients for " +
                                              std::to_string(ys.size()) + " ys"));
      return gradients;
    }
    std::vector<tenon_output> c_ys = Lower(ys);
    std::vector<tenon_output> c_xs = Lower(xs);
    std::vector<tenon_output> c_initial = Lower(initial);
    std::vector<tenon_gradient> c_gradients(xs.size());
    Check(tenon_graph_add_gradients(get(), c_ys.data(), c_ys.size(), c_xs.data(), c_xs.size(),
                                    c_initial.empty() ? nullptr : c_initial.data(), c_gradients.data()));
    if (!status().ok()) return gradients;
    for (size_t i = 0; i < xs.size(); ++i) gradients[i] = Lift(c_gradients[i]);
    return gradients;
  }

  // By the whole name, scopes included. NOT_FOUND names near misses; status() stays.
  Result<Operation> Find(std::string_view name) const {
    int64_t node = -1;
    TENON_TRY(Status::Take(tenon_graph_find(get(), Span(name), &node)));
    return Operation(get(), node);
  }
  int64_t node_count() const { return tenon_graph_node_count(get()); }

  // Ends what it began when it is destroyed, which must be before the graph is.
  class [[nodiscard]] Guard {
   public:
    Guard(internal::GraphState* state, void (*end)(internal::GraphState&)) : state_(state), end_(end) {}
    Guard(Guard&& other) noexcept : state_(std::exchange(other.state_, nullptr)), end_(other.end_) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard() {
      if (state_ != nullptr) end_(*state_);
    }

   private:
    internal::GraphState* state_;
    void (*end_)(internal::GraphState&);
  };

  // Names below get "name/" in front, inside the scopes around.
  Guard Scope(std::string_view name) {
    if (!status().ok()) return Guard(nullptr, nullptr);
    state_->scopes.emplace_back(name);
    state_->ApplyScope();
    return Guard(state_.get(), [](State& state) {
      state.scopes.pop_back();
      state.ApplyScope();
    });
  }
  // For a loop that is built in the scope that is open now: no other loop of the graph has it, though one were built in
  // a scope of the same name.
  std::string FrameName() const {
    const std::string scope = state_->Path();
    return Find(scope + "/Enter").ok() ? scope + "_" + std::to_string(node_count()) : scope;
  }
  // Nodes below wait for these nodes, and for those of the guards around.
  Guard ControlDependencies(const std::vector<Operation>& operations) {
    return PushControlInputs(operations, false);
  }
  // Nodes below wait for these nodes alone: a loop's parts may not wait for what is outside it.
  Guard OnlyControlDependencies(const std::vector<Operation>& operations) {
    return PushControlInputs(operations, true);
  }
  // Nodes below ask for this device, whole or in part ("GPU:0", "/job:ps/task:1"), whatever guards around say; "" asks
  // for none.
  Guard Device(std::string_view device) {
    if (!status().ok()) return Guard(nullptr, nullptr);
    state_->devices.emplace_back(device);
    state_->ApplyDevice();
    return Guard(state_.get(), [](State& state) {
      state.devices.pop_back();
      state.ApplyDevice();
    });
  }
  // The gradient of nodes of the op below is the function that is registered for `gradient` (RegisterGradient).
  Guard OverrideGradient(std::string_view op, std::string_view gradient) {
    state_->gradients.emplace_back(op, gradient);
    return Guard(state_.get(), [](State& state) { state.gradients.pop_back(); });
  }

 private:
  using State = internal::GraphState;
  explicit Graph(std::unique_ptr<State> state) : state_(std::move(state)) {}

  Guard PushControlInputs(const std::vector<Operation>& operations, bool replaces) {
    if (!status().ok()) return Guard(nullptr, nullptr);
    State::Level& level = state_->control_inputs.emplace_back();
    level.replaces = replaces;
    for (const Operation& operation : operations) level.nodes.push_back(operation.node());
    state_->ApplyControlInputs();
    return Guard(state_.get(), [](State& state) {
      state.control_inputs.pop_back();
      state.ApplyControlInputs();
    });
  }
  void Check(tenon_status* status) { Fail(Status::Take(status)); }
  Output ConstOf(const Result<Tensor>& tensor, std::string_view name) {
    if (!tensor.ok()) Fail(tensor.status());
    return tensor.ok() ? Const(View(*tensor), name) : Output();
  }
  Operation Refuse(std::string_view op, std::string_view name, size_t index, const Output& input) {
    std::string text = "node '" + std::string(name.empty() ? op : name) + "' (" + std::string(op) + "): input " +
                       std::to_string(index);
    text += input.valid() ? " is '" + input.name() +
                                "', which belongs to another graph; a function's body gets such a value as an argument"
                          : " is no output of a node";
    Fail(Status(Code::kInvalidArgument, std::move(text)));
    return Operation();
  }
  Output Lift(tenon_output output) const {
    return output.node < 0 ? Output() : Output(get(), output.node, output.index);
  }
  Gradient Lift(const tenon_gradient& gradient) const {
    const auto kind = static_cast<Gradient::Kind>(gradient.kind);
    if (kind == Gradient::Kind::kDense) return {kind, Lift(gradient.dense), Output(), Output()};
    if (kind == Gradient::Kind::kSlices) {
      return {kind, Lift(gradient.dense), Lift(gradient.indices), Lift(gradient.dense_shape)};
    }
    return {};
  }
  static std::vector<tenon_output> Lower(const std::vector<Output>& outputs) {
    std::vector<tenon_output> lowered;
    for (const Output& output : outputs) lowered.push_back(output.c_output());
    return lowered;
  }

  std::unique_ptr<State> state_;
};

}  // namespace tenon::host

#endif  // TENON_HOST_GRAPH_H_
