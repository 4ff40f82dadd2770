// SPDX-License-Identifier: Apache-2.0
// The nodes of replicas: boxes, arrivals, tokens, pulses.
#include "tenon/train/replicas.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sdk/app/train/optimizers/applier.h"

namespace tenon::train {
namespace {

const Attrs& Words() {
  static const Attrs attrs = {{"component_types", std::vector<DType>{DType::kInt64}}};
  return attrs;
}

}  // namespace

ReplicaGraph::ReplicaGraph(Model& model, Output loss, Output learning_rate, const OptimizerOptions& optimizer,
                           const ReplicaOptions& options, int64_t number)
    : model_(model), options_(options), number_(number), loss_(loss) {
  Graph& graph = model.graph();
  if (number < 0 || number >= options.replicas || options.backups < 0 || options.backups >= options.replicas) {
    graph.Fail(Status(Code::kInvalidArgument,
                      "replica " + std::to_string(number) + " of " + std::to_string(options.replicas) + " with " +
                          std::to_string(options.backups) + " backups; at least one must be left"));
    return;
  }
  global_step_ = model.Counter("global_step").handle;
  step_value_ = graph.Op("ReadVariableOp", {global_step_}, {{"dtype", DType::kInt64}});
  std::vector<Operation> initial;
  for (int64_t i = 0; i <= options.replicas; ++i) {  // the last is the chief's
    const Shared pulse = Share("pulse_" + std::to_string(i), DType::kInt64, Shape(), options.device, &initial);
    pulses_.push_back(pulse);
    beats_.push_back(
        graph.AddNode("AssignAddVariableOp", {pulse.handle, graph.Const(int64_t{1})}, {{"dtype", DType::kInt64}}));
  }
  token_ = graph.Placeholder(options.name + "/token", DType::kInt64, {2});
  for (int64_t i = 0; i < options.replicas; ++i) tokens_.push_back(MakeQueue("tokens_" + std::to_string(i), 2));
  {
    const Output own = tokens_[static_cast<size_t>(number)];
    const Output there = graph.Op("Maximum", {graph.Op("QueueSizeV2", {own}), graph.Const(1)});
    newest_ = graph.Op("QueueDequeueManyV2", {own, there}, Words(), options.name + "/newest");
  }
  first_tokens_ = GiveTokens({});
  if (options.synchronous) {
    const std::vector<VariableGradient> gradients = VariableGradients(model, loss);
    const std::vector<const Variable*> variables = model.trainable();
    Boxes boxes(gradients.size());
    for (size_t v = 0; v < gradients.size(); ++v)
      for (int64_t i = 0; i < options.replicas && gradients[v].value.valid(); ++i)
        boxes[v].push_back(MakeBox(*variables[v], gradients[v], i, &initial));
    Deliver(gradients, boxes);
    Apply(boxes, learning_rate, optimizer);
  } else {
    if (optimizer.accumulate != 1)
      graph.Fail(Status(Code::kUnimplemented,
                        "asynchronous replicas do not accumulate gradients: they would share the sums; each applies "
                        "its own at once"));
    update_ = Count(Minimize(model, loss, learning_rate, optimizer));
    auto after = graph.ControlDependencies({update_});
    after_ = graph.Op("ReadVariableOp", {global_step_}, {{"dtype", DType::kInt64}});
  }
  initial.push_back(model.InitializeAll());
  initialize_ = Group(graph, initial, options.name + "/initialize");
}

ReplicaGraph::Shared ReplicaGraph::Share(const std::string& name, DType dtype, const Shape& shape,
                                         const std::string& device, std::vector<Operation>* initial) {
  Graph& graph = model_.graph();
  const auto on = graph.Device(device);
  const std::string full = options_.name + "/" + name;
  Shared shared;
  shared.handle = graph.Op("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", full}}, full);
  const Output zero = graph.Op("Cast", {graph.Const(0)}, {{"DstT", dtype}});
  std::vector<int64_t> dims = shape.dims();
  for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 0);  // what has any number of rows begins with none
  const Output zeros = graph.Op("Fill", {graph.Const(dims, Shape{shape.rank()}), zero});
  initial->push_back(graph.AddNode("AssignVariableOp", {shared.handle, zeros}, {{"dtype", dtype}}));
  shared.value = graph.Op("ReadVariableOp", {shared.handle}, {{"dtype", dtype}});
  return shared;
}

Output ReplicaGraph::MakeQueue(const std::string& name, int64_t words) {
  const auto on = model_.graph().Device(options_.device);
  const std::string full = options_.name + "/" + name;
  return model_.graph().Op("FIFOQueueV2", {},
                           {{"component_types", std::vector<DType>{DType::kInt64}},
                            {"shapes", std::vector<Shape>{Shape{words}}},
                            {"shared_name", full}},
                           full);
}

