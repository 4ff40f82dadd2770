// SPDX-License-Identifier: Apache-2.0
// A convolution of two dims, or one of its gradients, by its definition: what emulated libraries of vendors compute.
#ifndef TENON_DEVICES_GPU_EMULATION_CONVOLUTION_H_
#define TENON_DEVICES_GPU_EMULATION_CONVOLUTION_H_

#include <cstdint>
#include <vector>

#include "emulation/element.h"

namespace tenon::gpu {

// [n, c, h, w], at any strides.
struct ConvolvedTensor {
  Number type = Number::kFloat;
  int64_t id = 0;
  std::vector<int64_t> dims, strides;

  int64_t At(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
};

struct Convolved {
  enum Result { kForward, kImage, kFilter } result = kForward;
  ConvolvedTensor x, w, y;  // image, filter, result
  std::vector<int64_t> before, after, dilations, strides;

  bool Fits() const {
    for (size_t d = 0; d < 2; ++d) {
      const int64_t reach = (w.dims[d + 2] - 1) * dilations[d] + 1;
      if ((x.dims[d + 2] + before[d] + after[d] - reach) / strides[d] + 1 != y.dims[d + 2]) return false;
    }
    return x.dims[0] == y.dims[0] && w.dims[0] == y.dims[1] && x.dims[1] % w.dims[1] == 0;
  }

  // visit(place in x, in w, in y) for every product.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    const int64_t group_channels = w.dims[1], group_filters = w.dims[0] / (x.dims[1] / group_channels);
    for (int64_t n = 0; n < y.dims[0]; ++n) {
      for (int64_t k = 0; k < y.dims[1]; ++k) {
        for (int64_t oy = 0; oy < y.dims[2]; ++oy) {
          for (int64_t ox = 0; ox < y.dims[3]; ++ox) {
            for (int64_t c = 0; c < group_channels; ++c) {
              for (int64_t ky = 0; ky < w.dims[2]; ++ky) {
                for (int64_t kx = 0; kx < w.dims[3]; ++kx) {
                  const int64_t iy = oy * strides[0] + ky * dilations[0] - before[0],
                                ix = ox * strides[1] + kx * dilations[1] - before[1];
                  if (iy < 0 || iy >= x.dims[2] || ix < 0 || ix >= x.dims[3]) continue;
                  visit(x.At(n, k / group_filters * group_channels + c, iy, ix), w.At(k, c, ky, kx),
                        y.At(n, k, oy, ox));
                }
              }
            }
          }
        }
      }
    }
  }

  // Floats are rounded to so many bits of mantissa before they are multiplied; sums are of doubles.
  void Compute(int mantissa_bits, void* x_data, void* w_data, void* y_data) const {
    const ConvolvedTensor& out = result == kForward ? y : result == kImage ? x : w;
    void* const target = result == kForward ? y_data : result == kImage ? x_data : w_data;
    std::vector<double> sums(static_cast<size_t>(out.dims[0] * out.dims[1] * out.dims[2] * out.dims[3]));
    const auto value = [&](const ConvolvedTensor& t, const void* data, int64_t at) {
      return Rounded(Load(t.type, data, at), t.type == Number::kFloat ? mantissa_bits : 52);
    };
    ForEach([&](int64_t xi, int64_t wi, int64_t yi) {
      switch (result) {
        case kForward: sums[static_cast<size_t>(yi)] += value(x, x_data, xi) * value(w, w_data, wi); break;
        case kImage: sums[static_cast<size_t>(xi)] += value(y, y_data, yi) * value(w, w_data, wi); break;
        case kFilter: sums[static_cast<size_t>(wi)] += value(x, x_data, xi) * value(y, y_data, yi); break;
      }
    });
    for (size_t i = 0; i < sums.size(); ++i) Store(out.type, target, static_cast<int64_t>(i), sums[i]);
  }
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_EMULATION_CONVOLUTION_H_
