// SPDX-License-Identifier: Apache-2.0
// Shape inference: runs the ops' C shape functions over a graph, with unknown dims, constant values and handles.
//
// Constraints of the op definitions are checked here, as soon as their terms are known. Merges of loops are inferred
// from the values that enter; when a turn changes a shape, the changed dims become unknown and the loop is inferred
// again.
//
// Unknown dims have names (dim_names.h), by which two are known to be one size in every step. Shape functions carry
// them that say that they know names; what others give, what a step is fed, what comes round in a loop, and what a
// reference or a resource leads to, each has names of its own or none.
#ifndef TENON_CORE_GRAPH_SHAPE_INFERENCE_H_
#define TENON_CORE_GRAPH_SHAPE_INFERENCE_H_

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "core/base/status.h"
#include "core/graph/dim_names.h"
#include "core/graph/edge.h"
#include "core/tensor/allowance.h"
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

// What is known beyond numbers; of unknown rank where nothing is.
struct NamedFacts {
  Shape shape = Shape::Unknown();     // where not all of it is known: with names
  Shape elements = Shape::Unknown();  // of whole numbers in a scalar or vector: those that are sizes; -1: others
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
  // Edges that a step is given values for: no name that an op carries there, and no value, is theirs.
  void SetFed(const std::vector<Edge>& edges) { fed_.insert(edges.begin(), edges.end()); }

  // Infers the nodes of `order` (topological); all nodes of the graph when it is empty. May be called again after the
  // graph grew: nodes that are known are skipped. The first error; what the node that has it gives is unknown, and the
  // others are inferred.
  Status Run(const std::vector<NodeId>& order = {});

  const OutputFacts& facts(Edge edge) const;
  // Its shape with names for unknown dims.
  const Shape& named_shape(Edge edge) const;
  // NamedFacts::elements.
  const Shape& elements(Edge edge) const;
  const DimNames& names() const { return names_; }

  // What a shape function is given of names, and where it says some; nullptr: there are none.
  struct Naming {
    const ShapeInference* known = nullptr;
    DimNames* names = nullptr;
    std::vector<NamedFacts>* outputs = nullptr;
  };
  // Whether the node's shape function looked at values (then its result depends on more than shapes).
  bool used_values(NodeId node) const { return results_[node].used_values; }
  // Nodes evaluated by the evaluator.
  int64_t evaluated() const { return evaluated_; }

  // One node, given its inputs' facts; for execution, when shapes are known only then.
  static Status InferNode(const Node& node, const std::vector<const OutputFacts*>& inputs,
                          std::vector<OutputFacts>* outputs, bool* used_values) {
    return InferNode(node, inputs, {}, outputs, used_values);
  }

 private:
  static Status InferNode(const Node& node, const std::vector<const OutputFacts*>& inputs, const Naming& naming,
                          std::vector<OutputFacts>* outputs, bool* used_values);
  struct NodeResult {
    bool done = false;
    bool used_values = false;
    std::vector<OutputFacts> outputs;
    std::vector<NamedFacts> named;  // by output, as far as one has some
    std::vector<bool> fixed;
    uint64_t charged = 0;
  };
  Status InferOne(NodeId id);
  const NamedFacts* FindNamed(Edge edge) const;
  // Completes what the node's op says of names, by the facts of its outputs.
  void NameOutput(const Node& node, size_t index, NodeResult& result);
  // A node of a few bytes may have a shape of thousands: what the limit leaves no room for is not known.
  Status Charge(NodeResult& result);
  Status Evaluate(const Node& node, const std::vector<const OutputFacts*>& inputs, NodeResult& result);
  // Relaxes merges whose back edge brought another shape; true when one changed.
  bool RelaxMerges(const std::vector<NodeId>& order);

  const Graph* graph_;
  Evaluator evaluator_;
  NodeMap<NodeResult> results_;
  std::map<NodeId, Shape> merge_shapes_;
  std::set<Edge> fed_;
  DimNames names_;
  MemoryCharge charge_;  // for shapes
  int64_t evaluated_ = 0;
};

// The largest shape that both are of: differing dims become unknown.
Shape Widen(const Shape& a, const Shape& b);
// Facts of a constant's tensor.
OutputFacts FactsOf(const Tensor& tensor);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_SHAPE_INFERENCE_H_
