// SPDX-License-Identifier: Apache-2.0
// By tensor cores. A warp has 16 rows of the block's own side. Shared memory has the block's own rows of both operands
// (queries and G, or keys and values), and a tile of the other side's; P and dS never leave registers: they lie as sums
// do, and are the left operand of what is added up.
#if !defined(__HIPCC__)
#include "code/attention_gradient_row.h"
#include "code/core_rows.h"

namespace tenon::gpu {

template <class H, AttentionTile kTile>
class CoreAttentionGradient {
  static constexpr int kThreads = AttentionThreads(kTile), kChunks = kTile.depth / 8, kTiles = kTile.keys / 8;
  using Products = float[kTiles][4];
  using Sums = float[kChunks][4];
  using Operands = GradientOperands<H>;
  using Rows = typename Operands::Rows;

 public:
  static constexpr int kOwnSpace = kTile.queries * kChunks, kOtherSpace = kTile.keys * kChunks;

  // Of both operands: the block's own rows, and the other side's.
  struct Space {
    Chunk *own[2], *other[2];
  };
  TENON_GPU_FUNCTION CoreAttentionGradient(const AttentionGradientParams& p, const Space& space)
      : p_(p), of_(p.of), space_(space), lane_(static_cast<int>(Lane())) {}

  TENON_GPU_FUNCTION void OfQueries(int64_t batch, int64_t first) {
    const Operands operands = LocateGradient<H>(p_, batch);
    const auto row_of = [&](int i) { return first + RowOf(i); };
    idle_ = first + WarpRow() >= of_.queries;
    BeginOwn(operands.query, operands.gradient, first);
    const Scores<H, 2> scores(of_, LocateAttention(of_, batch).mask, row_of);
    AttentionRow rows[2];
    ReadRows(operands, scores, rows);
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < 2; ++i) {
      if (lane_ % 4 == 0 && row_of(i) < of_.queries) p_.rows[batch * of_.queries + row_of(i)] = rows[i];
    }
    if (p_.of_query == nullptr) return;
    Sums sums = {};
    TENON_GPU_UNROLL(1)
    for (int64_t key = 0; key < of_.keys; key += kTile.keys) {
      Products dots = {}, products = {};
      MultiplyByKeys(operands, scores, key, dots, products);
      TENON_GPU_UNROLL_ALL
      for (int n = 0; n < kTiles * 4; ++n) {
        const AttentionRow& row = rows[n % 4 / 2];
        dots[n / 4][n % 4] = Raise(dots[n / 4][n % 4] - row.base) * row.share * (products[n / 4][n % 4] - row.dot);
      }
      if (!idle_) AddWeighted<H>(dots, space_.other[0], sums);
    }
    Store(operands.of_query, p_.of_query_at.row, first, of_.queries, of_.depth, p_.gradient_scale, sums);
  }

  TENON_GPU_FUNCTION void OfKeys(int64_t batch, int64_t first) {
    const Operands operands = LocateGradient<H>(p_, batch);
    idle_ = first + WarpRow() >= of_.keys;
    BeginOwn(operands.key, operands.value, first);
    const KeyWeights<H, 2> keys(p_, batch, operands.mask, [&](int i) { return first + RowOf(i); });
    Sums of_key = {}, of_value = {};
    TENON_GPU_UNROLL(1)
    for (int64_t query = 0; query < of_.queries; query += kTile.keys) {
      Products weights = {}, products = {};
      Multiply(operands.query, operands.gradient, query, weights, products);
      TENON_GPU_UNROLL_ALL
      for (int n = 0; n < kTiles * 2; ++n) {
        keys.Weigh(
            query + ColumnOf(n), [&](int i) -> float& { return weights[n / 2][i * 2 + n % 2]; },
            [&](int i) -> float& { return products[n / 2][i * 2 + n % 2]; });
      }
      if (!idle_) AddWeighted<H>(weights, space_.other[1], of_value);
      if (!idle_) AddWeighted<H>(products, space_.other[0], of_key);
    }
    if (p_.of_key != nullptr)
      Store(operands.of_key, p_.of_key_at.row, first, of_.keys, of_.depth, p_.gradient_scale, of_key);
    if (p_.of_value != nullptr)
      Store(operands.of_value, p_.of_value_at.row, first, of_.keys, of_.value_depth, 1.0f, of_value);
  }

 private:
  TENON_GPU_FUNCTION static int WarpRow() { return static_cast<int>(BlockThread() / kWarp) * 16; }
  TENON_GPU_FUNCTION int RowOf(int i) const { return WarpRow() + lane_ / 4 + i * 8; }
  TENON_GPU_FUNCTION int ColumnOf(int n) const { return n / 2 * 8 + lane_ % 4 * 2 + n % 2; }

  TENON_GPU_FUNCTION void BeginOwn(const Rows& first, const Rows& second, int64_t row) const {
    Barrier();  // what the last batch's have may still be read
    BeginRows<H, kTile.queries, kChunks, kThreads>(first.at, first.step, row, first.count, first.depth, of_.even,
                                                   space_.own[0]);
    BeginRows<H, kTile.queries, kChunks, kThreads>(second.at, second.step, row, second.count, second.depth, of_.even,
                                                   space_.own[1]);
  }

