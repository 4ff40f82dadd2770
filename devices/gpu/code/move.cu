// SPDX-License-Identifier: Apache-2.0
#include "code/move.h"

#include "code/each.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::gpu {

// ---- Strided walks ----

template <class T>
TENON_GPU_FUNCTION void Move(const MoveParams& p) {
  const T* const source = static_cast<const T*>(p.source);
  ForEach(static_cast<T*>(p.target), p.total, [&]<class Index>(Index i, int64_t* to) {
    int64_t from = TakeDim(&i, p.inner);
    *to = from;
    TENON_GPU_ROLLED for (int d = p.rank - 1; d >= 0; --d) {
      const int64_t at = TakeDim(&i, p.dims[d]);
      from += at * p.source_strides[d];
      *to += at * p.target_strides[d];
    }
    return source[from];
  });
}

// One element more a row of the square, so that the threads of a warp meet different banks both ways.
template <class T>
TENON_GPU_FUNCTION void SwapTiles(const SwapParams& p) {
  constexpr uint32_t kTile = TileOf(sizeof(T));
  TENON_GPU_SHARED(T, square, kTile * (kTile + 1));
  for (int64_t tile = BlockX(); tile < p.tiles; tile += BlocksX()) {
    auto rest = static_cast<uint64_t>(tile);
    const int64_t left = TakeDim(&rest, p.tiles_across) * kTile;
    const int64_t top = TakeDim(&rest, p.tiles_down) * kTile;
    const T* source = static_cast<const T*>(p.source) + top + left * p.source_stride;
    T* target = static_cast<T*>(p.target) + left + top * p.target_stride;
    TENON_GPU_ROLLED for (int d = p.rank - 1; d >= 0; --d) {
      const int64_t at = TakeDim(&rest, p.dims[d]);
      source += at * p.source_strides[d];
      target += at * p.target_strides[d];
    }
    for (uint32_t e = BlockThread(); e < kTile * kTile; e += BlockThreads()) {
      const uint32_t fast = e % kTile, slow = e / kTile;
      if (top + fast < p.down && left + slow < p.across)
        square[slow * (kTile + 1) + fast] = source[fast + slow * p.source_stride];
    }
    Barrier();
    for (uint32_t e = BlockThread(); e < kTile * kTile; e += BlockThreads()) {
      const uint32_t fast = e % kTile, slow = e / kTile;
      if (top + slow < p.down && left + fast < p.across)
        target[fast + slow * p.target_stride] = square[fast * (kTile + 1) + slow];
    }
    Barrier();
  }
}

// ---- Pads: every element of the output is written once ----

template <class T>
TENON_GPU_FUNCTION void Pad(const PadParams& p) {
  const T* const source = static_cast<const T*>(p.source);
  const T value = p.value == nullptr ? T{} : *static_cast<const T*>(p.value);
  ForEach(static_cast<T*>(p.target), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    int64_t from = TakeDim(&i, p.inner);
    bool inside = true;
    TENON_GPU_ROLLED for (int d = p.rank - 1; d >= 0; --d) {
      const int64_t at = TakeDim(&i, p.dims[d]) - p.before[d];
      inside = inside && at >= 0 && at < p.sizes[d];
      from += at * p.strides[d];
    }
    return inside ? source[from] : value;
  });
}

template <class T>
TENON_GPU_FUNCTION void MirrorPad(const PadParams& p) {
  const T* const source = static_cast<const T*>(p.source);
  ForEach(static_cast<T*>(p.target), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    int64_t from = TakeDim(&i, p.inner);
    TENON_GPU_ROLLED for (int d = p.rank - 1; d >= 0; --d) {
      int64_t at = TakeDim(&i, p.dims[d]) - p.before[d];
      if (at < 0) at = p.overlap - 1 - at;
      if (at >= p.sizes[d]) at = 2 * p.sizes[d] - 1 - p.overlap - at;
      from += at * p.strides[d];
    }
    return source[from];
  });
}

// For each inner element the sum of the outer ones that mirror it, in their order: up to three places a dim.
template <class T>
TENON_GPU_FUNCTION void MirrorPadGrad(const PadParams& p) {
  const T* const source = static_cast<const T*>(p.source);
  T* const target = static_cast<T*>(p.target);
  for (int64_t i = Thread(); i < p.total; i += Threads()) {
    auto rest = static_cast<uint64_t>(i);
    int64_t base = TakeDim(&rest, p.inner);
    int64_t places[kMostMoveDims][3];
    int8_t counts[kMostMoveDims], chosen[kMostMoveDims];
    TENON_GPU_ROLLED for (int d = p.rank - 1; d >= 0; --d) {
      const int64_t at = TakeDim(&rest, p.dims[d]), before = p.before[d], size = p.sizes[d];
      int8_t count = 0;
      const int64_t left = before + p.overlap - 1 - at, right = before + 2 * size - 1 - p.overlap - at;
      if (left >= 0 && left < before) places[d][count++] = left * p.strides[d];
      places[d][count++] = (at + before) * p.strides[d];
      if (right >= before + size && right < p.outer_sizes[d]) places[d][count++] = right * p.strides[d];
      counts[d] = count;
      chosen[d] = 0;
      base += places[d][0];
    }
    T sum = T(0);
    while (true) {
      sum = sdk::AddOrSubtract<false>(sum, source[base]);
      int d = p.rank - 1;
      for (; d >= 0; --d) {
        base -= places[d][chosen[d]];
        chosen[d] = static_cast<int8_t>(chosen[d] + 1 < counts[d] ? chosen[d] + 1 : 0);
        base += places[d][chosen[d]];
        if (chosen[d] != 0) break;
      }
      if (d < 0) break;
    }
    target[i] = sum;
  }
}

