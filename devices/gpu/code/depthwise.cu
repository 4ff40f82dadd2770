// SPDX-License-Identifier: Apache-2.0
#include "code/depthwise.h"

#include "code/grid.h"

namespace tenon::gpu {

// An element of an NHWC tensor; divisions of 32 bits where they suffice.
struct Element {
  int64_t image, y, x, channel;
};
template <class Index>
TENON_GPU_FUNCTION Element Divided(Index i, Index height, Index width, Index channels) {
  const Index pixel = i / channels, row = pixel / width, image = row / height;
  return {static_cast<int64_t>(image), static_cast<int64_t>(row - image * height),
          static_cast<int64_t>(pixel - row * width), static_cast<int64_t>(i - pixel * channels)};
}
TENON_GPU_FUNCTION Element ElementAt(int64_t i, int64_t count, int64_t height, int64_t width, int64_t channels) {
  if (count <= INT32_MAX)
    return Divided(static_cast<uint32_t>(i), static_cast<uint32_t>(height), static_cast<uint32_t>(width),
                   static_cast<uint32_t>(channels));
  return Divided(i, height, width, channels);
}

template <class T>
TENON_GPU_FUNCTION void Forward(const DepthwiseParams& p) {
  using A = Wide<T>;
  const T* image = static_cast<const T*>(p.image);
  const T* filter = static_cast<const T*>(p.filter);
  const int64_t count = p.batch * p.result_height * p.result_width * p.filters;
  for (int64_t i = Thread(); i < count; i += Threads()) {
    const Element e = ElementAt(i, count, p.result_height, p.result_width, p.filters);
    const int64_t top = e.y * p.stride - p.top, left = e.x * p.stride - p.left;
    const T* channel = image + e.image * p.height * p.width * p.channels + e.channel / p.multiplier;
    A sum = 0;
    for (int32_t ky = 0; ky < p.window_height; ++ky) {
      const int64_t y = top + ky;
      if (y < 0 || y >= p.height) continue;
      for (int32_t kx = 0; kx < p.window_width; ++kx) {
        const int64_t x = left + kx;
        if (x < 0 || x >= p.width) continue;
        sum += static_cast<A>(channel[(y * p.width + x) * p.channels]) *
               static_cast<A>(filter[(ky * p.window_width + kx) * p.filters + e.channel]);
      }
    }
    static_cast<T*>(p.out)[i] = static_cast<T>(sum);
  }
}

// The windows that saw a pixel: (pixel + before - tap) / stride where that is whole.
template <class T>
TENON_GPU_FUNCTION void GradientOfInput(const DepthwiseParams& p) {
  using A = Wide<T>;
  const T* result = static_cast<const T*>(p.result);
  const T* filter = static_cast<const T*>(p.filter);
  const int64_t count = p.batch * p.height * p.width * p.channels;
  for (int64_t i = Thread(); i < count; i += Threads()) {
    const Element e = ElementAt(i, count, p.height, p.width, p.channels);
    const int64_t first = e.channel * p.multiplier;
    A sum = 0;
    for (int32_t ky = 0; ky < p.window_height; ++ky) {
      const int64_t below = e.y + p.top - ky, y = below / p.stride;
      if (below < 0 || y * p.stride != below || y >= p.result_height) continue;
      for (int32_t kx = 0; kx < p.window_width; ++kx) {
        const int64_t along = e.x + p.left - kx, x = along / p.stride;
        if (along < 0 || x * p.stride != along || x >= p.result_width) continue;
        const T* from = result + ((e.image * p.result_height + y) * p.result_width + x) * p.filters + first;
        const T* tap = filter + (ky * p.window_width + kx) * p.filters + first;
        for (int64_t m = 0; m < p.multiplier; ++m) sum += static_cast<A>(from[m]) * static_cast<A>(tap[m]);
      }
    }
    static_cast<T*>(p.out)[i] = static_cast<T>(sum);
  }
}

// A block has one tap and some filters next to each other, and a part of the pixels; out: [part, tap, filter].
template <class T>
TENON_GPU_FUNCTION void GradientOfFilter(const DepthwiseParams& p) {
  using A = Wide<T>;
  TENON_GPU_SHARED(A, sums, kDepthwiseLanes * kDepthwiseRows);
  const T* image = static_cast<const T*>(p.image);
  const T* result = static_cast<const T*>(p.result);
  const uint32_t lane = BlockThread() % kDepthwiseLanes, row = BlockThread() / kDepthwiseLanes;
  const int64_t groups = (p.filters + kDepthwiseLanes - 1) / kDepthwiseLanes;
  const int64_t tap = BlockX() / groups, k = BlockX() % groups * kDepthwiseLanes + lane;
  const int64_t down = tap / p.window_width - p.top, along = tap % p.window_width - p.left;
  const int64_t pixels = p.batch * p.result_height * p.result_width, begin = BlockY() * p.part_pixels;
  const int64_t end = begin + p.part_pixels < pixels ? begin + p.part_pixels : pixels;
  A sum = 0;
  if (k < p.filters) {
    for (int64_t pixel = begin + row; pixel < end; pixel += kDepthwiseRows) {
      const Element e = ElementAt(pixel, pixels, p.result_height, p.result_width, 1);
      const int64_t y = e.y * p.stride + down, x = e.x * p.stride + along;
      if (y < 0 || y >= p.height || x < 0 || x >= p.width) continue;
      sum += static_cast<A>(image[((e.image * p.height + y) * p.width + x) * p.channels + k / p.multiplier]) *
             static_cast<A>(result[pixel * p.filters + k]);
    }
  }
  sums[BlockThread()] = sum;
  Barrier();
  if (row != 0 || k >= p.filters) return;
  for (uint32_t other = 1; other < kDepthwiseRows; ++other) sum += sums[other * kDepthwiseLanes + lane];
  static_cast<A*>(p.out)[(BlockY() * p.window_height * p.window_width + tap) * p.filters + k] = sum;
}

#define TENON_GPU_DEPTHWISE(suffix, T)                                                             \
  TENON_GPU_KERNEL(DepthwiseForward_##suffix, DepthwiseParams, Forward<T>)                         \
  TENON_GPU_KERNEL(DepthwiseInput_##suffix, DepthwiseParams, GradientOfInput<T>)                   \
  TENON_GPU_BLOCK_KERNEL(DepthwiseFilter_##suffix, DepthwiseParams, GradientOfFilter<T>)
TENON_GPU_DEPTHWISE(f32, float)
TENON_GPU_DEPTHWISE(f64, double)
TENON_GPU_DEPTHWISE(f16, Half)
TENON_GPU_DEPTHWISE(bf16, Bfloat16)

}  // namespace tenon::gpu
