// SPDX-License-Identifier: Apache-2.0
// Attention as graphs write it: a product of queries and keys, steps that scale it and add to it, a softmax along the keys, a product with the values.
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

#include "tenon/graph.h"

namespace tenon::gpu {

// A number for each dim: what has one number has one size, or 1 where it broadcasts.
using DimLabels = std::vector<int>;

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

// The dims of an edge as far as they are known (-1: not); nothing: not even how many.
using DimsOfEdge = std::function<std::optional<std::vector<int64_t>>(const tenon_output&)>;

// The attention that the softmax and `values`, which reads it, are part of. may_take(id): whether the node may be one with them; asked of all but these
// two. Nothing where it is not as above.
std::optional<AttentionPattern> FindAttention(const tenon_graph_cursor& cursor, int64_t softmax, int64_t values, const std::function<bool(int64_t)>& may_take,
                                              const DimsOfEdge& dims);
// Whether the node is a product of batches of matrices, as attention has two of.
bool IsBatchProduct(const tenon_graph_cursor& cursor, int64_t id);
// Whether kernels have heads of this size, which is known.
bool IsHeadSize(int64_t size);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ATTENTION_PATTERN_H_
