// SPDX-License-Identifier: Apache-2.0
// By multiply-adds. A warp has 16 queries: half of its lanes 8 of them, each lane every 16th key of a step and every
// 16th part of an output row. Shared memory has queries, keys and values as rows of floats; the probabilities of a step
// lie where its keys were. Groups of four floats stand at places that are changed by the row, so that lanes that read
// the same group of rows of their own meet different banks.
#include "code/attention.h"

#include "code/attention_row.h"
#include "code/shared_rows.h"

namespace tenon::gpu {

template <class T, AttentionTile kTile>
class PlainAttention {
  static constexpr int kThreads = AttentionThreads(kTile), kGroups = kTile.depth / 4, kKeyGroups = kTile.keys / 4;
  static constexpr int kRows = 8, kKeys = kTile.keys / 16;  // of a thread
  static constexpr int kColumns = kTile.depth / 16, kTogether = kColumns < 4 ? kColumns : 4;

 public:
  static constexpr int kQuerySpace = kTile.queries * kGroups, kValueSpace = kTile.keys * kGroups;
  static constexpr int kKeySpace = kTile.keys * (kGroups > kTile.queries / 4 ? kGroups : kTile.queries / 4);

  TENON_GPU_FUNCTION PlainAttention(const AttentionParams& p, Four<float>* queries, Four<float>* keys,
                                    Four<float>* values)
      : p_(p),
        queries_(queries),
        keys_(keys),
        values_(values),
        first_row_(static_cast<int>(BlockThread() / 16) * kRows),
        lane_(static_cast<int>(BlockThread() % 16)) {}

  TENON_GPU_FUNCTION void Run(int64_t batch, int64_t first_query) {
    const AttentionOffsets at = LocateAttention(p_, batch);
    const Scores<T, kRows> scores(p_, at.mask, [&](int i) { return first_query + first_row_ + i; });
    // Of a warp without a query nothing is asked but to bring keys and values.
    const bool idle = first_query + first_row_ / 16 * 16 >= p_.queries;
    Barrier();  // the last batch's values may still be read
    LoadRows<T, kTile.queries, kTile.depth, kThreads, RowSwizzle::kByHalfWarp>(
        static_cast<const T*>(p_.query) + at.query, p_.query_at.row, first_query, p_.queries, p_.depth, p_.even,
        queries_);
    RunningRow running[kRows];
    float sums[kRows][kColumns] = {};
    for (int64_t key = 0; key < p_.keys; key += kTile.keys) {
      if (key > 0) Barrier();  // keys and values of the step before have been read
      LoadRows<T, kTile.keys, kTile.depth, kThreads, RowSwizzle::kByLane>(
          static_cast<const T*>(p_.key) + at.key, p_.key_at.row, key, p_.keys, p_.depth, p_.even, keys_);
      LoadRows<T, kTile.keys, kTile.depth, kThreads, RowSwizzle::kNone>(
          static_cast<const T*>(p_.value) + at.value, p_.value_at.row, key, p_.keys, p_.value_depth, p_.even, values_);
      Barrier();
      float dots[kRows][kKeys] = {};
      if (!idle) Multiply(dots);
      Barrier();  // probabilities come where the keys are
      Weigh(scores, key, dots, running, sums);
      Barrier();
      if (!idle) AddValues(sums);
    }
    Store(static_cast<T*>(p_.out) + at.out, first_query, running, sums);
  }

