// SPDX-License-Identifier: Apache-2.0
// A warp has 16 rows of the block's own side; a lane every 4th of them, and every 8th of the other side's that are
// loaded. Shared memory has the block's own rows of both operands (queries and G, or keys and values), one tile of the
// other side, which changes operands within a step, and P or dS of the step.
#include "code/attention_gradient_row.h"
#include "code/shared_rows.h"

namespace tenon::gpu {

template <class T, AttentionTile kTile>
class AttentionGradient {
  static constexpr int kThreads = AttentionThreads(kTile), kGroups = kTile.depth / 4, kWeightGroups = kTile.keys / 4;
  static constexpr int kRows = 4, kColumns = kTile.keys / 8,
                       kParts = kTile.depth / 32;  // of a lane; a part is a group of an output row
  using Products = float[kRows][kColumns];
  using Sums = float[kRows][kParts * 4];
  using Operands = GradientOperands<T>;
  using Rows = typename Operands::Rows;

 public:
  static constexpr int kOwnSpace = kTile.queries * kGroups, kOtherSpace = kTile.keys * kGroups,
                       kWeightSpace = kTile.queries * kWeightGroups;

  // What lies in shared memory: rows of the two operands that the block owns, of the other side's, and weights, [own
  // row, other row].
  struct Space {
    Four<float>*first, *second, *other, *weights;
  };
  TENON_GPU_FUNCTION AttentionGradient(const AttentionGradientParams& p, const Space& space)
      : p_(p),
        of_(p.of),
        space_(space),
        lane_row_(static_cast<int>(Lane() / 8)),
        lane_column_(static_cast<int>(Lane() % 8)) {}

