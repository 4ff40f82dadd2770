// SPDX-License-Identifier: Apache-2.0
// By tensor cores. A warp has 16 queries, whose elements it keeps in registers, and all keys of a step: its scores lie
// as the tensor cores' sums do, and its probabilities as their left operand, so they never leave registers. Values come
// while scores are computed, the next keys while values are added.
#if !defined(__HIPCC__)
#include "code/attention_row.h"
#include "code/core_rows.h"

namespace tenon::gpu {

template <class H, AttentionTile kTile>
class CoreAttention {
  static constexpr int kThreads = AttentionThreads(kTile), kChunks = kTile.depth / 8;
  static constexpr int kKeyTiles = kTile.keys / 8, kColumnTiles = kTile.depth / 8, kDepthSteps = kTile.depth / 16;

 public:
  static constexpr int kSpace = kTile.keys * kChunks;

  TENON_GPU_FUNCTION CoreAttention(const AttentionParams& p, Chunk* keys, Chunk* values)
      : p_(p), keys_(keys), values_(values), lane_(static_cast<int>(Lane())) {}

  TENON_GPU_FUNCTION void Run(int64_t batch, int64_t first_query) {
    const AttentionOffsets at = LocateAttention(p_, batch);
    const int64_t first_row = first_query + static_cast<int64_t>(BlockThread() / kWarp) * 16;
    const auto row_of = [&](int i) { return first_row + lane_ / 4 + i * 8; };
    const Scores<H, 2> scores(p_, at.mask, row_of);
    const bool idle = first_row >= p_.queries;
    const auto* const key_rows = static_cast<const H*>(p_.key) + at.key;
    const auto* const value_rows = static_cast<const H*>(p_.value) + at.value;
    uint32_t queries[kDepthSteps][4];
    LoadQueries(static_cast<const H*>(p_.query) + at.query, row_of, queries);
    RunningRow running[2];
    float sums[kColumnTiles][4] = {};
    Barrier();  // the last batch's keys and values may still be read
    BeginRows(key_rows, p_.key_at.row, 0, p_.depth, keys_);
    for (int64_t key = 0; key < p_.keys; key += kTile.keys) {
      FinishCopies();
      Barrier();  // the keys are there; the values of the step before have been read
      BeginRows(value_rows, p_.value_at.row, key, p_.value_depth, values_);
      float dots[kKeyTiles][4] = {};
      if (!idle) Multiply(queries, dots);
      Weigh(scores, key, dots, running, sums);
      FinishCopies();
      Barrier();  // the values are there; the keys have been read
      if (key + kTile.keys < p_.keys) BeginRows(key_rows, p_.key_at.row, key + kTile.keys, p_.depth, keys_);
      if (!idle) AddWeighted<H>(dots, values_, sums);
    }
    Store(static_cast<H*>(p_.out) + at.out, row_of, running, sums);
  }

 private:
  template <class RowOf>
  TENON_GPU_FUNCTION void LoadQueries(const H* from, const RowOf& row_of, uint32_t (&queries)[kDepthSteps][4]) const {
    TENON_GPU_UNROLL_ALL
    for (int step = 0; step < kDepthSteps; ++step) {
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < 4; ++i) {
        const int64_t row = row_of(i % 2);
        const int element = step * 16 + i / 2 * 8 + lane_ % 4 * 2;
        queries[step][i] =
            row < p_.queries && element < p_.depth ? TwoHalvesAt(from + row * p_.query_at.row + element, p_.even) : 0u;
      }
    }
  }

  // Rows of a step, zeros beyond the last row and the last element.
  TENON_GPU_FUNCTION void BeginRows(const H* from, int64_t step, int64_t first, int depth, Chunk* to) const {
    gpu::BeginRows<H, kTile.keys, kChunks, kThreads>(from, step, first, p_.keys, depth, p_.even, to);
  }
  TENON_GPU_FUNCTION void Multiply(const uint32_t (&queries)[kDepthSteps][4], float (&dots)[kKeyTiles][4]) const {
    TENON_GPU_UNROLL_ALL
    for (int step = 0; step < kDepthSteps; ++step) AddRowProducts<H, kChunks>(queries[step], keys_, step, dots);
  }

  // Scores become probabilities but for the row's sum.
  TENON_GPU_FUNCTION void Weigh(const Scores<H, 2>& scores, int64_t first_key, float (&dots)[kKeyTiles][4],
                                RunningRow (&running)[2], float (&sums)[kColumnTiles][4]) const {
    const auto dot = [&](int i, int j) -> float& { return dots[j / 2][i * 2 + j % 2]; };
    scores.template Finish<kKeyTiles * 2, kTile.keys>(first_key, dot,
                                                      [&](int j) { return j / 2 * 8 + lane_ % 4 * 2 + j % 2; });
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < 2; ++i) {
      float most = kNoScore, base;
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kKeyTiles * 2; ++j) most = LargerScore(most, dot(i, j));
      const float factor = running[i].Rise(MostOfRow<4>(most), &base);
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kKeyTiles * 2; ++j) {
        dot(i, j) = Raise(dot(i, j) - base);
        running[i].sum += dot(i, j);
      }
      TENON_GPU_UNROLL_ALL
      for (int n = 0; n < kColumnTiles * 2; ++n) sums[n / 2][i * 2 + n % 2] *= factor;
    }
  }

  template <class RowOf>
  TENON_GPU_FUNCTION void Store(H* out, const RowOf& row_of, const RunningRow (&running)[2],
                                const float (&sums)[kColumnTiles][4]) const {
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < 2; ++i) {
      const float share = 1.0f / SumOfRowLanes<4>(running[i].sum);
      if (row_of(i) >= p_.queries) continue;
      H* const to = out + row_of(i) * p_.out_at.row;
      TENON_GPU_UNROLL_ALL
      for (int tile = 0; tile < kColumnTiles; ++tile) {
        const int column = tile * 8 + lane_ % 4 * 2;
        if (column < p_.value_depth)
          PutTwoHalves(to + column, sums[tile][i * 2] * share, sums[tile][i * 2 + 1] * share, p_.even);
      }
    }
  }

  const AttentionParams& p_;
  Chunk* const keys_;  // in shared memory
  Chunk* const values_;
  const int lane_;
};

template <class H, AttentionTile kTile>
TENON_GPU_FUNCTION void AttentionByCores(const AttentionParams& p) {
  using A = CoreAttention<H, kTile>;
  TENON_GPU_SHARED(Chunk, keys, A::kSpace);
  TENON_GPU_SHARED(Chunk, values, A::kSpace);
  A attention(p, keys, values);
  for (int64_t batch = BlockY(); batch < p.batches; batch += p.batch_blocks)
    attention.Run(batch, static_cast<int64_t>(BlockX()) * kTile.queries);
}

#define TENON_GPU_CORES_OF(depth, suffix, H, tile)                                                      \
  TENON_GPU_BLOCK_KERNEL_OF(AttentionThreads(tile), AttentionCores_##depth##_##suffix, AttentionParams, \
                            AttentionByCores<H, tile>)
#define TENON_GPU_CORES(suffix, H)                  \
  TENON_GPU_CORES_OF(32, suffix, H, kShortCores)    \
  TENON_GPU_CORES_OF(64, suffix, H, kMiddleCores)   \
  TENON_GPU_CORES_OF(128, suffix, H, kLongCores)
TENON_GPU_CORES(f16, Half)
TENON_GPU_CORES(bf16, Bfloat16)

}  // namespace tenon::gpu
#endif
