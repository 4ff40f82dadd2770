// SPDX-License-Identifier: Apache-2.0
// What finding attention (attention_pattern.h) and its gradients asks a graph.
#ifndef TENON_DEVICES_GPU_FUSE_ATTENTION_GRAPH_H_
#define TENON_DEVICES_GPU_FUSE_ATTENTION_GRAPH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/graph.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::gpu {

// A number for each dim: what has one number has one size, or 1 where it broadcasts.
using DimLabels = std::vector<int>;
bool Has(const DimLabels& labels, int label);
bool AreDistinct(DimLabels labels);
// Whether all labels but `except` are among those.
bool AreIn(const DimLabels& labels, const DimLabels& those, int except);

// What the dims of a product's operands and of its result are called.
struct ProductLabels {
  DimLabels operands[2], out;
};

// The dims of an edge as far as they are known (-1: not); nothing: not even how many.
using DimsOfEdge = std::function<std::optional<std::vector<int64_t>>(const tenon_output&)>;
// What the graph alone says. The cursor outlives it.
DimsOfEdge KnownDims(const tenon_graph_cursor& cursor);

// Whether the node is a product of batches of matrices, as attention has two of.
bool IsBatchProduct(const tenon_graph_cursor& cursor, int64_t id);
// Whether kernels have heads of this size, which is known.
bool IsHeadSize(int64_t size);

class AttentionGraph {
 public:
  // Both outlive it.
  AttentionGraph(const tenon_graph_cursor& cursor, const DimsOfEdge& dims)
      : cursor_(cursor), services_(*cursor.node_services), dims_(dims) {}

  const tenon_node* NodeOf(int64_t id) const { return cursor_.node(cursor_.graph, id); }
  std::string_view OpOf(int64_t id) const { return sdk::ToText(services_.op(NodeOf(id))); }
  int32_t InputCount(int64_t id) const { return services_.input_count(NodeOf(id)); }
  // node -1: a back edge, or one that is cut.
  tenon_output Input(int64_t id, int32_t number) const;
  uint32_t TypeOf(int64_t id) const { return services_.output_dtype(NodeOf(id), 0); }
  // Whether the first output and the first `inputs` inputs are of the type.
  bool HasType(int64_t id, uint32_t dtype, int32_t inputs) const;
  bool IsProduct(int64_t id) const { return IsBatchProduct(cursor_, id); }
  std::optional<std::vector<int64_t>> DimsOf(const tenon_output& edge) const { return dims_(edge); }
  const tenon_node_services& services() const { return services_; }

  // The one element of a constant, or of what is made of one.
  std::optional<double> Constant(const tenon_output& edge, int deep = 0) const;
  // Of a product; nothing where a label stands twice, or dims are not known to be so many.
  std::optional<ProductLabels> LabelsOf(int64_t id) const;

 private:
  const tenon_graph_cursor& cursor_;
  const tenon_node_services& services_;
  const DimsOfEdge& dims_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ATTENTION_GRAPH_H_