Operation ReplicaGraph::Count(const Operation& after) {
  Graph& graph = model_.graph();
  const auto then = graph.ControlDependencies({after});
  return graph.AddNode("AssignAddVariableOp", {global_step_, graph.Const(int64_t{1})}, {{"dtype", DType::kInt64}},
                       "count_step");
}

Operation ReplicaGraph::GiveTokens(const std::vector<Operation>& after) {
  Graph& graph = model_.graph();
  const auto then = graph.ControlDependencies(after);
  std::vector<Operation> given;
  for (const Output& queue : tokens_) given.push_back(graph.AddNode("QueueEnqueueV2", {queue, token_}));
  return Group(graph, given, options_.name + "/tokens_given");
}

ReplicaGraph::Box ReplicaGraph::MakeBox(const Variable& variable, const VariableGradient& gradient, int64_t replica,
                                        std::vector<Operation>* initial) {
  const std::string name = variable.name + "/box_" + std::to_string(replica);
  if (!gradient.rows.valid())
    return {Share(name, variable.dtype, variable.shape, variable.device, initial), std::nullopt};
  std::vector<int64_t> dims = variable.shape.dims();
  dims[0] = -1;
  return {Share(name, variable.dtype, Shape(std::move(dims)), variable.device, initial),
          Share(name + "/rows", gradient.rows.dtype(), Shape{-1}, variable.device, initial)};
}

// A replica's step: its gradients into its boxes, and then the message that they are there.
void ReplicaGraph::Deliver(const std::vector<VariableGradient>& gradients, const Boxes& boxes) {
  Graph& graph = model_.graph();
  std::vector<Operation> delivered;
  const auto put = [&](const Shared& box, const Output& value) {
    delivered.push_back(graph.AddNode("AssignVariableOp", {box.handle, value}, {{"dtype", value.dtype()}}));
  };
  for (size_t v = 0; v < gradients.size(); ++v) {
    if (boxes[v].empty()) continue;
    const Box& own = boxes[v][static_cast<size_t>(number_)];
    put(own.value, gradients[v].value);
    if (own.rows) put(*own.rows, gradients[v].rows);
  }
  message_ = graph.Placeholder(options_.name + "/message", DType::kInt64, {3});
  const Output arrivals = MakeQueue("arrivals", 3);
  arrival_ = graph.Op("QueueDequeueV2", {arrivals}, Words(), options_.name + "/arrival");
  const auto after = graph.ControlDependencies(delivered);
  update_ = graph.AddNode("QueueEnqueueV2", {arrivals, message_}, {}, options_.name + "/deliver");
}

// The chief's step: the mean of the boxes that count, once, and then the tokens.
void ReplicaGraph::Apply(const Boxes& boxes, Output learning_rate, const OptimizerOptions& optimizer) {
  Graph& graph = model_.graph();
  share_ = graph.Placeholder(options_.name + "/share", DType::kFloat, Shape());
  for (int64_t i = 0; i < options_.replicas; ++i)
    uses_.push_back(graph.Placeholder(options_.name + "/use_" + std::to_string(i), DType::kBool, Shape()));
  const std::vector<const Variable*> variables = model_.trainable();
  std::vector<VariableGradient> means(boxes.size());
  for (size_t v = 0; v < boxes.size(); ++v) {
    if (boxes[v].empty()) continue;
    const auto on = graph.Device(variables[v]->device);
    means[v] = MeanOf(boxes[v]);
  }
  applied_ = GiveTokens({Count(ApplyGradients(model_, means, learning_rate, optimizer))});
}

// What does not count adds zeros, or no rows, whatever is in the box.
VariableGradient ReplicaGraph::MeanOf(const std::vector<Box>& boxes) {
  Graph& graph = model_.graph();
  std::vector<Output> values, rows;
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Output value = boxes[i].value.value;
    if (!boxes[i].rows) {
      values.push_back(graph.Op("Select", {uses_[i], value, graph.Op("ZerosLike", {value})}));
      continue;
    }
    const Output count = graph.Op("Select", {uses_[i], graph.Op("Size", {boxes[i].rows->value}), graph.Const(0)});
    const auto first = [&](const Output& of, int32_t rank) {
      std::vector<Output> size = {graph.Op("Reshape", {count, graph.Const({1})})};
      if (rank > 1) size.push_back(graph.Const(std::vector<int32_t>(static_cast<size_t>(rank) - 1, -1), {rank - 1}));
      return graph.Op("Slice", {of, graph.Const(std::vector<int32_t>(static_cast<size_t>(rank), 0), {rank}),
                                JoinRows(graph, size)});
    };
    values.push_back(first(value, value.shape().rank()));
    rows.push_back(first(boxes[i].rows->value, 1));
  }
  if (rows.empty()) return {graph.Op("Mul", {graph.Op("AddN", values), share_}), Output()};
  return {graph.Op("Mul", {JoinRows(graph, values), share_}), JoinRows(graph, rows)};
}

}  // namespace tenon::train
