// SPDX-License-Identifier: Apache-2.0
#include "code/segment.h"

#include "code/chosen.h"
#include "code/each.h"

namespace tenon::gpu {

// What a T is summed as; integers wrap.
template <class T>
using SumOf =
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>, Wide<T>>;

template <class A>
TENON_GPU_FUNCTION A DivisorOf(Over over, int64_t count) {
  if constexpr (std::is_floating_point_v<A>) {
    if (over == Over::kCount) return sdk::Divisor<Over::kCount, A>(count);
    if (over == Over::kRoot) return sdk::Divisor<Over::kRoot, A>(count);
  }
  return A(1);
}

// ---- Sums ----

// A segment as far as a thread has summed it.
template <class A>
struct Segment {
  int64_t id;
  A sum;
  int64_t count;
};

template <class T>
TENON_GPU_FUNCTION void WriteSegment(const SegmentSumParams& p, const Segment<SumOf<T>>& segment, int64_t column) {
  using A = SumOf<T>;
  if (segment.id < 0 || segment.id >= p.out_rows) return;
  const A sum = p.over == Over::kOne ? segment.sum : segment.sum / DivisorOf<A>(p.over, segment.count);
  static_cast<T*>(p.out)[segment.id * p.width.size + column] = static_cast<T>(sum);
}
template <class A>
TENON_GPU_FUNCTION void PassOn(const SegmentSumParams& p, const Segment<A>& segment, int64_t slot, int64_t column) {
  static_cast<A*>(p.partial)[slot * p.width.size + column] = segment.sum;
  if (column != 0) return;
  p.partial_ids[slot] = segment.id;
  p.partial_counts[slot] = segment.count;
}

template <class In, class A>
TENON_GPU_FUNCTION A SegmentTerm(const SegmentSumParams& p, int64_t i, int64_t column) {
  int64_t row = i;
  if (p.rows.at != nullptr) {
    row = IndexOf(p.rows, i);
    if (row < 0 || row >= p.x_rows) {
      if (column == 0) Report(p.row, i, row, p.x_rows);
      return A(0);
    }
  }
  const A term = static_cast<A>(static_cast<const In*>(p.x)[row * p.width.size + column]);
  return p.scales == nullptr ? term : term * static_cast<const A*>(p.scales)[i];
}

template <class In, class T>
TENON_GPU_FUNCTION void SumSegments(const SegmentSumParams& p) {
  using A = SumOf<T>;
  ForEachIndex(p.total, [&]<class Index>(Index item) {
    const int64_t column = TakeDim(&item, p.width);
    const auto chunk = static_cast<int64_t>(item);
    const int64_t begin = chunk * p.chunk, end = begin + p.chunk < p.count ? begin + p.chunk : p.count;
    Segment<A> segment = {IndexOf(p.ids, begin), A(0), 0};
    bool is_first = true;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t id = IndexOf(p.ids, i);
      if (id != segment.id) {
        if (is_first && p.chunks > 1) PassOn(p, segment, 2 * chunk, column);
        else WriteSegment<T>(p, segment, column);
        is_first = false;
        segment = {id, A(0), 0};
      }
      segment.sum += SegmentTerm<In, A>(p, i, column);
      segment.count += p.counts == nullptr ? 1 : p.counts[i];
    }
    if (p.chunks == 1) return WriteSegment<T>(p, segment, column);
    PassOn(p, segment, 2 * chunk + (is_first ? 0 : 1), column);
    // The same segment goes on: nothing more of it.
    if (is_first) PassOn(p, Segment<A>{segment.id, A(0), 0}, 2 * chunk + 1, column);
  });
}

TENON_GPU_FUNCTION void CheckSegments(const SegmentCheckParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t id = IndexOf(p.ids, i), before = i == 0 ? 0 : IndexOf(p.ids, i - 1);
    if (id < before) Report(i == 0 ? p.first : p.order, i, id, 0);
    if (id == INT64_MAX) Report(p.last, i, id, 0);
    if (i == p.count - 1) *p.rows = id < 0 || id == INT64_MAX ? 0 : id + 1;
  }
}

// ---- Gradients ----

TENON_GPU_FUNCTION void MakeGradKeys(const SegmentKeyParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t row = IndexOf(p.indices, i), id = IndexOf(p.ids, i);
    const bool has_row = row >= 0 && row < p.rows, has_id = id >= 0 && id < p.segments;
    if (!has_row) Report(p.index, i, row, p.rows);
    if (!has_id) Report(p.id, i, id, p.segments);
    else AtomicAdd(&p.counts[id], uint32_t{1});
    p.keys[i] = static_cast<uint64_t>(has_row && has_id ? row : p.rows);
  }
}

