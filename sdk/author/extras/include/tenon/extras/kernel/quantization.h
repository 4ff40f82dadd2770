// SPDX-License-Identifier: Apache-2.0
// Quantized numbers: integers that stand for real numbers from low to high, which go beside a tensor. What kernels of
// several devices share; the formulas are TensorFlow's, in its precisions, so that integers are the same ones: files
// that include this are compiled without fused multiply-adds.
#ifndef TENON_SDK_KERNEL_QUANTIZATION_H_
#define TENON_SDK_KERNEL_QUANTIZATION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/walk/window.h"

namespace tenon::sdk {

template <class T>
inline constexpr int64_t kLowest = std::numeric_limits<T>::lowest();
template <class T>
inline constexpr int64_t kHighest = std::numeric_limits<T>::max();
// One less than the number of integers.
template <class T>
inline constexpr double kIntervals = static_cast<double>(kHighest<T> - kLowest<T>);

// The integer that value is, or the nearest one in [least, most].
inline int64_t Bounded(double value, int64_t least, int64_t most) {
  if (!(value > static_cast<double>(least))) return least;
  return value >= static_cast<double>(most) ? most : static_cast<int64_t>(value);
}
// The integer for x, which may lie outside of T.
template <class T>
int64_t Unbounded(float x, float low, float high) {
  if (low == high) return kLowest<T>;
  const double steps = kIntervals<T> + 1;
  const double range = static_cast<double>(high - low) * (steps / (steps - 1));
  const double scale = steps / range;
  constexpr int64_t kFar = int64_t{1} << 62;
  return Bounded(std::round(static_cast<double>(x) * scale) - std::round(static_cast<double>(low) * scale), -kFar,
                 kFar) +
         kLowest<T>;
}

// What the product of two numbers of T1 and T2 stands for, as an integer of T3: its bounds.
template <class T1, class T2, class T3>
void ProductRange(float low_a, float high_a, float low_b, float high_b, float* low, float* high) {
  const float a = (high_a - low_a) / static_cast<float>(kHighest<T1> - kLowest<T1>),
              b = (high_b - low_b) / static_cast<float>(kHighest<T2> - kLowest<T2>);
  const float level = a * b;
  *low = level * static_cast<float>(kLowest<T3>);
  *high = level * static_cast<float>(kHighest<T3>);
}

// The bounds of the tensor before inputs `index` and index + 1, which are scalars.
struct Bounds {
  Bounds(RunContext c, int32_t index) : low(*c.input<float>(index)), high(*c.input<float>(index + 1)) {}
  Bounds(float low_bound, float high_bound) : low(low_bound), high(high_bound) {}
  void Write(RunContext c, int32_t output) const {
    *c.output<float>(output) = low;
    *c.output<float>(output + 1) = high;
  }
  float low, high;
};

// QuantizedConv2D: outside of the image is 0. As in TensorFlow windows that leave a part of the image out lie in its
// middle, not at its beginning.
struct QuantizedConvolution {
  struct Attributes {
    explicit Attributes(CreateContext& c) {
      const std::vector<int64_t> strides = c.Ints("strides"), dilations = c.Ints("dilations");
      if (strides.size() != 4 || strides[0] != 1 || strides[3] != 1 || strides[1] != strides[2] || strides[1] < 1)
        c.Invalid("strides must be 1 for batch and channels, and one number for height and width; they are ", strides);
      valid = c.String("padding") == "VALID";
      if (dilations.size() != 4 || std::ranges::any_of(dilations, [](int64_t d) { return d != 1; }))
        c.Invalid("dilations must be 1; they are ", dilations);
      if (c.ok()) stride = strides[1];
    }
    int64_t stride = 1;
    bool valid = false;
  };
  // INVALID_ARGUMENT where the filter does not take one shape to the other.
  QuantizedConvolution(const Attributes& attributes, Dims input, Dims weights, Dims output)
      : in(input, false), out(output, false), filter(weights, in.channels, out.channels), stride(attributes.stride) {
    if (filter.in != in.channels)
      Fail(TENON_INVALID_ARGUMENT, "input has ", in.channels, " channels, filter ", filter.in);
    const int64_t more = attributes.valid ? 1 : 0;
    top = ((out.height - 1) * stride + filter.height - in.height + more) / 2;
    left = ((out.width - 1) * stride + filter.width - in.width + more) / 2;
  }
  Image in, out;
  Filter filter;
  int64_t stride, top, left;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_QUANTIZATION_H_