  TENON_GPU_FUNCTION void OfQueries(int64_t batch, int64_t first) {
    const Operands operands = LocateGradient<T>(p_, batch);
    idle_ = first + WarpRow() >= of_.queries;
    LoadOwn(operands.query, operands.gradient, first);
    const Scores<T, kRows> scores(of_, LocateAttention(of_, batch).mask, [&](int i) { return first + RowOf(i); });
    AttentionRow rows[kRows];
    ReadRows(operands, scores, rows);
    if (lane_column_ == 0) {
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < kRows; ++i) {
        if (first + RowOf(i) < of_.queries) p_.rows[batch * of_.queries + first + RowOf(i)] = rows[i];
      }
    }
    if (p_.of_query == nullptr) return;
    Sums sums = {};
    TENON_GPU_UNROLL(1)
    for (int64_t key = 0; key < of_.keys; key += kTile.keys) {
      Products products = {}, dots = {};
      MultiplyByKeys(operands, scores, key, products, dots);
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < kRows; ++i) {
        TENON_GPU_UNROLL_ALL
        for (int j = 0; j < kColumns; ++j)
          products[i][j] = Raise(dots[i][j] - rows[i].base) * rows[i].share * (products[i][j] - rows[i].dot);
      }
      StoreWeights(products);
      Barrier();
      AddOther(sums);  // which are the keys
    }
    Store(operands.of_query, p_.of_query_at.row, first, of_.queries, of_.depth, p_.gradient_scale, sums);
  }

  TENON_GPU_FUNCTION void OfKeys(int64_t batch, int64_t first) {
    const Operands operands = LocateGradient<T>(p_, batch);
    idle_ = first + WarpRow() >= of_.keys;
    LoadOwn(operands.key, operands.value, first);
    const KeyWeights<T, kRows> keys(p_, batch, operands.mask, [&](int i) { return first + RowOf(i); });
    Sums of_key = {}, of_value = {};
    TENON_GPU_UNROLL(1)
    for (int64_t query = 0; query < of_.queries; query += kTile.keys) {
      Products weights = {}, products = {};
      Multiply(operands.query, query, space_.first, weights);
      Multiply(operands.gradient, query, space_.second, products);
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kColumns; ++j) {
        keys.Weigh(
            query + ColumnOf(j), [&](int i) -> float& { return weights[i][j]; },
            [&](int i) -> float& { return products[i][j]; });
      }
      if (p_.of_value != nullptr) {
        StoreWeights(weights);
        Barrier();
        AddOther(of_value);  // which are G
      }
      if (p_.of_key == nullptr) continue;
      Barrier();  // weights have been read
      StoreWeights(products);
      LoadOther(operands.query, query);
      Barrier();
      AddOther(of_key);
    }
    if (p_.of_key != nullptr)
      Store(operands.of_key, p_.of_key_at.row, first, of_.keys, of_.depth, p_.gradient_scale, of_key);
    if (p_.of_value != nullptr)
      Store(operands.of_value, p_.of_value_at.row, first, of_.keys, of_.value_depth, 1.0f, of_value);
  }

 private:
  TENON_GPU_FUNCTION static int WarpRow() { return static_cast<int>(BlockThread() / kWarp) * 16; }
  TENON_GPU_FUNCTION int RowOf(int i) const { return WarpRow() + lane_row_ + 4 * i; }
  TENON_GPU_FUNCTION int ColumnOf(int j) const { return lane_column_ + 8 * j; }
  TENON_GPU_FUNCTION static int WeightAt(int row, int group) {
    return row * kWeightGroups + (kWeightGroups >= 8 ? group ^ (row & 7) : group ^ (row >> 1 & 3));
  }

  TENON_GPU_FUNCTION void LoadOwn(const Rows& first, const Rows& second, int64_t row) const {
    Barrier();  // what the last batch's have may still be read
    LoadRows<T, kTile.queries, kTile.depth, kThreads, RowSwizzle::kByLane>(first.at, first.step, row, first.count,
                                                                           first.depth, of_.even, space_.first);
    LoadRows<T, kTile.queries, kTile.depth, kThreads, RowSwizzle::kByLane>(second.at, second.step, row, second.count,
                                                                           second.depth, of_.even, space_.second);
  }
  TENON_GPU_FUNCTION void LoadOther(const Rows& rows, int64_t first) const {
    LoadRows<T, kTile.keys, kTile.depth, kThreads, RowSwizzle::kByLane>(rows.at, rows.step, first, rows.count,
                                                                        rows.depth, of_.even, space_.other);
  }

  // Adds products of own rows and others, which are loaded and stay.
  TENON_GPU_FUNCTION void Multiply(const Rows& rows, int64_t first, const Four<float>* own, Products& products) const {
    Barrier();  // others and weights have been read
    LoadOther(rows, first);
    Barrier();
    if (idle_) return;
    TENON_GPU_UNROLL(1)
    for (int group = 0; group < kGroups; ++group) {
      Four<float> others[kColumns];
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kColumns; ++j)
        others[j] = space_.other[ColumnOf(j) * kGroups + GroupAt<RowSwizzle::kByLane>(lane_column_, group)];
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < kRows; ++i) {
        const Four<float> row = own[RowOf(i) * kGroups + GroupAt<RowSwizzle::kByLane>(lane_row_ + 4 * i, group)];
        TENON_GPU_UNROLL_ALL
        for (int k = 0; k < 4; ++k) {
          TENON_GPU_UNROLL_ALL
          for (int j = 0; j < kColumns; ++j) products[i][j] += row.at[k] * others[j].at[k];
        }
      }
    }
  }
  // dP and the scores of own queries and a step's keys, which stay.
  TENON_GPU_FUNCTION void MultiplyByKeys(const Operands& operands, const Scores<T, kRows>& scores, int64_t key,
                                         Products& products, Products& dots) const {
    Multiply(operands.value, key, space_.second, products);
    Multiply(operands.key, key, space_.first, dots);
    scores.template Finish<kColumns, kTile.keys>(
        key, [&](int i, int j) -> float& { return dots[i][j]; }, [&](int j) { return ColumnOf(j); });
  }

  TENON_GPU_FUNCTION void ReadRows(const Operands& operands, const Scores<T, kRows>& scores,
                                   AttentionRow (&rows)[kRows]) const {
    RunningGradient running[kRows];
    TENON_GPU_UNROLL(1)
    for (int64_t key = 0; key < of_.keys; key += kTile.keys) {
      Products products = {}, dots = {};
      MultiplyByKeys(operands, scores, key, products, dots);
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < kRows; ++i) {
        float most = kNoScore, base;
        TENON_GPU_UNROLL_ALL
        for (int j = 0; j < kColumns; ++j) most = LargerScore(most, dots[i][j]);
        running[i].dot *= running[i].Rise(MostOfRow<8>(most), &base);
        TENON_GPU_UNROLL_ALL
        for (int j = 0; j < kColumns; ++j) running[i].Add(Raise(dots[i][j] - base), products[i][j]);
      }
    }
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) rows[i] = running[i].template Finish<8>();
  }

  TENON_GPU_FUNCTION void StoreWeights(const Products& weights) const {
    auto* const at = reinterpret_cast<float*>(space_.weights);
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) {
      TENON_GPU_UNROLL_ALL
      for (int j = 0; j < kColumns; ++j) at[WeightAt(RowOf(i), ColumnOf(j) / 4) * 4 + ColumnOf(j) % 4] = weights[i][j];
    }
  }
  TENON_GPU_FUNCTION void AddOther(Sums& sums) const {
    if (idle_) return;
    TENON_GPU_UNROLL(1)
    for (int group = 0; group < kWeightGroups; ++group) {
      Four<float> weights[kRows];
      TENON_GPU_UNROLL_ALL
      for (int i = 0; i < kRows; ++i) weights[i] = space_.weights[WeightAt(RowOf(i), group)];
      TENON_GPU_UNROLL_ALL
      for (int k = 0; k < 4; ++k) {
        const int other = group * 4 + k;
        TENON_GPU_UNROLL_ALL
        for (int part = 0; part < kParts; ++part) {
          const Four<float> four =
              space_.other[other * kGroups + GroupAt<RowSwizzle::kByLane>(other, lane_column_ + 8 * part)];
          TENON_GPU_UNROLL_ALL
          for (int i = 0; i < kRows; ++i) {
            TENON_GPU_UNROLL_ALL
            for (int e = 0; e < 4; ++e) sums[i][part * 4 + e] += weights[i].at[k] * four.at[e];
          }
        }
      }
    }
  }

  TENON_GPU_FUNCTION void Store(T* to, int64_t step, int64_t first, int64_t count, int depth, float scale,
                                const Sums& sums) const {
    TENON_GPU_UNROLL_ALL
    for (int i = 0; i < kRows; ++i) {
      if (first + RowOf(i) >= count) continue;
      TENON_GPU_UNROLL_ALL
      for (int part = 0; part < kParts; ++part) {
        const int column = (lane_column_ + 8 * part) * 4;
        if (column >= depth) continue;
        Four<T> four;
        TENON_GPU_UNROLL_ALL
        for (int e = 0; e < 4; ++e) four.at[e] = static_cast<T>(sums[i][part * 4 + e] * scale);
        T* const at = to + (first + RowOf(i)) * step + column;
        if (p_.even) {
          *reinterpret_cast<Four<T>*>(at) = four;
        } else {
          for (int e = 0; e < 4; ++e) at[e] = four.at[e];
        }
      }
    }
  }

  const AttentionGradientParams& p_;
  const AttentionParams& of_;
  const Space space_;
  const int lane_row_, lane_column_;
  bool idle_ = false;  // of a warp without a row of its own nothing is asked but to bring others
};

