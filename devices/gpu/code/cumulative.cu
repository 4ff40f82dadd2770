// SPDX-License-Identifier: Apache-2.0
#include "code/cumulative.h"

#include "code/group.h"
#include "tenon/extras/kernel/elementwise.h"

namespace tenon::gpu {

struct Sums {
  template <class A>
  static TENON_GPU_FUNCTION A Combine(A x, A y) { return sdk::AddOp()(x, y); }
  // Adding it changes nothing, a -0 neither.
  template <class A>
  static TENON_GPU_FUNCTION A Neutral() { return std::is_integral_v<A> ? A(0) : -A(0); }
  template <class A>
  static TENON_GPU_FUNCTION A First() { return A(0); }
};
struct Products {
  template <class A>
  static TENON_GPU_FUNCTION A Combine(A x, A y) { return sdk::MulOp()(x, y); }
  template <class A>
  static TENON_GPU_FUNCTION A Neutral() { return A(1); }
  template <class A>
  static TENON_GPU_FUNCTION A First() { return A(1); }
};

struct CumulativeShare {
  int64_t line, split, begin, end;
};
TENON_GPU_FUNCTION CumulativeShare ShareOf(const CumulativeParams& p, int64_t line, int64_t split) {
  const int64_t end = (split + 1) * p.per_split;
  return {line, split, split * p.per_split, end < p.n ? end : p.n};
}
// Where the i-th element of a line stands, counted from the end that is first.
TENON_GPU_FUNCTION int64_t ElementOf(const CumulativeParams& p, int64_t base, int64_t i) {
  return base + (p.reverse != 0 ? p.n - 1 - i : i) * p.inner;
}
TENON_GPU_FUNCTION int64_t BaseOf(const CumulativeParams& p, int64_t line) {
  return line / p.inner * p.n * p.inner + line % p.inner;
}
// What comes before a share: the first share of an inclusive sum begins with its first element itself.
template <class Op, class A>
TENON_GPU_FUNCTION A BeforeShare(const CumulativeParams& p, const CumulativeShare& share) {
  if (share.split > 0) return static_cast<const A*>(p.totals)[share.split * p.lines + share.line];
  return p.exclusive != 0 ? Op::template First<A>() : Op::template Neutral<A>();
}

template <class Function>
TENON_GPU_FUNCTION void ForEachColumnShare(const CumulativeParams& p, const Function& function) {
  for (int64_t i = Thread(); i < p.lines * p.splits; i += Threads()) function(ShareOf(p, i % p.lines, i / p.lines));
}

template <class Op, class T>
TENON_GPU_FUNCTION void ColumnTotals(const CumulativeParams& p) {
  using A = Wide<T>;
  ForEachColumnShare(p, [&](const CumulativeShare& share) {
    const int64_t base = BaseOf(p, share.line);
    A total = Op::template Neutral<A>();
    for (int64_t i = share.begin; i < share.end; ++i) {
      total = Op::Combine(total, static_cast<A>(static_cast<const T*>(p.x)[ElementOf(p, base, i)]));
    }
    static_cast<A*>(p.totals)[share.split * p.lines + share.line] = total;
  });
}
// Every step is rounded to the element type, as what is written is what goes on.
template <class Op, class T>
TENON_GPU_FUNCTION void Columns(const CumulativeParams& p) {
  using A = Wide<T>;
  ForEachColumnShare(p, [&](const CumulativeShare& share) {
    const int64_t base = BaseOf(p, share.line);
    auto so_far = static_cast<T>(BeforeShare<Op, A>(p, share));
    for (int64_t i = share.begin; i < share.end; ++i) {
      const int64_t at = ElementOf(p, base, i);
      const auto next =
          static_cast<T>(Op::Combine(static_cast<A>(so_far), static_cast<A>(static_cast<const T*>(p.x)[at])));
      static_cast<T*>(p.out)[at] = p.exclusive != 0 ? so_far : next;
      so_far = next;
    }
  });
}

// From what shares add to what is before them; the first share has nothing before it.
template <class Op, class T>
TENON_GPU_FUNCTION void Carry(const CumulativeParams& p) {
  using A = Wide<T>;
  A* totals = static_cast<A*>(p.totals);
  for (int64_t line = Thread(); line < p.lines; line += Threads()) {
    A so_far = BeforeShare<Op, A>(p, {line, 0, 0, 0});
    for (int64_t split = 0; split < p.splits; ++split) {
      const A total = totals[split * p.lines + line];
      totals[split * p.lines + line] = so_far;
      so_far = Op::Combine(so_far, total);
    }
  }
}

// A block for a share of a line, the grid's second dim counting shares. Threads take kItems elements in a row.
constexpr int kItems = 4;
template <class Op, class T, bool kTotals>
TENON_GPU_FUNCTION void Rows(const CumulativeParams& p) {
  using A = Wide<T>;
  constexpr auto kCombine = [](A a, A b) { return Op::Combine(a, b); };
  const A neutral = Op::template Neutral<A>();
  for (int64_t line = BlockX(); line < p.lines; line += BlocksX()) {
    const CumulativeShare share = ShareOf(p, line, BlockY());
    const int64_t base = BaseOf(p, line);
    A so_far = kTotals ? neutral : BeforeShare<Op, A>(p, share);
    for (int64_t chunk = share.begin; chunk < share.end; chunk += static_cast<int64_t>(BlockThreads()) * kItems) {
      const int64_t first = chunk + static_cast<int64_t>(BlockThread()) * kItems;
      A items[kItems];
      A total = neutral;
      for (int k = 0; k < kItems; ++k) {
        items[k] =
            first + k < share.end ? static_cast<A>(static_cast<const T*>(p.x)[ElementOf(p, base, first + k)]) : neutral;
        total = Op::Combine(total, items[k]);
      }
      A before, all;
      BlockScan(total, neutral, &before, &all, kCombine);
      A upto = Op::Combine(so_far, before);
      for (int k = 0; k < kItems; ++k) {
        const A next = Op::Combine(upto, items[k]);
        if (!kTotals && first + k < share.end)
          static_cast<T*>(p.out)[ElementOf(p, base, first + k)] = static_cast<T>(p.exclusive != 0 ? upto : next);
        upto = next;
      }
      so_far = Op::Combine(so_far, all);
    }
    if (kTotals && BlockThread() == 0) static_cast<A*>(p.totals)[share.split * p.lines + line] = so_far;
  }
}

#define TENON_GPU_CUMULATIVE_OP(Name, Op, suffix, T)                                        \
  TENON_GPU_KERNEL(Name##ColumnTotals_##suffix, CumulativeParams, ColumnTotals<Op, T>)      \
  TENON_GPU_KERNEL(Name##Columns_##suffix, CumulativeParams, Columns<Op, T>)                \
  TENON_GPU_KERNEL(Name##Carry_##suffix, CumulativeParams, Carry<Op, T>)                    \
  TENON_GPU_BLOCK_KERNEL(Name##RowTotals_##suffix, CumulativeParams, Rows<Op, T, true>)     \
  TENON_GPU_BLOCK_KERNEL(Name##Rows_##suffix, CumulativeParams, Rows<Op, T, false>)
#define TENON_GPU_CUMULATIVE(suffix, T)                \
  TENON_GPU_CUMULATIVE_OP(Cumsum, Sums, suffix, T)     \
  TENON_GPU_CUMULATIVE_OP(Cumprod, Products, suffix, T)
TENON_GPU_CUMULATIVE(f32, float)
TENON_GPU_CUMULATIVE(f64, double)
TENON_GPU_CUMULATIVE(f16, Half)
TENON_GPU_CUMULATIVE(bf16, Bfloat16)
TENON_GPU_CUMULATIVE(i32, int32_t)
TENON_GPU_CUMULATIVE(i64, int64_t)

}  // namespace tenon::gpu
