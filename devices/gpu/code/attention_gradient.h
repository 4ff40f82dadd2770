// SPDX-License-Identifier: Apache-2.0
// The gradients of attention (attention.h) with respect to queries, keys and values, without matrices of scores,
// probabilities or their gradients.
//
//   AttentionQueryGradient_<depth>_<type>  for tiles of queries: what the other one has to know of each query's row,
//   and the queries' gradient AttentionKeyGradient_<depth>_<type>    behind it, for tiles of keys: the keys' and the
//   values' gradients
//
// These are by multiply-adds of float32, as Attention is; AttentionQueryGradientCores_ and AttentionKeyGradientCores_
// of halves, by NVIDIA's tensor cores.
//
// With P the probabilities and G the gradient of what attention gives: dP = G value^T, dS = P (dP - the row's sum of P
// dP), and of the values P^T G, of the queries dS key, of the keys dS^T query. A block walks along the other side in
// tiles and makes scores, P and dS of each anew. Every sum has one order: the same bits every time. All is float32;
// tensor cores get P and dS rounded once, and the results of halves are rounded.
//
// What is no number, and rows that are masked as a whole, give what the formula gives node by node.
#ifndef TENON_DEVICES_GPU_CODE_ATTENTION_GRADIENT_H_
#define TENON_DEVICES_GPU_CODE_ATTENTION_GRADIENT_H_

#include "code/attention.h"

namespace tenon::gpu {

// queries: rows of a block, of keys too where these have the blocks; keys: how many of the other side are loaded at
// once. Threads: as attention's.
inline constexpr AttentionTile kShortGradients = {32, 64, 32}, kMiddleGradients = {64, 64, 32},
                               kLongGradients = {128, 32, 16};  // of multiply-adds
inline constexpr AttentionTile kShortGradientCores = {32, 64, 32}, kMiddleGradientCores = {64, 64, 32},
                               kLongGradientCores = {128, 64, 16};  // of tensor cores

// Of one query: its probabilities are exp(score - base) * share, dot is the sum of these times dP.
struct alignas(16) AttentionRow {
  float base, share, dot, unused;
};

struct AttentionGradientParams {
  AttentionParams of;  // `out` is read: the gradient of what attention gives
  void* of_query;      // NULL: not wanted
  void* of_key;
  void* of_value;
  AttentionOperand of_query_at, of_key_at, of_value_at;
  AttentionRow* rows;    // [batches, queries]
  float gradient_scale;  // of queries and keys, which dS is multiplied with
  bool even;             // rows of the gradients that are written begin at multiples of four elements
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_ATTENTION_GRADIENT_H_
