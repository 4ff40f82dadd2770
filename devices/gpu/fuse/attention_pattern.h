// SPDX-License-Identifier: Apache-2.0
// Attention as graphs write it: a product of queries and keys, steps that scale it and add to it, a softmax along the
// keys, a product with the values.
//
//   scores = BatchMatMul(query, key, adj_y=true), or Einsum("BTNH,BSNH->BNTS", ...) with any letters
//   steps: Mul and RealDiv by a constant, AddV2 and Sub of a constant, AddV2 and Sub of one mask, in any order
//   values = BatchMatMul(Softmax(...), value), or Einsum("BNTS,BSNH->BTNH", ...)
//
// What lies in memory otherwise (keys as columns, elements of a head apart) is not taken.
#ifndef TENON_DEVICES_GPU_FUSE_ATTENTION_PATTERN_H_
#define TENON_DEVICES_GPU_FUSE_ATTENTION_PATTERN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fuse/attention_graph.h"

namespace tenon::gpu {

struct AttentionPattern {
  int64_t scores = -1, softmax = -1, values = -1;
  std::vector<int64_t> nodes;  // these and the steps between them
  // score = product * scale + mask * mask_scale + shift
  double scale = 1, mask_scale = 0, shift = 0;
  tenon_output mask = {-1, 0, 0};  // node -1: none
  tenon_output query = {-1, 0, 0}, key = {-1, 0, 0}, value = {-1, 0, 0};
  DimLabels query_labels, key_labels, value_labels, score_labels, out_labels;
  int query_label = 0, key_label = 0, depth_label = 0, value_depth_label = 0;
};

// The attention that the softmax and `values`, which reads it, are part of. may_take(id): whether the node may be one
// with them; asked of all but these two. Nothing where it is not as above.
std::optional<AttentionPattern> FindAttention(const tenon_graph_cursor& cursor, int64_t softmax, int64_t values,
                                              const std::function<bool(int64_t)>& may_take, const DimsOfEdge& dims);
// The same of what ends in the softmax: there are no values, and no labels of what is made of them.
std::optional<AttentionPattern> FindProbabilities(const tenon_graph_cursor& cursor, int64_t softmax,
                                                  const std::function<bool(int64_t)>& may_take, const DimsOfEdge& dims);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ATTENTION_PATTERN_H_
