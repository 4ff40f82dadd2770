// SPDX-License-Identifier: Apache-2.0
// Rows of halves in shared memory, as tensor cores' attention has them: chunks of 8 halves, at places that are changed
// by the row, so that eight rows' chunks of one number meet different banks. And products of a warp of such rows.
#ifndef TENON_DEVICES_GPU_CODE_CORE_ROWS_H_
#define TENON_DEVICES_GPU_CODE_CORE_ROWS_H_

#include "code/tensor_core.h"

namespace tenon::gpu {

// Where chunk `chunk` of a row of kChunks stands.
template <int kChunks>
TENON_GPU_FUNCTION int ChunkAt(int row, int chunk) {
  return row * kChunks + (kChunks >= 8 ? chunk ^ (row & 7) : chunk ^ (row >> 1 & 3));
}

// Two neighbours of a row that is there. even: both lie in a word.
template <class H>
TENON_GPU_FUNCTION uint32_t TwoHalvesAt(const H* at, bool even) {
  if (even) return *reinterpret_cast<const uint32_t*>(at);
  return static_cast<uint32_t>(at[0].bits) | static_cast<uint32_t>(at[1].bits) << 16;
}
template <class H>
TENON_GPU_FUNCTION void PutTwoHalves(H* at, float first, float second, bool even) {
  const uint32_t two = PackHalves<H>(first, second);
  if (even) {
    *reinterpret_cast<uint32_t*>(at) = two;
  } else {
    at[0].bits = static_cast<uint16_t>(two);
    at[1].bits = static_cast<uint16_t>(two >> 16);
  }
}

// Begins to bring rows [first, first + kRows) of `rows`, zeros beyond the last row and the last element; they are there
// behind FinishCopies() and a barrier. even: rows begin at multiples of 16 bytes.
template <class H, int kRows, int kChunks, int kThreads>
TENON_GPU_FUNCTION void BeginRows(const H* from, int64_t step, int64_t first, int64_t rows, int depth, bool even,
                                  Chunk* to) {
  constexpr int kRowsAtOnce = kThreads / kChunks;
  static_assert(kRowsAtOnce % 8 == 0, "all rows of a thread have their chunk at one place");
  const int first_row = static_cast<int>(BlockThread()) / kChunks, chunk = static_cast<int>(BlockThread()) % kChunks;
  const int64_t left = chunk * 8 < depth ? rows - first - first_row : 0;  // of the thread's rows, with those between
  const H* at = from + (first + first_row) * step + chunk * 8;
  Chunk* place = to + ChunkAt<kChunks>(first_row, chunk);
  if (even) {
    TENON_GPU_UNROLL_ALL
    for (int n = 0; n < kRows; n += kRowsAtOnce, at += kRowsAtOnce * step)
      BeginCopy(place + n * kChunks, n < left ? at : from, n < left);
    return;
  }
  TENON_GPU_UNROLL(1)
  for (int n = 0; n < kRows; n += kRowsAtOnce, at += kRowsAtOnce * step) {
    Chunk own = {};
    for (int i = 0; i < 4 && n < left; ++i) own.words[i] = TwoHalvesAt(at + 2 * i, false);
    place[n * kChunks] = own;
  }
}

// Adds products of the warp's 16 left rows at depths 16 * step to 16 * step + 15 and kTiles * 8 right rows: tile by
// tile as AddProduct has them.
template <class H, int kChunks, int kTiles>
TENON_GPU_FUNCTION void AddRowProducts(const uint32_t (&left)[4], const Chunk* right, int step,
                                       float (&sums)[kTiles][4]) {
  const int lane = static_cast<int>(Lane());
  TENON_GPU_UNROLL_ALL
  for (int tile = 0; tile < kTiles; tile += 2) {
    uint32_t words[4];  // of two tiles
    LoadMatrices<false>(&right[ChunkAt<kChunks>((tile + lane / 16) * 8 + lane % 8, step * 2 + lane / 8 % 2)], words);
    AddProduct<H>(sums[tile], left, words[0], words[1]);
    AddProduct<H>(sums[tile + 1], left, words[2], words[3]);
  }
}

// Adds products of weights, which lie as sums do, and as many rows as they have columns: kChunks tiles of 8 columns.
template <class H, int kChunks, int kTiles>
TENON_GPU_FUNCTION void AddWeighted(const float (&weights)[kTiles][4], const Chunk* rows, float (&sums)[kChunks][4]) {
  const int lane = static_cast<int>(Lane());
  TENON_GPU_UNROLL_ALL
  for (int step = 0; step < kTiles / 2; ++step) {
    const float (&low)[4] = weights[2 * step], (&high)[4] = weights[2 * step + 1];
    const uint32_t left[4] = {PackHalves<H>(low[0], low[1]), PackHalves<H>(low[2], low[3]),
                              PackHalves<H>(high[0], high[1]), PackHalves<H>(high[2], high[3])};
    TENON_GPU_UNROLL_ALL
    for (int tile = 0; tile < kChunks; tile += 2) {
      uint32_t words[4];  // of two tiles
      LoadMatrices<true>(&rows[ChunkAt<kChunks>(step * 16 + lane % 16, tile + lane / 16)], words);
      AddProduct<H>(sums[tile], left, words[0], words[1]);
      AddProduct<H>(sums[tile + 1], left, words[2], words[3]);
    }
  }
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_CORE_ROWS_H_
