// SPDX-License-Identifier: Apache-2.0
// The gradients of attention (attention_pattern.h) as gradient rules write them, of probabilities P that nobody else
// reads:
//
//   dP = product(gradient, value);  dS = (dP - Sum(dP * P, the last dim, kept)) * P, then Mul and RealDiv by constants
//   of the values = product(P, gradient), of the queries = product(dS, key), of the keys = product(dS, query)
//
// Any of the three gradients may not be there, but not both of the last two. P and what leads to it is part of it, so
// that P is computed again from queries and keys; the one of the forward pass has to be another node
// (attention_pass.h).
#ifndef TENON_DEVICES_GPU_FUSE_ATTENTION_GRADIENT_PATTERN_H_
#define TENON_DEVICES_GPU_FUSE_ATTENTION_GRADIENT_PATTERN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fuse/attention_pattern.h"

namespace tenon::gpu {

struct AttentionGradientPattern {
  // With `value` that of dP; out_labels are those of `gradient`. values: the product of the forward pass, where it
  // reads the same P; else -1.
  AttentionPattern of;
  tenon_output gradient = {-1, 0, 0};
  int64_t of_query = -1, of_key = -1, of_value = -1;  // products; -1: not there
  DimLabels of_query_labels, of_key_labels, of_value_labels;
  double scale = 1;            // of the constants behind dS
  std::vector<int64_t> nodes;  // ascending; without of.values
};

// Nodes that read the node, each as often as it does.
using ReadersOfNode = std::function<std::vector<int64_t>(int64_t)>;

// may_take(id): whether the node may be one of them; asked of all but the softmax and the forward pass's product.
std::optional<AttentionGradientPattern> FindAttentionGradient(const tenon_graph_cursor& cursor, int64_t softmax,
                                                              const ReadersOfNode& readers,
                                                              const std::function<bool(int64_t)>& may_take,
                                                              const DimsOfEdge& dims);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ATTENTION_GRADIENT_PATTERN_H_
