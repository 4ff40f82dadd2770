// SPDX-License-Identifier: Apache-2.0
// Quantized numbers: integers that stand for real numbers from low to high, which go beside a tensor.
//
// The formulas are TensorFlow's (quantization_utils.h), in its precisions, so that integers are the same ones: files
// that include this are compiled without fused multiply-adds. NaN becomes the least integer.
#ifndef TENON_DEVICES_CPU_KERNELS_QUANTIZED_QUANTIZATION_H_
#define TENON_DEVICES_CPU_KERNELS_QUANTIZED_QUANTIZATION_H_

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/quantization.h"

namespace tenon::cpu {

using sdk::Bounded;
using sdk::Bounds;
using sdk::kHighest;
using sdk::kIntervals;
using sdk::kLowest;
using sdk::ProductRange;
using sdk::Unbounded;

template <sdk::FixedString kAttr>
using QuantizedConstraint =
    sdk::Allowed<kAttr, TENON_DT_QINT8, TENON_DT_QUINT8, TENON_DT_QINT16, TENON_DT_QUINT16, TENON_DT_QINT32>;

// function(Tag<T>{}) for the integer type of a quantized dtype; UNIMPLEMENTED for other dtypes.
template <class Function>
void DispatchQuantized(uint32_t dtype, Function&& function) {
  switch (dtype) {
    case TENON_DT_QINT8: return function(Tag<int8_t>{});
    case TENON_DT_QUINT8: return function(Tag<uint8_t>{});
    case TENON_DT_QINT16: return function(Tag<int16_t>{});
    case TENON_DT_QUINT16: return function(Tag<uint16_t>{});
    case TENON_DT_QINT32: return function(Tag<int32_t>{});
    default: sdk::Fail(TENON_UNIMPLEMENTED, "no quantized kernel for dtype ", sdk::TypeName(dtype));
  }
}

// The same for many, without a branch: T's integer for value, at most `most`. Integers of 16 bits are floats.
template <class T>
T Integer(float value, int64_t most = kHighest<T>) {
  using Real = std::conditional_t<sizeof(T) <= 2, float, double>;
  using Wider = std::conditional_t<sizeof(T) <= 2, int32_t, int64_t>;
  const Real given = static_cast<Real>(value), low = static_cast<Real>(kLowest<T>), high = static_cast<Real>(most);
  const Real above = given > low ? given : low;
  return static_cast<T>(static_cast<Wider>(above < high ? above : high));
}
// To the nearest, halves away from 0: what is added is the largest number below a half.
inline float Round(float x) { return std::trunc(x + std::copysign(0x1.fffffep-2F, x)); }

// The integer for x in T.
template <class T>
T Quantized(float x, float low, float high) {
  return static_cast<T>(std::clamp(Unbounded<T>(x, low, high), kLowest<T>, kHighest<T>));
}

// The real number that x stands for. 32 bits become a float first, as in TensorFlow.
template <class T>
float RealOf(T x, float low, float high) {
  if (low == high) return low;
  const double steps = kIntervals<T> + 1;
  const double range = static_cast<double>(high - low) * (steps / (steps - 1));
  const double scale = range / steps;
  const auto narrow = static_cast<float>(scale);
  const auto rounded = static_cast<double>(std::round(low / narrow) * narrow);
  return static_cast<float>(rounded +
                            (static_cast<double>(static_cast<float>(x)) - static_cast<double>(kLowest<T>)) * scale);
}

// The same for many, in floats.
template <class T>
struct ToReal {
  ToReal(float low, float high)
      : scale(static_cast<float>(static_cast<double>(high - low) / kIntervals<T>)),
        first((high == low ? low : std::round(low / scale) * scale) - static_cast<float>(kLowest<T>) * scale) {}
  float operator()(T x) const { return first + static_cast<float>(x) * scale; }
  float scale, first;
};
template <class T>
struct ToQuantized {
  ToQuantized(float low, float high)
      : scale(high == low ? 0.0F : static_cast<float>(kIntervals<T> / static_cast<double>(high - low))),
        first(std::round(low * scale) - static_cast<float>(kLowest<T>)) {}
  T operator()(float x) const { return Integer<T>(Round(x * scale) - first, kMost); }
  // The largest int32 that a float is.
  static constexpr int64_t kMost = std::min<int64_t>(kHighest<T>, 2147483520);
  float scale, first;
};

// A tensor along an axis: [before, count, after] of it. axis -1: [1, 1, all].
struct Slices {
  Slices(sdk::Dims dims, int64_t axis) : after(1) {
    if (axis < 0) {
      after = sdk::Count(dims);
      return;
    }
    if (axis >= static_cast<int64_t>(dims.size()))
      sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " of a tensor of shape ", dims);
    const auto at = static_cast<size_t>(axis);
    before = sdk::Count(dims.first(at));
    count = dims[at];
    after = sdk::Count(dims.subspan(at + 1));
  }
  int64_t total() const { return before * count * after; }
  // function(slice, begin, end) for stretches of elements of one slice, which together are [begin, end).
  template <class Function>
  void ForEach(int64_t begin, int64_t end, Function&& function) const {
    while (begin < end) {
      const int64_t slice = begin / after, next = std::min(end, (slice + 1) * after);
      function(slice % count, begin, next);
      begin = next;
    }
  }
  int64_t before = 1, count = 1, after;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_QUANTIZED_QUANTIZATION_H_
