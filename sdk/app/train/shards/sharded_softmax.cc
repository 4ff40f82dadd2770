// SPDX-License-Identifier: Apache-2.0
// The loss is a function whose gradient is one too, so that the nodes of both have the devices that are said here:
// nodes that a gradient makes by itself stand wherever a step is the shortest, which may be away from the weights.
#include "tenon/train/sharded_softmax.h"

#include <string>

#include "sdk/app/train/function_name.h"
#include "sdk/app/train/shards/row_shards.h"

namespace tenon::train {
namespace {

using Outputs = std::vector<Output>;
constexpr const char* kWhat = "ShardedSoftmaxLoss";

Output SumOf(Graph& graph, const Outputs& parts) { return parts.size() == 1 ? parts[0] : graph.Op("AddN", parts); }
Output Column(Graph& graph, const Output& x) { return graph.Op("ExpandDims", {x, graph.Const(1)}); }

// The bodies. Their arguments are the inputs, the labels, the shards' weights and the shards' biases; the gradient's,
// the losses' gradient besides.
class Softmax {
 public:
  explicit Softmax(const ClassShards& classes) : classes_(classes) {}

  Outputs Loss(Graph& body, const Outputs& v) const {
    const Forward forward = Compute(body, v);
    Outputs chosen;
    for (size_t i = 0; i < count(); ++i) {
      const auto on = body.Device(device(i));
      const Output of_label = body.Op("SelectV2", {forward.is_label[i], forward.logits[i], body.Const(0.0f)});
      chosen.push_back(body.Op("Sum", {of_label, body.Const({1})}, {}, "of_labels"));
    }
    const Output log = body.Op("Log", {forward.sum});
    return {body.Op("Sub", {body.Op("AddV2", {forward.most, log}), SumOf(body, chosen)}, {}, "loss")};
  }

  // What of the loss is in it again is computed once: equal nodes are merged before a step.
  Outputs Gradient(Graph& body, const Outputs& v) const {
    const Forward forward = Compute(body, v);
    const Output dy = v.back(), share = Column(body, body.Op("RealDiv", {dy, forward.sum})),
                 of_label = Column(body, dy);
    Outputs of_inputs, of_weights, of_biases;
    for (size_t i = 0; i < count(); ++i) {
      const auto on = body.Device(device(i));
      const Output softmax = body.Op("Mul", {forward.exponentials[i], share});
      const Output d = body.Op("Sub", {softmax, body.Op("SelectV2", {forward.is_label[i], of_label, body.Const(0.0f)})},
                               {}, "of_logits");
      of_inputs.push_back(body.Op("MatMul", {d, Weights(v, i)}, {}, "of_inputs"));
      of_weights.push_back(body.Op("MatMul", {d, v[0]}, {{"transpose_a", true}}, "of_weights"));
      of_biases.push_back(body.Op("Sum", {d, body.Const({0})}, {}, "of_biases"));
    }
    Outputs all{SumOf(body, of_inputs), body.Op("ZerosLike", {v[1]})};
    all.insert(all.end(), of_weights.begin(), of_weights.end());
    all.insert(all.end(), of_biases.begin(), of_biases.end());
    return all;
  }

 private:
  struct Forward {
    Outputs logits, exponentials, is_label;  // of each shard: [batch, classes of the shard], beside its weights
    Output most, sum;                        // [batch]
  };

  size_t count() const { return classes_.weights.size(); }
  const std::string& device(size_t shard) const { return classes_.weights[shard]->device; }
  const Output& Weights(const Outputs& v, size_t shard) const { return v[2 + shard]; }

