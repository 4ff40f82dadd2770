// SPDX-License-Identifier: Apache-2.0
// Kernels that only move elements: their parameters. <Kernel>_<bytes of what is moved at once>: 1, 2, 4, 8 or 16.
#ifndef TENON_DEVICES_GPU_CODE_MOVE_H_
#define TENON_DEVICES_GPU_CODE_MOVE_H_

#include "code/index.h"

namespace tenon::gpu {

inline constexpr int kMostMoveDims = 16;
// 16 bytes that are loaded and stored at once: addresses are checked before.
struct alignas(16) Aligned16 {
  uint64_t low, high;
};

// Move: rows of `inner` units by `rank` outer dims, slowest first. Strides in units.
struct MoveParams {
  const void* source;
  void* target;
  int64_t total;
  Dim inner;
  int32_t rank;
  Dim dims[kMostMoveDims];
  int64_t source_strides[kMostMoveDims], target_strides[kMostMoveDims];
};

// SwapTiles: `down` elements that lie one after the other in the source, `across` that do in the target; squares of
// them go through shared memory. Other dims as for Move.
inline constexpr uint32_t kTileThreads = 256;
constexpr int64_t TileOf(int64_t element_bytes) { return element_bytes <= 2 ? 64 : 32; }
struct SwapParams {
  const void* source;
  void* target;
  int64_t tiles, down, across;
  int64_t source_stride;  // of the dim that is fast in the target
  int64_t target_stride;  // of the dim that is fast in the source
  Dim tiles_across, tiles_down;
  int32_t rank;
  Dim dims[kMostMoveDims];
  int64_t source_strides[kMostMoveDims], target_strides[kMostMoveDims];
};

// Pad, MirrorPad and MirrorPadGrad_<type>: the outer tensor has `before` elements in front of the inner one's `sizes`.
// What is behind the last padded dim is a row of `inner` units. total: units that are written.
struct PadParams {
  const void* source;
  void* target;
  const void* value;  // NULL: zero
  int64_t total;
  Dim inner;
  int32_t rank;
  int32_t overlap;  // MirrorPad: 1 where the edge is not repeated (REFLECT)
  Dim dims[kMostMoveDims];  // of what is written
  int64_t before[kMostMoveDims], sizes[kMostMoveDims], outer_sizes[kMostMoveDims];
  int64_t strides[kMostMoveDims];  // of what is read, in units
};

// Join and Part: pieces beside each other in rows of `row` units; each piece [outer, width] has its own memory. The
// grid's second dim is the piece.
inline constexpr int kMostPieces = 64;
struct PiecesParams {
  char* whole;
  int64_t outer, row;
  struct Piece {
    char* at;
    int64_t offset;  // in a row of the whole
    Dim width;
  } pieces[kMostPieces];
};

// Fill: an element again and again.
struct FillParams {
  const void* value;  // NULL: `pattern` has it
  uint64_t pattern[2];
  void* target;
  int64_t count;
};

// RangeWhole_i64: start + i * delta. LinSpace_<type>.
struct RangeParams {
  void* target;
  int64_t count, start, delta;
};
struct LinSpaceParams {
  const void* start;
  const void* stop;
  void* target;
  int64_t count;
};
// Range_<type>: sums that are rounded one after the other; a thread goes on from each of `starts`.
inline constexpr int kRangeStarts = 448, kRangeRun = 64;
struct RangeSumParams {
  void* target;
  int64_t count;  // at most kRangeStarts * kRangeRun
  double delta;
  double starts[kRangeStarts];
};

#define TENON_GPU_MIRRORED_TYPES(X) \
  X(f32, float) X(f64, double) X(f16, Half) X(bf16, Bfloat16) X(i32, int32_t) X(i64, int64_t)

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_MOVE_H_
