// SPDX-License-Identifier: Apache-2.0
// The device code of every reduction, whatever is summed: elements, squares, the place of a maximum, moments of a
// batch.
//
//   struct Policy {
//     explicit Policy(const Params& p);
//     using Part = float;                                    // of few elements
//     using Total = double;                                  // of many; at most kPartialBytes
//     static Total First();                                  // of none
//     template <class A> static A Merge(A a, A b);           // of Part and Total
//     Part Load(int64_t at, int64_t o, int64_t r) const;     // element `at` of the input: the r-th that result o is of
//     void Store(int64_t o, Total total) const;              // called once for a result
//     using Element = T; const T* elements() const;          // optional: Load(at, ...) is Of(elements()[at]), by packs
//     Part Of(T element) const;
//     Policy At(int64_t o) const;                            // optional: one that knows more of result o, asked once
//     for many elements bool Skips(int64_t o) const;                           // optional: result o is not wanted:
//     nothing is read or stored
//   };
//   TENON_GPU_REDUCTION(Sum, f32, ReduceParams, Policy)
//
// The order in which elements are merged depends on the shape and the number of the GPU's processors alone.
#ifndef TENON_DEVICES_GPU_CODE_REDUCTION_H_
#define TENON_DEVICES_GPU_CODE_REDUCTION_H_

#include "code/group.h"
#include "code/pack.h"
#include "code/reduce.h"