template <class A>
TENON_GPU_FUNCTION void MakeGradRows(const SegmentGradParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t id = IndexOf(p.ids, p.places[i]);
    const bool is_one = id >= 0 && id < p.segments;
    p.rows[i] = is_one ? id : 0;
    static_cast<A*>(p.scales)[i] = is_one ? A(1) / DivisorOf<A>(p.over, p.counts[id]) : A(0);
  }
}

TENON_GPU_FUNCTION bool IsNewKey(const SegmentNamedParams& p, int64_t i) {
  return p.keys[i] < static_cast<uint64_t>(p.rows) && (i == 0 || p.keys[i - 1] != p.keys[i]);
}
TENON_GPU_FUNCTION void CountNamed(const SegmentNamedParams& p) {
  CountChosen(p.count, p.sums, [&](int64_t i) { return IsNewKey(p, i); });
}
TENON_GPU_FUNCTION void WriteNamed(const SegmentNamedParams& p) {
  ForEachRanked(p.count, p.sums, [&](int64_t i) { return IsNewKey(p, i); }, [&](int64_t i, bool is_new, int64_t rank) {
    p.ids[i] = p.keys[i] < static_cast<uint64_t>(p.rows) ? rank - (is_new ? 0 : 1) : -1;
    if (!is_new) return;
    const auto row = static_cast<int64_t>(p.keys[i]);
    if (p.named_bytes == 8) static_cast<int64_t*>(p.named)[rank] = row;
    else static_cast<int32_t*>(p.named)[rank] = static_cast<int32_t>(row);
  });
}

// ---- SparseTensorDenseMatMul ----

TENON_GPU_FUNCTION void MakeSparseKeys(const SparseKeyParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t m = IndexOf(p.indices, 2 * i + (p.turned != 0 ? 1 : 0)),
                  k = IndexOf(p.indices, 2 * i + (p.turned != 0 ? 0 : 1));
    const bool has_depth = k >= 0 && k < p.inner, has_row = m >= 0 && m < p.rows;
    if (!has_depth) Report(p.depth, i, k, p.inner);
    else if (!has_row) Report(p.row, i, m, p.rows);
    p.keys[i] = static_cast<uint64_t>(has_depth && has_row ? m : p.rows);
  }
}
template <class T>
TENON_GPU_FUNCTION void MakeSparseRows(const SparseRowParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const int64_t place = p.places[i];
    p.rows[i] = IndexOf(p.indices, 2 * place + (p.turned != 0 ? 0 : 1));
    static_cast<SumOf<T>*>(p.scales)[i] = static_cast<SumOf<T>>(static_cast<const T*>(p.values)[place]);
  }
}

TENON_GPU_KERNEL(SegmentCheck, SegmentCheckParams, CheckSegments)
TENON_GPU_KERNEL(SegmentGradKeys, SegmentKeyParams, MakeGradKeys)
TENON_GPU_KERNEL(SegmentGradRows_f32, SegmentGradParams, MakeGradRows<float>)
TENON_GPU_KERNEL(SegmentGradRows_f64, SegmentGradParams, MakeGradRows<double>)
TENON_GPU_BLOCK_KERNEL(SegmentNamedCount, SegmentNamedParams, CountNamed)
TENON_GPU_BLOCK_KERNEL(SegmentNamed, SegmentNamedParams, WriteNamed)
TENON_GPU_KERNEL(SparseProductKeys, SparseKeyParams, MakeSparseKeys)
#define TENON_GPU_SEGMENTS(suffix, T)                                               \
  TENON_GPU_KERNEL(SegmentSum_##suffix, SegmentSumParams, SumSegments<T, T>)        \
  TENON_GPU_KERNEL(SegmentSumNext_##suffix, SegmentSumParams, SumSegments<SumOf<T>, T>) \
  TENON_GPU_KERNEL(SparseProductRows_##suffix, SparseRowParams, MakeSparseRows<T>)
TENON_GPU_SEGMENTS(f32, float)
TENON_GPU_SEGMENTS(f64, double)
TENON_GPU_SEGMENTS(f16, Half)
TENON_GPU_SEGMENTS(bf16, Bfloat16)
TENON_GPU_SEGMENTS(i32, int32_t)
TENON_GPU_SEGMENTS(i64, int64_t)

}  // namespace tenon::gpu
