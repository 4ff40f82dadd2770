// SPDX-License-Identifier: Apache-2.0
// What both ways to compute attention have in common: where operands lie, what becomes of a score, and the rows' sums
// while keys are walked along.
#ifndef TENON_DEVICES_GPU_CODE_ATTENTION_ROW_H_
#define TENON_DEVICES_GPU_CODE_ATTENTION_ROW_H_

#include <cmath>
#include <limits>

#include "code/attention.h"
#include "code/grid.h"

namespace tenon::gpu {

inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

// e^x for x <= 0, -infinity among them; what is less than 2^-126 is 0.
TENON_GPU_FUNCTION float Raise(float x) {
  const float scaled = x * 1.4426950408889634f;
#if defined(__CUDA_ARCH__)
  float raised;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(raised) : "f"(scaled));
  return raised;
#else
  return exp2f(scaled);
#endif
}

struct AttentionOffsets {
  int64_t query, key, value, out, mask;
};
TENON_GPU_FUNCTION AttentionOffsets LocateAttention(const AttentionParams& p, int64_t batch) {
  AttentionOffsets at = {};
  for (int d = p.rank - 1; d >= 0; --d) {
    const int64_t above = batch / p.dims[d], index = batch - above * p.dims[d];
    batch = above;
    at.query += index * p.query_at.batch[d];
    at.key += index * p.key_at.batch[d];
    at.value += index * p.value_at.batch[d];
    at.out += index * p.out_at.batch[d];
    at.mask += index * p.mask_at.batch[d];
  }
  return at;
}

// What an element of the mask adds to a score, rounded for itself: kernels that make one score have to make the same
// bits of it, however large the mask is.
template <class T>
TENON_GPU_FUNCTION float MaskedBy(const AttentionParams& p, const T* at) {
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
  const float element = static_cast<float>(static_cast<Wide<T>>(*at));
#if defined(__CUDA_ARCH__)
  return __fmul_rn(element, p.mask_scale);
#else
  return element * p.mask_scale;
#endif
}

// What makes scores of products of queries and keys, for kRows rows of a thread.
template <class T, int kRows>
class Scores {
 public:
  // row_of(i): the thread's row i.
  template <class RowOf>
  TENON_GPU_FUNCTION Scores(const AttentionParams& p, int64_t mask_offset, const RowOf& row_of)
      : p_(p), mask_(static_cast<const T*>(p.mask) + mask_offset) {
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) rows_[i] = static_cast<int32_t>(row_of(i) < p.queries ? row_of(i) : p.queries - 1);
  }
  // dot(i, j): a reference to the product of row i and key first_key + key_of(j), which becomes the score; kStep: keys
  // of the step.
  template <int kKeys, int kStep, class Dot, class KeyOf>
  TENON_GPU_FUNCTION void Finish(int64_t first_key, const Dot& dot, const KeyOf& key_of) const {
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) {
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kKeys; ++j) dot(i, j) = dot(i, j) * p_.scale + p_.shift;
    }
    const int keys = first_key + kStep <= p_.keys ? kStep : static_cast<int>(p_.keys - first_key);
    if (p_.mask != nullptr) AddMask<kKeys>(mask_ + first_key * p_.mask_column, keys, dot, key_of);
    if (keys == kStep) return;
    TENON_GPU_UNROLL_ALL
    for (int j = 0; j < kKeys; ++j) {
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < kRows; ++i) dot(i, j) = key_of(j) < keys ? dot(i, j) : kNoScore;
    }
  }

 private:
  template <int kKeys, class Dot, class KeyOf>
  TENON_GPU_FUNCTION void AddMask(const T* step, int keys, const Dot& dot, const KeyOf& key_of) const {
    if (p_.mask_at.row == 0) {  // one for all rows
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kKeys; ++j) {
        const float masked = key_of(j) < keys ? MaskedBy(p_, step + key_of(j) * p_.mask_column) : 0.0f;
        TENON_GPU_UNROLL_ALL
        for (int i = 0; i < kRows; ++i) dot(i, j) += masked;
      }
      return;
    }
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) {
      const T* const row = step + rows_[i] * p_.mask_at.row;
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kKeys; ++j)
        dot(i, j) += key_of(j) < keys ? MaskedBy(p_, row + key_of(j) * p_.mask_column) : 0.0f;
    }
  }

  const AttentionParams& p_;
  const T* const mask_;
  int32_t rows_[kRows];
};

// Of numbers: what is none is passed over.
TENON_GPU_FUNCTION float LargerScore(float most, float score) { return fmaxf(most, score); }
// A row's largest score so far, and the thread's share of the sum of exp(score - largest).
struct RunningRow {
  float largest = kNoScore, sum = 0;

  // A step's largest score has come: gives what all that was summed is multiplied with; base: what is taken from
  // scores.
  TENON_GPU_FUNCTION float Rise(float most, float* base) {
    const float now = LargerScore(largest, most);
    *base = now == kNoScore ? 0.0f : now;
    const float factor = Raise(largest - *base);
    largest = now;
    sum *= factor;
    return factor;
  }
};

// Over the lanes that differ in the bits of `lanes` - 1.
template <int kLanes>
TENON_GPU_FUNCTION float MostOfRow(float most) {
  TENON_GPU_UNROLL_ALL
  for (uint32_t mask = kLanes / 2; mask > 0; mask /= 2) most = LargerScore(most, ShuffleXor(most, mask));
  return most;
}
template <int kLanes>
TENON_GPU_FUNCTION float SumOfRowLanes(float sum) {
  TENON_GPU_UNROLL_ALL
  for (uint32_t mask = kLanes / 2; mask > 0; mask /= 2) sum += ShuffleXor(sum, mask);
  return sum;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_ATTENTION_ROW_H_
