// SPDX-License-Identifier: Apache-2.0
// NodeGradient: the gradients of one node's inputs: by the function that the graph brings, by its op's, or for what has
// branches by the dual branch.
#ifndef TENON_CORE_GRAD_NODE_GRADIENT_H_
#define TENON_CORE_GRAD_NODE_GRADIENT_H_

#include <string>
#include <vector>

#include "core/grad/own_gradient.h"
#include "core/grad/sums.h"
#include "core/graph/builder.h"
#include "core/graph/op_registry.h"

namespace tenon::grad {

class NodeGradient {
 public:
  // All outlive it.
  NodeGradient(graph::Builder* builder, Sums* sums, const OwnGradients* own)
      : builder_(builder), sums_(*sums), own_(*own) {}

  // dy: of the node's outputs. One an input. Adds nodes to the graph: `node` is no reference into it.
  Result<std::vector<tenon_gradient>> Of(const graph::Node& node, const std::vector<tenon_gradient>& dy);

 private:
  struct HostArgs {
    NodeGradient* self;
    const graph::Node* node;
  };
  static tenon_status* DenseDy(const tenon_gradient_args* args, int32_t index, tenon_output* out_output);

  Status OfSwitch(const graph::Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx);
  Status RowsOfSwitch(const graph::Node& node, const std::vector<tenon_gradient>& dy, const tenon_gradient& alike,
                      std::vector<tenon_gradient>* dx);
  Status OfMerge(const graph::Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx);
  Status ByFunction(const graph::Node& node, const std::string& gradient, const std::vector<tenon_gradient>& dy,
                    std::vector<tenon_gradient>* dx);
  Status OfOp(const graph::Node& node, const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx);
  Status CallFunction(const graph::Node& node, const graph::OpRegistry::GradientEntry& gradient,
                      const std::vector<tenon_gradient>& dy, std::vector<tenon_gradient>* dx);
  graph::OpRegistry::GradientEntry FunctionOf(const graph::OpDef& op) const;
  Status Check(const graph::Node& node, size_t input, const tenon_gradient& gradient) const;
  Status CheckOutput(const char* what, const tenon_output& output, DType type) const;

  graph::Builder* builder_;
  Sums& sums_;
  const OwnGradients& own_;
};

}  // namespace tenon::grad

#endif  // TENON_CORE_GRAD_NODE_GRADIENT_H_
