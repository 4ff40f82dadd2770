// SPDX-License-Identifier: Apache-2.0
#include "kernels/windows/pool_tiled.h"

#include <algorithm>
#include <bit>

#include "kernels/common/vector.h"

namespace tenon::cpu {
namespace {

using Lanes = VectorOf<float>;
constexpr int64_t kLanes = Lanes::kLanes;

struct Tiles {
  explicit Tiles(const sdk::PoolPlan& p)
      : rows(p.out.batch * p.out.height),
        width(p.out.width),
        channels(p.in.channels),
        height(p.y.size),
        columns(p.x.size),
        cells(columns * channels),
        in_row(p.in.width * channels),
        out_row(width * channels),
        result_rows(p.out.height),
        image(p.in.height * in_row),
        in_count(p.in.count()),
        out_count(p.out.count()) {}
  // Where the windows of a row of the result begin.
  int64_t InputAt(int64_t row) const { return row / result_rows * image + row % result_rows * height * in_row; }
  int64_t rows;                    // of all results
  int64_t width, channels;         // of a result
  int64_t height, columns, cells;  // of a window; floats of its row
  int64_t in_row, out_row, result_rows, image;
  int64_t in_count, out_count;
};

// All lanes, or those before `room`.
[[gnu::always_inline]] inline Lanes::Type LoadWithin(const float* from, int64_t room) {
  if (room >= kLanes) return Lanes::Load(from);
  float some[kLanes] = {};
  std::copy_n(from, std::max<int64_t>(room, 0), some);
  return Lanes::Load(some);
}
// All lanes where that many lie before the end, else `count`.
[[gnu::always_inline]] inline void StoreWithin(float* to, Lanes::Type v, int64_t room, int64_t count) {
  if (room >= kLanes || count >= kLanes) Lanes::Store(to, v);
  else Lanes::StoreFirst(to, v, count);
}

// ---- MaxPool: first over the rows, in a buffer with room for a register behind it, then along them ----

constexpr int64_t kBuffer = 1024;

void Down(const Tiles& t, const float* in, int64_t count, float* most) {
  constexpr float kLeast = sdk::Lowest<float>();
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) most[i] = in[i] > kLeast ? in[i] : kLeast;
  for (int64_t y = 1; y < t.height; ++y) {
    const float* row = in + y * t.in_row;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) most[i] = row[i] > most[i] ? row[i] : most[i];
  }
  std::fill_n(most + count, kLanes, 0.f);
}

void Along(const Tiles& t, const float* most, int64_t pixels, float* out) {
  const int64_t end = pixels * t.channels;
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int64_t k = 0; k < t.channels; k += kLanes) {
      const float* from = most + pixel * t.cells + k;
      Lanes::Type largest = Lanes::Load(from);
      for (int64_t x = 1; x < t.columns; ++x) {
        const Lanes::Type one = Lanes::Load(from + x * t.channels);
        largest = one > largest ? one : largest;
      }
      const int64_t at = pixel * t.channels + k;
      StoreWithin(out + at, largest, end - at, t.channels - k);
    }
  }
}

void PoolRow(const Tiles& t, const float* in, float* out) {
  float most[kBuffer + kLanes];
  const int64_t piece = kBuffer / t.cells;
  for (int64_t pixel = 0; pixel < t.width; pixel += piece) {
    const int64_t count = std::min(piece, t.width - pixel);
    Down(t, in + pixel * t.cells, count * t.cells, most);
    Along(t, most, count, out + pixel * t.channels);
  }
}

// ---- MaxPoolGrad ----

// Of a row of windows. kInside: what is read behind them is of the tensors, too. kSide: of windows' sides; 0: any.
template <bool kInside, int64_t kSide>
void GradientRow(const Tiles& t, const float* in, const float* out, const float* dy, float* dx) {
  using Truths = VectorOf<int32_t>::Type;
  const Lanes::Type least = Lanes::Type{} + sdk::Lowest<float>();
  const int64_t height = kSide != 0 ? kSide : t.height, columns = kSide != 0 ? kSide : t.columns;
  const int64_t end = t.width * t.cells, channels = t.channels, in_row = t.in_row;
  const auto load = [](const float* from, int64_t room) {
    return kInside ? Lanes::Load(from) : LoadWithin(from, room);
  };
  for (int64_t pixel = 0; pixel < t.width; ++pixel) {
    for (int64_t k = 0; k < channels; k += kLanes) {
      const int64_t at = pixel * channels + k;
      const Lanes::Type most = load(out + at, t.out_row - at), gradient = load(dy + at, t.out_row - at);
      Truths wanting = Truths{} - 1;
      for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < columns; ++x) {
          const int64_t cell = pixel * t.cells + x * channels + k;
          Lanes::Type value = load(in + y * in_row + cell, end - cell);
          value = value > least ? value : least;
          const Truths hit = (value == most) & wanting;
          wanting &= ~hit;
          const auto part = std::bit_cast<Lanes::Type>(std::bit_cast<Truths>(gradient) & hit) + 0.f;
          // Of more channels than a register's, the next cell's first are there already.
          StoreWithin(dx + y * in_row + cell, part, channels < kLanes ? end - cell : 0, channels - k);
        }
    }
  }
}

// What no window has.
void ClearRest(const Tiles& t, int64_t row, float* dx) {
  const int64_t covered = t.width * t.cells;
  for (int64_t y = 0; y < t.height && covered < t.in_row; ++y)
    std::fill_n(dx + y * t.in_row + covered, t.in_row - covered, 0.f);
  if (row % t.result_rows + 1 == t.result_rows)
    std::fill_n(dx + t.height * t.in_row, t.image - t.result_rows * t.height * t.in_row, 0.f);
}

}  // namespace

bool TakesTiledPool(const sdk::PoolPlan& p) {
  constexpr int64_t kMostSide = 8, kMostFloats = 512;
  const auto side_by_side = [](const WindowDim& w) {
    return w.size <= kMostSide && w.stride == w.size && w.dilation == 1 && w.before == 0 &&
           w.output * w.size <= w.input;
  };
  return !p.channels_first && !p.volumes && side_by_side(p.y) && side_by_side(p.x) &&
         p.in.channels <= kMostFloats / p.x.size && p.in.count() > 0 && p.out.count() > 0;
}

void MaxPoolTiled(const sdk::PoolPlan& p, sdk::RunContext c, const float* in, float* out) {
  const Tiles t(p);
  c.ParallelFor(t.rows, 0.1 * static_cast<double>(t.in_row * t.height) + 10, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) PoolRow(t, in + t.InputAt(row), out + row * t.out_row);
  });
}

void MaxPoolGradTiled(const sdk::PoolPlan& p, sdk::RunContext c, const float* in, const float* out, const float* dy,
                      float* dx) {
  const Tiles t(p);
  c.ParallelFor(t.rows, 0.25 * static_cast<double>(t.in_row * t.height) + 10, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = t.InputAt(row), to = row * t.out_row;
      const bool inside = at + (t.height - 1) * t.in_row + t.width * t.cells + kLanes <= t.in_count &&
                          to + t.out_row + kLanes <= t.out_count;
      const bool common = t.height == 2 && t.columns == 2;
      (!inside  ? &GradientRow<false, 0>
       : common ? &GradientRow<true, 2>
                : &GradientRow<true, 0>)(t, in + at, out + to, dy + to, dx + at);
      ClearRest(t, row, dx + at);
    }
  });
}

}  // namespace tenon::cpu