  // By ops that accelerators have, for what they have not would bring the logits elsewhere.
  Forward Compute(Graph& body, const Outputs& v) const {
    Forward found;
    for (size_t i = 0; i < count(); ++i) {
      const auto on = body.Device(device(i));
      const Output products = body.Op("MatMul", {v[0], Weights(v, i)}, {{"transpose_b", true}}, "products");
      found.logits.push_back(body.Op("BiasAdd", {products, v[2 + count() + i]}, {}, "logits"));
      const Output largest = body.Op("Max", {found.logits[i], body.Const({1})}, {}, "largest");
      const auto here = body.Device("");
      found.most = i == 0 ? largest : body.Op("Maximum", {found.most, largest});
    }
    Outputs sums;
    const Output most = Column(body, found.most);
    for (size_t i = 0; i < count(); ++i) {
      const Output row = RowOf(body, v[1], i);
      const auto on = body.Device(device(i));
      found.exponentials.push_back(body.Op("Exp", {body.Op("Sub", {found.logits[i], most})}));
      sums.push_back(body.Op("Sum", {found.exponentials[i], body.Const({1})}, {}, "sum_of_exponentials"));
      const Output rows = body.Const(static_cast<int32_t>(classes_.weights[i]->shape[0]));
      found.is_label.push_back(body.Op("OneHot", {row, rows, body.Const(true), body.Const(false)}));
    }
    found.sum = SumOf(body, sums);
    return found;
  }
  // Of the labels in the shard; out of its range where a label is another's.
  Output RowOf(Graph& body, const Output& labels, size_t shard) const {
    const ShardIds ids =
        IdsOfShard(classes_.partition, classes_.classes(), static_cast<int64_t>(count()), static_cast<int64_t>(shard));
    const Output from = body.Op("Sub", {labels, body.Const(ids.first)}), step = body.Const(ids.step);
    if (ids.step == 1) return from;
    const Output row = body.Op("FloorDiv", {from, step}),
                 is_here = body.Op("Equal", {body.Op("Mul", {row, step}), from});
    return body.Op("SelectV2", {is_here, row, body.Const(int64_t{-1})});
  }

  const ClassShards& classes_;
};

bool CheckShapes(Graph& graph, const ClassShards& classes, const Output& inputs, const Output& labels) {
  const Shape x = inputs.shape(), y = labels.shape();
  const bool fits = (!x.has_rank() || (x.rank() == 2 && (x[1] < 0 || x[1] == classes.width()))) &&
                    (!y.has_rank() || y.rank() == 1) &&
                    (x.rank() != 2 || y.rank() != 1 || x[0] < 0 || y[0] < 0 || x[0] == y[0]);
  if (!fits)
    graph.Fail(Status(Code::kInvalidArgument, std::string(kWhat) + ": inputs are " + x.ToString() + " and labels " +
                                                  y.ToString() + "; they are [batch, " +
                                                  std::to_string(classes.width()) + "] and [batch]"));
  return fits;
}

}  // namespace

Output ShardedSoftmaxLoss(Graph& graph, const ClassShards& classes, const Output& inputs, const Output& labels) {
  const auto scope = graph.Scope("sharded_softmax");
  if (!CheckShards(graph, classes, kWhat) || !CheckShapes(graph, classes, inputs, labels)) return Output();
  Outputs values{inputs, CheckedLabels(graph, labels, classes.classes(), kWhat)};
  for (const Variable* weights : classes.weights) values.push_back(weights->value);
  for (const Variable* biases : classes.biases) values.push_back(biases->value);
  std::vector<host::Argument> arguments;
  for (const Output& value : values) arguments.emplace_back(value.dtype(), value.shape());
  const Softmax softmax(classes);
  const std::string name = FreeFunctionName(graph, "sharded_softmax");
  std::vector<host::Argument> of_gradient = arguments;
  of_gradient.emplace_back(DType::kFloat, labels.shape());
  host::FunctionOptions options;
  options.gradient = FreeFunctionName(graph, name + "_gradient");
  host::Define(
      graph, options.gradient, [&](Graph& body, const Outputs& v) { return softmax.Gradient(body, v); }, of_gradient);
  const host::Function loss = host::Define(
      graph, name, [&](Graph& body, const Outputs& v) { return softmax.Loss(body, v); }, arguments, options);
  return graph.Call(loss, values);
}

}  // namespace tenon::train