 private:
  TENON_GPU_FUNCTION void Multiply(float (&dots)[kRows][kKeys]) const {
    TENON_GPU_UNROLL(1)
    for (int group = 0; group < kGroups; ++group) {
      Four<float> keys[kKeys];
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kKeys; ++j)
        keys[j] = keys_[(lane_ + 16 * j) * kGroups + GroupAt<RowSwizzle::kByLane>(lane_, group)];
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < kRows; ++i) {
        const Four<float> query =
            queries_[(first_row_ + i) * kGroups + GroupAt<RowSwizzle::kByHalfWarp>(first_row_, group)];
        TENON_GPU_UNROLL_ALL
        for (int k = 0; k < 4; ++k) {
          TENON_GPU_UNROLL_ALL
          for (int j = 0; j < kKeys; ++j) dots[i][j] += query.at[k] * keys[j].at[k];
        }
      }
    }
  }

  // Scores become probabilities but for the row's sum.
  TENON_GPU_FUNCTION void Weigh(const Scores<T, kRows>& scores, int64_t first_key, float (&dots)[kRows][kKeys],
                                RunningRow (&running)[kRows], float (&sums)[kRows][kColumns]) const {
    scores.template Finish<kKeys, kTile.keys>(
        first_key, [&](int i, int j) -> float& { return dots[i][j]; }, [&](int j) { return lane_ + 16 * j; });
    auto* const weights = reinterpret_cast<float*>(keys_);
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) {
      float most = kNoScore, base;
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kKeys; ++j) most = LargerScore(most, dots[i][j]);
      const float factor = running[i].Rise(MostOfRow<16>(most), &base);
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kKeys; ++j) {
        const float weight = Raise(dots[i][j] - base);
        running[i].sum += weight;
        const int key = lane_ + 16 * j;
        weights[((first_row_ + i) * kKeyGroups + GroupAt<RowSwizzle::kByHalfWarp>(first_row_, key / 4)) * 4 + key % 4] =
            weight;
      }
      TENON_GPU_UNROLL_ALL
      for (int c = 0; c < kColumns; ++c) sums[i][c] *= factor;
    }
  }

  // Output columns of a thread: kTogether of them, and the same 64 further on.
  TENON_GPU_FUNCTION int ColumnOf(int c) const { return c / kTogether * 64 + lane_ * kTogether + c % kTogether; }
  TENON_GPU_FUNCTION void AddValues(float (&sums)[kRows][kColumns]) const {
    struct alignas(kTogether * 4) Columns {
      float at[kTogether];
    };
    TENON_GPU_UNROLL(1)
    for (int group = 0; group < kKeyGroups; ++group) {
      Columns values[4][kColumns / kTogether];
      TENON_GPU_UNROLL_ALL
      for (int k = 0; k < 4; ++k) {
        TENON_GPU_UNROLL_ALL
        for (int part = 0; part < kColumns / kTogether; ++part) {
          const auto* const row = reinterpret_cast<const float*>(values_ + (group * 4 + k) * kGroups);
          values[k][part] = *reinterpret_cast<const Columns*>(row + ColumnOf(part * kTogether));
        }
      }
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < kRows; ++i) {
        const Four<float> weight =
            keys_[(first_row_ + i) * kKeyGroups + GroupAt<RowSwizzle::kByHalfWarp>(first_row_, group)];
        TENON_GPU_UNROLL_ALL
        for (int k = 0; k < 4; ++k) {
          TENON_GPU_UNROLL_ALL
          for (int c = 0; c < kColumns; ++c) sums[i][c] += weight.at[k] * values[k][c / kTogether].at[c % kTogether];
        }
      }
    }
  }

  TENON_GPU_FUNCTION void Store(T* out, int64_t first_query, const RunningRow (&running)[kRows],
                                const float (&sums)[kRows][kColumns]) const {
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) {
      const float share = 1.0f / SumOfRowLanes<16>(running[i].sum);
      const int64_t row = first_query + first_row_ + i;
      if (row >= p_.queries) continue;
      TENON_GPU_UNROLL_ALL
      for (int c = 0; c < kColumns; ++c) {
        if (ColumnOf(c) < p_.value_depth) out[row * p_.out_at.row + ColumnOf(c)] = static_cast<T>(sums[i][c] * share);
      }
    }
  }

  const AttentionParams& p_;
  Four<float>* const queries_;  // in shared memory
  Four<float>* const keys_;     // or probabilities, [query, key]
  Four<float>* const values_;
  const int first_row_, lane_;
};

template <class T, AttentionTile kTile>
TENON_GPU_FUNCTION void Attention(const AttentionParams& p) {
  using A = PlainAttention<T, kTile>;
  TENON_GPU_SHARED(Four<float>, queries, A::kQuerySpace);
  TENON_GPU_SHARED(Four<float>, keys, A::kKeySpace);
  TENON_GPU_SHARED(Four<float>, values, A::kValueSpace);
  A attention(p, queries, keys, values);
  for (int64_t batch = BlockY(); batch < p.batches; batch += p.batch_blocks)
    attention.Run(batch, static_cast<int64_t>(BlockX()) * kTile.queries);
}

#define TENON_GPU_ATTENTION_OF(depth, suffix, T, tile) \
  TENON_GPU_BLOCK_KERNEL_OF(AttentionThreads(tile), Attention_##depth##_##suffix, AttentionParams, Attention<T, tile>)
#define TENON_GPU_ATTENTION(suffix, T)                     \
  TENON_GPU_ATTENTION_OF(32, suffix, T, kShortHeads)       \
  TENON_GPU_ATTENTION_OF(64, suffix, T, kMiddleHeads)      \
  TENON_GPU_ATTENTION_OF(128, suffix, T, kLongHeads)
TENON_GPU_ATTENTION(f32, float)
#if !defined(__CUDACC__)  // whose GPUs have tensor cores
TENON_GPU_ATTENTION(f16, Half)
TENON_GPU_ATTENTION(bf16, Bfloat16)
#endif

}  // namespace tenon::gpu