// ---- Tensors side by side ----

template <class T, bool kJoins>
TENON_GPU_FUNCTION void MovePiece(const PiecesParams& p) {
  const PiecesParams::Piece& piece = p.pieces[BlockY()];
  T* const apart = reinterpret_cast<T*>(piece.at);
  T* const whole = reinterpret_cast<T*>(p.whole) + piece.offset;
  ForEach(kJoins ? whole : apart, p.outer * piece.width.size, [&]<class Index>(Index i, int64_t* to) {
    const auto at = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, piece.width);
    const int64_t beside = static_cast<int64_t>(i) * p.row + column;
    *to = kJoins ? beside : at;
    return kJoins ? apart[at] : whole[beside];
  });
}

// ---- Fills ----

template <class T>
TENON_GPU_FUNCTION void Fill(const FillParams& p) {
  constexpr int64_t kMany = 16 / sizeof(T);
  struct alignas(16) Pack {
    T at[kMany];
  };
  const T value = *static_cast<const T*>(p.value == nullptr ? static_cast<const void*>(p.pattern) : p.value);
  T* const target = static_cast<T*>(p.target);
  int64_t begin = 0;
  if ((reinterpret_cast<uintptr_t>(target) & 15) == 0) {
    Pack pack;
    for (int k = 0; k < kMany; ++k) pack.at[k] = value;
    const int64_t packs = p.count / kMany;
    for (int64_t i = Thread(); i < packs; i += Threads()) reinterpret_cast<Pack*>(target)[i] = pack;
    begin = packs * kMany;
  }
  for (int64_t i = begin + Thread(); i < p.count; i += Threads()) target[i] = value;
}

TENON_GPU_FUNCTION void RangeWhole(const RangeParams& p) {
  auto* const target = static_cast<uint64_t*>(p.target);
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    target[i] = static_cast<uint64_t>(p.start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(p.delta);
  }
}

template <class T>
TENON_GPU_FUNCTION void RangeSum(const RangeSumParams& p) {
  using A = Wide<T>;
  T* const target = static_cast<T*>(p.target);
  for (int64_t run = Thread(); run * kRangeRun < p.count; run += Threads()) {
    A value = static_cast<A>(p.starts[run]);
    for (int64_t i = run * kRangeRun; i < p.count && i < (run + 1) * kRangeRun; ++i) {
      target[i] = static_cast<T>(value);
      value = static_cast<A>(static_cast<T>(value + static_cast<A>(p.delta)));
    }
  }
}

template <class T>
TENON_GPU_FUNCTION void LinSpace(const LinSpaceParams& p) {
  const T start = *static_cast<const T*>(p.start), stop = *static_cast<const T*>(p.stop);
  const T step = (stop - start) / static_cast<T>(p.count > 1 ? p.count - 1 : 1);
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    static_cast<T*>(p.target)[i] = i == 0 ? start : i == p.count - 1 ? stop : start + step * static_cast<T>(i);
  }
}

#define TENON_GPU_MOVES(bytes, Unit, Element)                                      \
  TENON_GPU_KERNEL(Move_##bytes, MoveParams, Move<Unit>)                           \
  TENON_GPU_BLOCK_KERNEL(SwapTiles_##bytes, SwapParams, SwapTiles<Element>)        \
  TENON_GPU_KERNEL(Pad_##bytes, PadParams, Pad<Unit>)                              \
  TENON_GPU_KERNEL(MirrorPad_##bytes, PadParams, MirrorPad<Unit>)                  \
  TENON_GPU_KERNEL(Join_##bytes, PiecesParams, MovePiece<Unit, true>)              \
  TENON_GPU_KERNEL(Part_##bytes, PiecesParams, MovePiece<Unit, false>)             \
  TENON_GPU_KERNEL(Fill_##bytes, FillParams, Fill<Element>)
TENON_GPU_MOVES(1, uint8_t, uint8_t)
TENON_GPU_MOVES(2, uint16_t, uint16_t)
TENON_GPU_MOVES(4, uint32_t, uint32_t)
TENON_GPU_MOVES(8, uint64_t, uint64_t)
TENON_GPU_MOVES(16, Aligned16, sdk::Bytes16)

#define TENON_GPU_MIRROR_GRAD(suffix, T) TENON_GPU_KERNEL(MirrorPadGrad_##suffix, PadParams, MirrorPadGrad<T>)
TENON_GPU_MIRRORED_TYPES(TENON_GPU_MIRROR_GRAD)

TENON_GPU_KERNEL(RangeWhole_i64, RangeParams, RangeWhole)
TENON_GPU_KERNEL(Range_f32, RangeSumParams, RangeSum<float>)
TENON_GPU_KERNEL(Range_f64, RangeSumParams, RangeSum<double>)
TENON_GPU_KERNEL(Range_f16, RangeSumParams, RangeSum<Half>)
TENON_GPU_KERNEL(Range_bf16, RangeSumParams, RangeSum<Bfloat16>)
TENON_GPU_KERNEL(LinSpace_f32, LinSpaceParams, LinSpace<float>)
TENON_GPU_KERNEL(LinSpace_f64, LinSpaceParams, LinSpace<double>)

}  // namespace tenon::gpu
