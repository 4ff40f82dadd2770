// SPDX-License-Identifier: Apache-2.0
// Attention in tiles: out = softmax(query key^T * scale + mask * mask_scale + shift) value, of many batches (and
// heads), without the matrix of scores.
//
//   Attention_<depth>_<type>       by multiply-adds of float32: of float32, and of halves where there are no tensor
//   cores that we know (not NVIDIA's) AttentionCores_<depth>_<type>  of halves, by NVIDIA's tensor cores
//
// depth: 32, 64 or 128, the head's size or the next larger one. A block takes a tile of queries and walks along keys
// and values in tiles; of each row it keeps the largest score so far and the sum of exp(score - largest), and brings
// down what it has when a larger one comes. Scores, probabilities and sums are float32; of halves the probabilities are
// rounded once, for the product with the values.
//
// As the kernels one by one: a row with a NaN or +infinity among its scores is NaN, as is one whose scores are all
// -infinity. Keys beyond the last one count as -infinity. There is at least one key.
#ifndef TENON_DEVICES_GPU_CODE_ATTENTION_H_
#define TENON_DEVICES_GPU_CODE_ATTENTION_H_

#include <cstdint>

namespace tenon::gpu {

// Queries of a block and keys of a step; threads: a warp has 16 queries.
struct AttentionTile {
  int depth, queries, keys;
};
inline constexpr AttentionTile kShortHeads = {32, 64, 64}, kMiddleHeads = {64, 64, 64},
                               kLongHeads = {128, 32, 32};  // of multiply-adds
inline constexpr AttentionTile kShortCores = {32, 64, 64}, kMiddleCores = {64, 64, 64},
                               kLongCores = {128, 64, 64};  // of tensor cores
constexpr int AttentionThreads(const AttentionTile& tile) { return tile.queries * 2; }

inline constexpr int kMostAttentionDims = 4;
inline constexpr int32_t kMostAttentionDepth = 128;

// Strides are in elements. An operand's row is one query, key or value; neighbours in a row are neighbours in memory.
struct AttentionOperand {
  int64_t row;
  int64_t batch[kMostAttentionDims];  // 0: repeated
};

struct AttentionParams {
  const void* query;
  const void* key;
  const void* value;
  const void* mask;  // NULL: none; of the same type
  void* out;
  int64_t queries, keys;
  int32_t depth, value_depth;  // multiples of 8, at most kMostAttentionDepth
  int64_t batches, batch_blocks;  // batch_blocks: of the grid; each takes several where there are more
  int32_t rank;                   // of the batches, slowest dim first
  bool even;                      // rows begin at multiples of 16 bytes (of query, key, value and out)
  int64_t dims[kMostAttentionDims];
  AttentionOperand query_at, key_at, value_at, out_at, mask_at;
  int64_t mask_column;  // from key to key
  float scale, mask_scale, shift;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_ATTENTION_H_
