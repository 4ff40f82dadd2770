// SPDX-License-Identifier: Apache-2.0
// Shape inference: runs the ops' C shape functions over a graph, with unknown dims, constant values and handles.
//
// Constraints of the op definitions are checked here, as soon as their terms are known. Merges of loops are inferred
// from the values that enter; when a turn changes a shape, the changed dims become unknown and the loop is inferred
// again.
#ifndef TENON_CORE_GRAPH_SHAPE_INFERENCE_H_
#define TENON_CORE_GRAPH_SHAPE_INFERENCE_H_

#include <functional>
#include <map>
#include <vector>

#include "core/base/status.h"
#include "core/graph/edge.h"
#include "core/tensor/tensor.h"

namespace tenon::graph {

// What is known of one output.
struct OutputFacts {
  Shape shape = Shape::Unknown();
  Tensor value;  // when known and small
  Tensor constant;  // a constant's, however large: kernels prepare with it, but nothing is inferred or computed from it
  Shape handle_shape = Shape::Unknown();  // of a resource or reference
  DType handle_type = TENON_DT_INVALID;
};

// Values larger than this are not tracked, but for a constant's own.
inline constexpr uint64_t kMaxTrackedBytes = 4096;

class ShapeInference {
 public:
  // Evaluates a pure node on known values; gives one tensor an output, or an empty vector when it cannot.
  using Evaluator = std::function<Result<std::vector<Tensor>>(const Node& node, const std::vector<Tensor>& inputs,
                                                              const std::vector<OutputFacts>& outputs)>;

  explicit ShapeInference(const Graph* graph) : graph_(graph) {}

  void set_evaluator(Evaluator evaluator) { evaluator_ = std::move(evaluator); }
  // Facts that do not come from a shape function: a feed's.
  void Fix(Edge edge, OutputFacts facts);

  // Infers the nodes of `order` (topological); all nodes of the graph when it is empty. May be called again after the
  // graph grew: nodes that are known are skipped. The first error; what the node that has it gives is unknown, and the
  // others are inferred.
  Status Run(const std::vector<NodeId>& order = {});

  const OutputFacts& facts(Edge edge) const;
  // Whether the node's shape function looked at values (then its result depends on more than shapes).
  bool used_values(NodeId node) const { return results_[node].used_values; }
  // Nodes evaluated by the evaluator.
  int64_t evaluated() const { return evaluated_; }

  // One node, given its inputs' facts; for execution, when shapes are known only then.
  static Status InferNode(const Node& node, const std::vector<const OutputFacts*>& inputs,
                          std::vector<OutputFacts>* outputs, bool* used_values);

 private:
  struct NodeResult {
    bool done = false;
    bool used_values = false;
    std::vector<OutputFacts> outputs;
    std::vector<bool> fixed;
  };
  Status InferOne(NodeId id);
  Status Evaluate(const Node& node, const std::vector<const OutputFacts*>& inputs, NodeResult& result);
  // Relaxes merges whose back edge brought another shape; true when one changed.
  bool RelaxMerges(const std::vector<NodeId>& order);

  const Graph* graph_;
  Evaluator evaluator_;
  NodeMap<NodeResult> results_;
  std::map<NodeId, Shape> merge_shapes_;
  int64_t evaluated_ = 0;
};

// The largest shape that both are of: differing dims become unknown.
Shape Widen(const Shape& a, const Shape& b);
// Facts of a constant's tensor.
OutputFacts FactsOf(const Tensor& tensor);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_SHAPE_INFERENCE_H_
