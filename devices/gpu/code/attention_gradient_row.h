// SPDX-License-Identifier: Apache-2.0
// What both ways to compute attention's gradients have in common: where operands lie, and what becomes of a score where
// keys have the rows.
#ifndef TENON_DEVICES_GPU_CODE_ATTENTION_GRADIENT_ROW_H_
#define TENON_DEVICES_GPU_CODE_ATTENTION_GRADIENT_ROW_H_

#include "code/attention_gradient.h"
#include "code/attention_row.h"

namespace tenon::gpu {

// Of one batch. gradient: of what attention gives.
template <class T>
struct GradientOperands {
  struct Rows {
    const T* at;
    int64_t step, count;
    int depth;
  };
  Rows query, key, value, gradient;
  const T* mask;
  T *of_query, *of_key, *of_value;
};
template <class T>
TENON_GPU_FUNCTION GradientOperands<T> LocateGradient(const AttentionGradientParams& p, int64_t batch) {
  const AttentionParams& of = p.of;
  int64_t query = 0, key = 0, value = 0, left = batch;
  for (int d = of.rank - 1; d >= 0; --d) {
    const int64_t above = left / of.dims[d], index = left - above * of.dims[d];
    left = above;
    query += index * p.of_query_at.batch[d];
    key += index * p.of_key_at.batch[d];
    value += index * p.of_value_at.batch[d];
  }
  const AttentionOffsets at = LocateAttention(of, batch);
  return {{static_cast<const T*>(of.query) + at.query, of.query_at.row, of.queries, of.depth},
          {static_cast<const T*>(of.key) + at.key, of.key_at.row, of.keys, of.depth},
          {static_cast<const T*>(of.value) + at.value, of.value_at.row, of.keys, of.value_depth},
          {static_cast<const T*>(of.out) + at.out, of.out_at.row, of.queries, of.value_depth},
          static_cast<const T*>(of.mask) + at.mask,
          static_cast<T*>(p.of_query) + query,
          static_cast<T*>(p.of_key) + key,
          static_cast<T*>(p.of_value) + value};
}

// A query's row while keys are walked along: its scores, and the sum of exp(score - largest) dP.
struct RunningGradient : RunningRow {
  float dot = 0;

  TENON_GPU_FUNCTION void Add(float weight, float product) {
    sum += weight;
    dot += weight * product;
  }
  template <int kLanes>
  TENON_GPU_FUNCTION AttentionRow Finish() const {
    const float share = 1.0f / SumOfRowLanes<kLanes>(sum);
    return {largest == kNoScore ? 0.0f : largest, share, SumOfRowLanes<kLanes>(dot) * share, 0};
  }
};

// What makes P and dS of kRows keys of a thread.
template <class T, int kRows>
class KeyWeights {
 public:
  // key_of(i): the thread's key i, perhaps beyond the last one.
  template <class KeyOf>
  TENON_GPU_FUNCTION KeyWeights(const AttentionGradientParams& p, int64_t batch, const T* mask, const KeyOf& key_of)
      : of_(p.of),
        rows_(p.rows + batch * p.of.queries),
        mask_(mask),
        each_(p.of.mask != nullptr && p.of.mask_at.row != 0) {
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) {
      keys_[i] = static_cast<int32_t>(key_of(i) < of_.keys ? key_of(i) : of_.keys - 1);
      masks_[i] = of_.mask != nullptr && !each_ ? MaskedBy(of_, mask + keys_[i] * of_.mask_column) : 0.0f;
    }
  }
  // weight(i), the product of key i and the query, becomes P, and product(i), that of its value and the query's
  // gradient, dS: zeros where there is no query.
  template <class Weight, class Product>
  TENON_GPU_FUNCTION void Weigh(int64_t query, const Weight& weight, const Product& product) const {
    const bool is_there = query < of_.queries;
    const AttentionRow row = is_there ? rows_[query] : AttentionRow{};
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) {
      const float masked =
          each_ && is_there ? MaskedBy(of_, mask_ + query * of_.mask_at.row + keys_[i] * of_.mask_column) : masks_[i];
      // As Scores makes them, to the bit: the row's base is the largest.
      const float score = (weight(i) * of_.scale + of_.shift) + masked;
      const float p = Raise(score - row.base) * row.share;
      weight(i) = is_there ? p : 0.0f;
      product(i) = is_there ? p * (product(i) - row.dot) : 0.0f;
    }
  }

 private:
  const AttentionParams& of_;
  const AttentionRow* const rows_;
  const T* const mask_;
  const bool each_;  // query has a mask of its own
  int32_t keys_[kRows];
  float masks_[kRows];
};

// The block's rows of each of its batches: OfKeys(batch, first row) or OfQueries().
template <bool kOfKeys, class Gradient>
TENON_GPU_FUNCTION void RunGradient(const AttentionGradientParams& p, int rows, Gradient& gradient) {
  for (int64_t batch = BlockY(); batch < p.of.batches; batch += p.of.batch_blocks) {
    if constexpr (kOfKeys) {
      gradient.OfKeys(batch, static_cast<int64_t>(BlockX()) * rows);
    } else {
      gradient.OfQueries(batch, static_cast<int64_t>(BlockX()) * rows);
    }
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_ATTENTION_GRADIENT_ROW_H_
