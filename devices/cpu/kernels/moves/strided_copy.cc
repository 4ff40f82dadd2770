// SPDX-License-Identifier: Apache-2.0
#include "kernels/moves/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/moves/transpose_tile.h"

namespace tenon::cpu {
namespace {

// A transposed plane: its rows are contiguous down the source (stride 1) and along the target.
struct Plane {
  int64_t height, width;
  int64_t from_step;             // along a row of the source
  int64_t to_row, to_step;
};
constexpr int64_t kStrip = 16;

// Rows [top, bottom) of a plane, block by block, so that every cache line that is read is used.
template <class T>
void CopyStrip(const Plane& p, const T* source, T* target, int64_t top, int64_t bottom) {
  constexpr int64_t kTile = kTransposeTile<T>;
  const auto copy_block = [&](int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
    for (int64_t y = y0; y < y1; ++y) {
      for (int64_t x = x0; x < x1; ++x) target[y * p.to_row + x * p.to_step] = source[y + x * p.from_step];
    }
  };
  int64_t x = 0;
  if constexpr (kTile > 0) {
    static_assert(kStrip % kTile == 0);
    if (p.to_step == 1) {
      const int64_t whole = top + (bottom - top) / kTile * kTile;
      for (; x + kTile <= p.width; x += kTile) {
        for (int64_t y = top; y < whole; y += kTile)
          TransposeTile<T>::Run(source + y + x * p.from_step, p.from_step, target + y * p.to_row + x, p.to_row);
        copy_block(whole, bottom, x, x + kTile);
      }
    }
  }
  for (; x < p.width; x += kStrip) copy_block(top, bottom, x, std::min(p.width, x + kStrip));
}

// Rows so short that a call for each would be most of the work, such as the channels of pixels.
constexpr int64_t kShort = 4;
// Bytes of a row up to which a few registers are sooner done than a call.
constexpr int64_t kMiddling = 512;

// Rows of kBytes each, the last of the source first: a vector of them is turned at once. `from` is at the last one of
// the source.
template <size_t kBytes>
int64_t CopyTurned(const char* from, char* to, int64_t rows) {
  constexpr size_t kVector = 16, kAtOnce = kVector / kBytes;
  using Bytes = uint8_t __attribute__((vector_size(kVector)));
  constexpr std::array<uint8_t, kVector> kOrder = [] {
    std::array<uint8_t, kVector> order{};
    for (size_t i = 0; i < kAtOnce * kBytes; ++i)
      order[i] = static_cast<uint8_t>(kVector - (i / kBytes + 1) * kBytes + i % kBytes);
    return order;
  }();
  Bytes order;
  std::memcpy(&order, kOrder.data(), kVector);
  // What a vector holds besides whole rows is read before them and written over by those that follow: both are there
  // while a vector of rows is left.
  int64_t done = 0;
  for (; (rows - done) * static_cast<int64_t>(kBytes) >= static_cast<int64_t>(kVector); done += kAtOnce) {
    Bytes bytes;
    std::memcpy(&bytes, from - done * static_cast<int64_t>(kBytes) + kBytes - kVector, kVector);
    bytes = __builtin_shuffle(bytes, order);
    std::memcpy(to + done * static_cast<int64_t>(kBytes), &bytes, kVector);
  }
  return done;
}

template <class T, int64_t kLength>
void CopyShort(const T* from, T* to, int64_t rows, int64_t from_row, int64_t to_row) {
  if constexpr (kLength * sizeof(T) <= 8) {
    if (from_row == -kLength && to_row == kLength) {
      const int64_t done =
          CopyTurned<kLength * sizeof(T)>(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(to), rows);
      rows -= done;
      from += done * from_row;
      to += done * to_row;
    }
  }
  for (int64_t row = 0; row < rows; ++row, from += from_row, to += to_row) std::memcpy(to, from, kLength * sizeof(T));
}
template <class T>
void CopyShortRows(int64_t length, const T* from, T* to, int64_t rows, int64_t from_row, int64_t to_row) {
  switch (length) {
    case 1: return CopyShort<T, 1>(from, to, rows, from_row, to_row);
    case 2: return CopyShort<T, 2>(from, to, rows, from_row, to_row);
    case 3: return CopyShort<T, 3>(from, to, rows, from_row, to_row);
    default: return CopyShort<T, 4>(from, to, rows, from_row, to_row);
  }
}

}  // namespace

template <class T>
void StridedCopy::RunTyped(sdk::RunContext context, const T* source, T* target) const {
  source += source_offset_;
  target += target_offset_;
  if (rank_ == 0) {
    *target = *source;
    return;
  }
  // The two innermost dims are one plane; the others, and rows of the plane, are shared.
  const auto last = static_cast<size_t>(rank_ - 1);
  const int64_t inner = dims_[last];
  const int64_t from_step = source_strides_[last];
  const int64_t to_step = target_strides_[last];
  const int64_t rows = total_ / inner;
  const auto copy_row = [&](const T* from, T* to, int64_t n) {
    if (from_step == 1 && to_step == 1) {
      if (n <= kMiddling / static_cast<int64_t>(sizeof(T)))
        return CopyBytes(to, from, n * static_cast<int64_t>(sizeof(T)));
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
    } else if (from_step == 0 && to_step == 1) {
      std::fill_n(to, n, *from);
    } else if (from_step == -1 && to_step == 1) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) to[i] = from[-i];
    } else {
      for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
    }
  };
  const auto offsets = [&](int64_t row, int64_t* from, int64_t* to) {
    *from = *to = 0;
    for (int d = rank_ - 2; d >= 0; --d) {
      const auto i = static_cast<size_t>(d);
      const int64_t index = row % dims_[i];
      row /= dims_[i];
      *from += index * source_strides_[i];
      *to += index * target_strides_[i];
    }
  };
  if (rows == 1) {
    For(context, inner, 0.1 * sizeof(T), [&](int64_t begin, int64_t end) {
      copy_row(source + begin * from_step, target + begin * to_step, end - begin);
    });
    return;
  }
  const double cost = static_cast<double>(inner) * (from_step == 1 ? 0.05 : 0.3) * sizeof(T) + 2;
  const auto before = static_cast<size_t>(rank_ > 1 ? rank_ - 2 : 0);
  if (source_strides_[before] == 1 && from_step != 1 && from_step != 0 && dims_[before] >= kStrip && inner >= kStrip) {
    const Plane plane = {dims_[before], inner, from_step, target_strides_[before], to_step};
    const int64_t strips = (plane.height + kStrip - 1) / kStrip;
    For(context, rows / plane.height * strips, cost * kStrip, [&](int64_t begin, int64_t end) {
      for (int64_t strip = begin; strip < end; ++strip) {
        const int64_t top = strip % strips * kStrip;
        int64_t from, to;
        offsets(strip / strips * plane.height, &from, &to);
        CopyStrip(plane, source + from, target + to, top, std::min(plane.height, top + kStrip));
      }
    });
    return;
  }
  For(context, rows, cost, [&](int64_t begin, int64_t end) {
    std::array<int64_t, kMaxDims> index = {};
    int64_t from, to;
    offsets(begin, &from, &to);
    int64_t rest = begin;
    for (int d = rank_ - 2; d >= 0; --d) {
      index[static_cast<size_t>(d)] = rest % dims_[static_cast<size_t>(d)];
      rest /= dims_[static_cast<size_t>(d)];
    }
    const bool is_short = inner <= kShort && from_step == 1 && to_step == 1;
    for (int64_t row = begin, taken = 1; row < end; row += taken) {
      if (is_short) {
        taken = std::min(end - row, dims_[before] - index[before]);
        CopyShortRows(inner, source + from, target + to, taken, source_strides_[before], target_strides_[before]);
      } else {
        copy_row(source + from, target + to, inner);
      }
      int64_t steps = taken;
      for (int d = rank_ - 2; d >= 0; --d, steps = 1) {
        const auto i = static_cast<size_t>(d);
        from += steps * source_strides_[i];
        to += steps * target_strides_[i];
        if ((index[i] += steps) < dims_[i]) break;
        from -= dims_[i] * source_strides_[i];
        to -= dims_[i] * target_strides_[i];
        index[i] = 0;
      }
    }
  });
}

void StridedCopy::Run(sdk::RunContext context, uint32_t dtype, const void* source, void* target) const {
  if (total_ == 0) return;
  DispatchSize(dtype, [&]<class T>(Tag<T>) {
    RunTyped(context, static_cast<const T*>(source), static_cast<T*>(target));
  });
}

}  // namespace tenon::cpu