template <class T, AttentionTile kTile, bool kOfKeys>
TENON_GPU_FUNCTION void GradientOfAttention(const AttentionGradientParams& p) {
  using A = AttentionGradient<T, kTile>;
  TENON_GPU_SHARED(Four<float>, first, A::kOwnSpace);
  TENON_GPU_SHARED(Four<float>, second, A::kOwnSpace);
  TENON_GPU_SHARED(Four<float>, other, A::kOtherSpace);
  TENON_GPU_SHARED(Four<float>, weights, A::kWeightSpace);
  A gradient(p, {first, second, other, weights});
  RunGradient<kOfKeys>(p, kTile.queries, gradient);
}

#define TENON_GPU_ATTENTION_GRADIENT_OF(depth, suffix, T, tile)                                                       \
  TENON_GPU_BLOCK_KERNEL_OF(AttentionThreads(tile), AttentionQueryGradient_##depth##_##suffix,                        \
                            AttentionGradientParams, GradientOfAttention<T, tile, false>)                             \
  TENON_GPU_BLOCK_KERNEL_OF(AttentionThreads(tile), AttentionKeyGradient_##depth##_##suffix, AttentionGradientParams, \
                            GradientOfAttention<T, tile, true>)
#define TENON_GPU_ATTENTION_GRADIENT(suffix, T)                        \
  TENON_GPU_ATTENTION_GRADIENT_OF(32, suffix, T, kShortGradients)      \
  TENON_GPU_ATTENTION_GRADIENT_OF(64, suffix, T, kMiddleGradients)     \
  TENON_GPU_ATTENTION_GRADIENT_OF(128, suffix, T, kLongGradients)
TENON_GPU_ATTENTION_GRADIENT(f32, float)
#if !defined(__CUDACC__)  // whose GPUs have tensor cores
TENON_GPU_ATTENTION_GRADIENT(f16, Half)
TENON_GPU_ATTENTION_GRADIENT(bf16, Bfloat16)
#endif

}  // namespace tenon::gpu