  // Products of own rows and others, of both operands; the others stay.
  TENON_GPU_FUNCTION void Multiply(const Rows& first, const Rows& second, int64_t row, Products& of_first,
                                   Products& of_second) const {
    Barrier();  // the step before's have been read
    BeginRows<H, kTile.keys, kChunks, kThreads>(first.at, first.step, row, first.count, first.depth, of_.even,
                                                space_.other[0]);
    BeginRows<H, kTile.keys, kChunks, kThreads>(second.at, second.step, row, second.count, second.depth, of_.even,
                                                space_.other[1]);
    FinishCopies();
    Barrier();
    if (idle_) return;
    AddProducts(space_.own[0], space_.other[0], of_first);
    AddProducts(space_.own[1], space_.other[1], of_second);
  }
  TENON_GPU_FUNCTION void AddProducts(const Chunk* own, const Chunk* other, Products& products) const {
    TENON_GPU_UNROLL_ALL
    for (int step = 0; step < kChunks / 2; ++step) {
      uint32_t left[4];
      LoadMatrices<false>(&own[ChunkAt<kChunks>(WarpRow() + lane_ % 16, step * 2 + lane_ / 16)], left);
      AddRowProducts<H, kChunks>(left, other, step, products);
    }
  }
  // The scores and dP of own queries and a step's keys.
  TENON_GPU_FUNCTION void MultiplyByKeys(const Operands& operands, const Scores<H, 2>& scores, int64_t key,
                                         Products& dots, Products& products) const {
    Multiply(operands.key, operands.value, key, dots, products);
    scores.template Finish<kTiles * 2, kTile.keys>(
        key, [&](int i, int n) -> float& { return dots[n / 2][i * 2 + n % 2]; }, [&](int n) { return ColumnOf(n); });
  }

  TENON_GPU_FUNCTION void ReadRows(const Operands& operands, const Scores<H, 2>& scores,
                                   AttentionRow (&rows)[2]) const {
    RunningGradient running[2];
    TENON_GPU_UNROLL(1)
    for (int64_t key = 0; key < of_.keys; key += kTile.keys) {
      Products dots = {}, products = {};
      MultiplyByKeys(operands, scores, key, dots, products);
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < 2; ++i) {
        float most = kNoScore, base;
        TENON_GPU_UNROLL_ALL
        for (int n = 0; n < kTiles * 2; ++n) most = LargerScore(most, dots[n / 2][i * 2 + n % 2]);
        running[i].dot *= running[i].Rise(MostOfRow<4>(most), &base);
        TENON_GPU_UNROLL_ALL
        for (int n = 0; n < kTiles * 2; ++n)
          running[i].Add(Raise(dots[n / 2][i * 2 + n % 2] - base), products[n / 2][i * 2 + n % 2]);
      }
    }
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < 2; ++i) rows[i] = running[i].template Finish<4>();
  }

  TENON_GPU_FUNCTION void Store(H* to, int64_t step, int64_t first, int64_t count, int depth, float scale,
                                const Sums& sums) const {
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < 2; ++i) {
      if (first + RowOf(i) >= count) continue;
      TENON_GPU_UNROLL_ALL
      for (int tile = 0; tile < kChunks; ++tile) {
        const int column = tile * 8 + lane_ % 4 * 2;
        if (column < depth)
          PutTwoHalves(to + (first + RowOf(i)) * step + column, sums[tile][i * 2] * scale,
                       sums[tile][i * 2 + 1] * scale, p_.even);
      }
    }
  }

  const AttentionGradientParams& p_;
  const AttentionParams& of_;
  const Space space_;
  const int lane_;
  bool idle_ = false;  // of a warp without a row of its own nothing is asked but to bring others
};

template <class H, AttentionTile kTile, bool kOfKeys>
TENON_GPU_FUNCTION void GradientOfAttentionByCores(const AttentionGradientParams& p) {
  using A = CoreAttentionGradient<H, kTile>;
  TENON_GPU_SHARED(Chunk, first, A::kOwnSpace);
  TENON_GPU_SHARED(Chunk, second, A::kOwnSpace);
  TENON_GPU_SHARED(Chunk, other_first, A::kOtherSpace);
  TENON_GPU_SHARED(Chunk, other_second, A::kOtherSpace);
  A gradient(p, {{first, second}, {other_first, other_second}});
  RunGradient<kOfKeys>(p, kTile.queries, gradient);
}

#define TENON_GPU_GRADIENT_CORES_OF(depth, suffix, H, tile)                                         \
  TENON_GPU_BLOCK_KERNEL_OF(AttentionThreads(tile), AttentionQueryGradientCores_##depth##_##suffix, \
                            AttentionGradientParams, GradientOfAttentionByCores<H, tile, false>)    \
  TENON_GPU_BLOCK_KERNEL_OF(AttentionThreads(tile), AttentionKeyGradientCores_##depth##_##suffix,   \
                            AttentionGradientParams, GradientOfAttentionByCores<H, tile, true>)
#define TENON_GPU_GRADIENT_CORES(suffix, H)                         \
  TENON_GPU_GRADIENT_CORES_OF(32, suffix, H, kShortGradientCores)   \
  TENON_GPU_GRADIENT_CORES_OF(64, suffix, H, kMiddleGradientCores)  \
  TENON_GPU_GRADIENT_CORES_OF(128, suffix, H, kLongGradientCores)
TENON_GPU_GRADIENT_CORES(f16, Half)
TENON_GPU_GRADIENT_CORES(bf16, Bfloat16)

}  // namespace tenon::gpu
#endif