namespace tenon::gpu {

template <class Index>
TENON_GPU_FUNCTION int64_t OffsetOf(const WalkShape& walk, Index index) {
  int64_t offset = 0;
  TENON_GPU_UNROLL(1)
  for (int d = walk.rank - 1; d > 0; --d) {
    const auto dim = static_cast<Index>(walk.dims[d]);
    const Index above = index / dim;
    offset += static_cast<int64_t>(index - above * dim) * walk.strides[d];
    index = above;
  }
  return walk.rank > 0 ? offset + static_cast<int64_t>(index) * walk.strides[0] : 0;
}
TENON_GPU_FUNCTION int64_t Offset(const WalkShape& walk, int64_t index) {
  if (walk.rank <= 1) return walk.rank == 0 ? 0 : index * walk.strides[0];
  // 32 bits divide faster.
  return index <= INT32_MAX ? OffsetOf(walk, static_cast<uint32_t>(index))
                            : OffsetOf(walk, static_cast<uint64_t>(index));
}

// load(r) for r = begin, begin + step, ... below end, four at a time.
template <class Policy, class Load>
TENON_GPU_FUNCTION typename Policy::Total MergeEvery(int64_t begin, int64_t end, int64_t step, const Load& load) {
  using Part = typename Policy::Part;
  using Total = typename Policy::Total;
  Total total = Policy::First();
  int64_t r = begin;
  TENON_GPU_UNROLL(1)
  for (; r + 3 * step < end; r += 4 * step) {
    const Part a = load(r), b = load(r + step), c = load(r + 2 * step), d = load(r + 3 * step);
    total = Policy::template Merge<Total>(
        total, static_cast<Total>(Policy::template Merge<Part>(Policy::template Merge<Part>(a, b),
                                                               Policy::template Merge<Part>(c, d))));
  }
  TENON_GPU_UNROLL(1)
  for (; r < end; r += step) total = Policy::template Merge<Total>(total, static_cast<Total>(load(r)));
  return total;
}

// The policy for one result.
template <class Policy>
TENON_GPU_FUNCTION Policy PolicyAt(const Policy& policy, int64_t o) {
  if constexpr (requires { policy.At(o); }) {
    return policy.At(o);
  } else {
    return policy;
  }
}
template <class Policy>
TENON_GPU_FUNCTION bool Skips(const Policy& policy, int64_t o) {
  if constexpr (requires { policy.Skips(o); }) {
    return policy.Skips(o);
  } else {
    return false;
  }
}

// What one thread of `step` merges of a line: n elements from `at` on, `stride` apart, the first being the r-th of
// result o.
template <class Policy>
TENON_GPU_FUNCTION typename Policy::Total MergeLine(const Policy& policy, int64_t at, int64_t stride, int64_t o,
                                                    int64_t r, int64_t n, int64_t lane, int64_t step) {
  if constexpr (requires { typename Policy::Element; }) {
    using Part = typename Policy::Part;
    using Total = typename Policy::Total;
    using Elements = Pack<typename Policy::Element>;
    const auto* from = policy.elements() + at;
    if (stride == 1) {
      // In the same order wherever the line begins.
      const bool even = IsEven(from, nullptr);
      const int64_t packs = n / Elements::kCount;
      Total total = Policy::First();
      TENON_GPU_UNROLL(2)
      for (int64_t i = lane; i < packs; i += step) {
        Elements pack;
        if (even) {
          pack = reinterpret_cast<const Elements*>(from)[i];
        } else {
          for (int k = 0; k < Elements::kCount; ++k) pack.at[k] = from[i * Elements::kCount + k];
        }
        Part part = policy.Of(pack.at[0]);
        for (int k = 1; k < Elements::kCount; ++k) part = Policy::template Merge<Part>(part, policy.Of(pack.at[k]));
        total = Policy::template Merge<Total>(total, static_cast<Total>(part));
      }
      TENON_GPU_UNROLL(1)
      for (int64_t i = packs * Elements::kCount + lane; i < n; i += step) {
        total = Policy::template Merge<Total>(total, static_cast<Total>(policy.Of(from[i])));
      }
      return total;
    }
  }
  return MergeEvery<Policy>(lane, n, step, [&](int64_t i) { return policy.Load(at + i * stride, o, r + i); });
}

// What one thread of `step` merges of inputs [begin, end) of result o.
template <class Policy>
TENON_GPU_FUNCTION typename Policy::Total MergeShare(const Policy& of_all, const ReductionShape& s, int64_t o,
                                                     int64_t begin, int64_t end, int64_t lane, int64_t step) {
  using Total = typename Policy::Total;
  const Policy policy = PolicyAt(of_all, o);
  const int64_t base = Offset(s.kept, o);
  const int last = s.reduced.rank - 1;
  const int64_t stride = last < 0 ? 0 : s.reduced.strides[last];
  Total total = Policy::First();
  if (last > 0 && s.reduced.dims[last] < 4 * step) {  // short lines
    TENON_GPU_UNROLL(1)
    for (int64_t r = begin + lane; r < end; r += step) {
      total = Policy::template Merge<Total>(total, static_cast<Total>(policy.Load(base + Offset(s.reduced, r), o, r)));
    }
    return total;
  }
  TENON_GPU_UNROLL(1)
  for (int64_t r = begin; r < end;) {
    int64_t n = end - r, at = base + r * stride;
    if (last > 0) {
      const int64_t line = s.reduced.dims[last], rest = line - r % line;
      n = rest < n ? rest : n;
      at = base + Offset(s.reduced, r);
    }
    total = Policy::template Merge<Total>(total, MergeLine(policy, at, stride, o, r, n, lane, step));
    r += n;
  }
  return total;
}

template <class Policy>
TENON_GPU_FUNCTION void Finish(const Policy& policy, const ReductionShape& s, int64_t o, int64_t split,
                               typename Policy::Total total) {
  if (s.splits == 1) {
    policy.Store(o, total);
  } else {
    static_cast<typename Policy::Total*>(s.partial)[split * s.outputs + o] = total;
  }
}

TENON_GPU_FUNCTION int64_t ShareEnd(const ReductionShape& s, int64_t split) {
  return (split + 1) * s.per_split < s.inputs ? (split + 1) * s.per_split : s.inputs;
}

// Groups of lanes walk along the inputs.
template <class Policy, class Params>
TENON_GPU_FUNCTION void ReduceRows(const Params& p) {
  using Total = typename Policy::Total;
  const ReductionShape& s = p.shape;
  const Policy policy(p);
  ForEachItem(s.outputs * s.splits, s.lanes, [&](int64_t item, uint32_t lane, bool valid) {
    const int64_t split = s.splits == 1 ? 0 : item / s.outputs, o = item - split * s.outputs;
    valid = valid && !Skips(policy, o);
    Total total =
        valid ? MergeShare(policy, s, o, split * s.per_split, ShareEnd(s, split), lane, s.lanes) : Policy::First();
    total = GroupReduce(total, Policy::First(), s.lanes,
                        [](Total a, Total b) { return Policy::template Merge<Total>(a, b); });
    if (valid && lane == 0) Finish(policy, s, o, split, total);
  });
}

// Lanes walk along the results, the rows of a block along the inputs; the block's second dim counts the shares.
template <class Policy, class Params, bool kLast>
TENON_GPU_FUNCTION void ReduceColumns(const Params& p) {
  using Total = typename Policy::Total;
  TENON_GPU_SHARED(Total, totals, 256);
  const ReductionShape& s = p.shape;
  const Policy policy(p);
  const uint32_t column = BlockThread() % s.lanes, row = BlockThread() / s.lanes, rows = BlockThreads() / s.lanes;
  const int64_t split = BlockY(), begin = split * s.per_split, end = ShareEnd(s, split);
  for (int64_t first = static_cast<int64_t>(BlockX()) * s.lanes; first < s.outputs;
       first += static_cast<int64_t>(BlocksX()) * s.lanes) {
    const int64_t o = first + column;
    const bool valid = o < s.outputs && !Skips(policy, o);
    Total total = Policy::First();
    if constexpr (kLast) {
      const Total* partial = static_cast<const Total*>(s.partial);
      for (int64_t r = row; valid && r < s.inputs; r += rows)
        total = Policy::template Merge<Total>(total, partial[r * s.outputs + o]);
    } else if (valid) {
      total = MergeShare(policy, s, o, begin, end, row, rows);
    }
    Barrier();  // the totals may still be read from a turn before
    totals[BlockThread()] = total;
    Barrier();
    for (uint32_t half = rows / 2; half > 0; half /= 2) {
      if (row < half)
        totals[BlockThread()] =
            Policy::template Merge<Total>(totals[BlockThread()], totals[BlockThread() + half * s.lanes]);
      Barrier();
    }
    if (row == 0 && valid) Finish(policy, s, o, split, totals[column]);
  }
}

#define TENON_GPU_REDUCTION(Name, suffix, Params, ...)                                                               \
  TENON_GPU_BLOCK_KERNEL(Name##Rows_##suffix, Params, ReduceRows<__VA_ARGS__, Params>)                               \
  TENON_GPU_BLOCK_KERNEL(Name##Columns_##suffix, Params, ReduceColumns<__VA_ARGS__, Params, false>)                  \
  TENON_GPU_BLOCK_KERNEL(Name##Last_##suffix, Params, ReduceColumns<__VA_ARGS__, Params, true>)

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_REDUCTION_H_
