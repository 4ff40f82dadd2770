// SPDX-License-Identifier: Apache-2.0
// The inner loops of conv_direct.cc: products of scalars of one image and vectors of another or of a filter, summed in
// registers.
//
// A tile is kPixels times kVectors registers of sums. Which function has how many is asked by number (ForwardTiles,
// FilterTiles), so that a row of any length is a few tiles of nearly the same size. Strides are in floats.
#ifndef TENON_DEVICES_CPU_KERNELS_WINDOWS_CONV_TILE_H_
#define TENON_DEVICES_CPU_KERNELS_WINDOWS_CONV_TILE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/common/vector.h"

namespace tenon::cpu {

using TileVector = VectorOf<float>;
inline constexpr int64_t kTileLanes = TileVector::kLanes;
// Registers: sums, one vector of each column, and where there are no broadcasts from memory one for those.
inline constexpr int kMostVectors = 2;
inline constexpr int kMostPixels[kMostVectors + 1] = {0, kVectorBytes == 64 ? 16 : 11, kVectorBytes == 64 ? 12 : 6};

// Some neighbours in a row of the result: each the sum over `rows` rows and `steps` places of a window of runs of
// `length` floats times as many vectors of the filter.
struct ForwardTile {
  const float* x;             // the first run of the first pixel
  int64_t x_pixel, x_row, x_step;
  const float* filter;        // of each row [steps, length, kVectors * kTileLanes], aligned
  int64_t filter_row;         // from one row's to the next one's
  int64_t rows, steps, length;
  float* y;
  int64_t y_pixel;
  int64_t count, last;        // floats of a pixel that are stored, and of the last pixel
  bool dense;  // what is stored behind a pixel is stored again with the next: pixels follow one another, in all their
               // floats
};

template <int kPixels, int kVectors>
void RunForwardTile(const ForwardTile& t) {
  using Vector = TileVector::Type;
  Vector sums[kPixels][kVectors] = {};
  // An address is a base, once or twice the distance of pixels, and a number: of three pixels one base.
  constexpr int kBases = (kPixels + 2) / 3;
  const int64_t pixel = t.x_pixel, length = t.length;
  for (int64_t row = 0; row < t.rows; ++row) {
    const float* filter = t.filter + row * t.filter_row;
    for (int64_t step = 0; step < t.steps; ++step) {
      const float* x[kBases];
#pragma GCC unroll 8
      for (int i = 0; i < kBases; ++i) {
        x[i] = t.x + row * t.x_row + step * t.x_step + 3 * i * pixel;
        asm(""
            : "+r"(x[i]));  // or each pixel's distance from the first is a number of its own, more than there are
                            // registers for
      }
#pragma GCC unroll 4
      for (int64_t k = 0; k < length; ++k, filter += kVectors * kTileLanes) {
        Vector columns[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) columns[v] = TileVector::Load(filter + v * kTileLanes);
#pragma GCC unroll 16
        for (int p = 0; p < kPixels; ++p) {
          const float value = x[p / 3][p % 3 * pixel];
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) sums[p][v] += value * columns[v];
        }
#pragma GCC unroll 8
        for (int i = 0; i < kBases; ++i) ++x[i];
      }
    }
  }
  const int64_t end = (kPixels - 1) * t.y_pixel + t.last;
#pragma GCC unroll 16
  for (int p = 0; p < kPixels; ++p) {
    float* y = t.y + p * t.y_pixel;
    const int64_t count = p + 1 == kPixels ? t.last : t.count;
    const int64_t room = t.dense ? end - p * t.y_pixel : count;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const int64_t behind = v * kTileLanes;
      if (room >= behind + kTileLanes) TileVector::Store(y + behind, sums[p][v]);
      else if (count > behind) TileVector::StoreFirst(y + behind, sums[p][v], count - behind);
    }
  }
}

// The gradient of some neighbours in a filter's run: sums over groups of pixels, of all `rows` rows, of a scalar of the
// image times a vector of the result's gradient.
struct FilterTile {
  const float* x;
  int64_t x_group, x_row;
  const float* dy;
  int64_t dy_group, dy_row;
  int64_t rows, groups;
  float* sums;                // added to
  int64_t sums_row;           // from one scalar's sums to the next one's
};

template <int kScalars, int kVectors>
void RunFilterTile(const FilterTile& t) {
  using Vector = TileVector::Type;
  Vector sums[kScalars][kVectors] = {};
  for (int64_t row = 0; row < t.rows; ++row) {
    const float* x = t.x + row * t.x_row;
    const float* dy = t.dy + row * t.dy_row;
    for (int64_t group = 0; group < t.groups; ++group, x += t.x_group, dy += t.dy_group) {
      Vector columns[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) columns[v] = TileVector::Load(dy + v * kTileLanes);
#pragma GCC unroll 16
      for (int s = 0; s < kScalars; ++s) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[s][v] += x[s] * columns[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int s = 0; s < kScalars; ++s) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      float* to = t.sums + s * t.sums_row + v * kTileLanes;
      TileVector::Store(to, TileVector::Load(to) + sums[s][v]);
    }
  }
}

namespace internal {

template <class Tile>
using TileFunction = void (*)(const Tile&);

template <int kVectors, int... kCount>
constexpr auto ForwardFunctions(std::integer_sequence<int, kCount...>) {
  return std::array<TileFunction<ForwardTile>, sizeof...(kCount)>{&RunForwardTile<kCount + 1, kVectors>...};
}
template <int kVectors, int... kCount>
constexpr auto FilterFunctions(std::integer_sequence<int, kCount...>) {
  return std::array<TileFunction<FilterTile>, sizeof...(kCount)>{&RunFilterTile<kCount + 1, kVectors>...};
}
template <int kVectors>
using Counts = std::make_integer_sequence<int, kMostPixels[kVectors]>;

}  // namespace internal

// Of so many pixels, or scalars, and vectors.
inline internal::TileFunction<ForwardTile> ForwardTileOf(int64_t pixels, int64_t vectors) {
  static constexpr auto one = internal::ForwardFunctions<1>(internal::Counts<1>());
  static constexpr auto two = internal::ForwardFunctions<2>(internal::Counts<2>());
  return vectors == 1 ? one[static_cast<size_t>(pixels - 1)] : two[static_cast<size_t>(pixels - 1)];
}
inline internal::TileFunction<FilterTile> FilterTileOf(int64_t scalars, int64_t vectors) {
  static constexpr auto one = internal::FilterFunctions<1>(internal::Counts<1>());
  static constexpr auto two = internal::FilterFunctions<2>(internal::Counts<2>());
  return vectors == 1 ? one[static_cast<size_t>(scalars - 1)] : two[static_cast<size_t>(scalars - 1)];
}

// function(first, count) for [0, total) in as few parts as hold at most `most`, all of nearly the same size.
template <class Function>
void ForEachTile(int64_t total, int64_t most, Function&& function) {
  const int64_t parts = (total + most - 1) / most;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first = total * i / parts;
    function(first, total * (i + 1) / parts - first);
  }
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_WINDOWS_CONV_TILE_H_
