// SPDX-License-Identifier: Apache-2.0
// What sessions of precision int8 run (tenon/extras/kernel/int8.h): numbers as bytes and back, and products of bytes
// with weights by their definition, for machines and shapes that devices/cpu_onednn does not take. Compiled without
// fused multiply-adds, so that both round alike.
#include "tenon/extras/kernel/int8.h"

#include <bit>

#include "kernels/common/types.h"
#include "tenon/extras/walk/window.h"

namespace tenon::cpu {
namespace {

// Adding it leaves the integer nearest to a float from 0 to 255, the even one of two, in the last bits.
constexpr float kToInteger = 8388608.0F;

uint8_t ByteOf(float steps) {
  steps = steps > 0 ? steps : 0.0F;
  steps = steps < 255 ? steps : 255.0F;
  return static_cast<uint8_t>(std::bit_cast<uint32_t>(steps + kToInteger));
}

struct Scaled {
  explicit Scaled(sdk::CreateContext& c) : scale(c.Float("scale")), zero(static_cast<float>(c.Int("zero"))) {
    if (!(scale > 0 && scale <= FLT_MAX)) c.Invalid("scale is ", scale, "; it must be positive and finite");
    if (!(zero <= 255)) c.Invalid("zero is ", zero, "; a byte is at most 255");
  }
  float scale, zero;
};

struct Int8QuantizeKernel : Scaled {
  using Scaled::Scaled;
  void Run(sdk::RunContext c) const {
    const float* x = c.input<float>(0);
    uint8_t* out = c.output<uint8_t>(0);
    const float steps = 1 / scale;
    c.ParallelFor(sdk::Count(c.input_view(0)), 0.2, [&](int64_t begin, int64_t end) {
      constexpr int64_t kBlock = 4096;
      for (int64_t at = begin; at < end; at += kBlock) {
        const int64_t stop = std::min(end, at + kBlock);
        uint32_t numbers = 1;
        for (int64_t i = at; i < stop; ++i) {
          numbers &= std::fabs(x[i]) <= FLT_MAX ? 1U : 0U;
          out[i] = ByteOf(x[i] * steps + zero);
        }
        if (numbers == 0) [[unlikely]] Refuse(x, at);
      }
    });
  }
  [[noreturn]] static void Refuse(const float* x, int64_t at) {
    while (std::fabs(x[at]) <= FLT_MAX) ++at;
    sdk::Fail(TENON_INVALID_ARGUMENT, "element ", at, " is ", x[at],
              ", which 8-bit integers cannot hold; run the graph in floats (without precision int8), or find with "
              "--check-numerics where it comes from");
  }
};

struct Int8DequantizeKernel : Scaled {
  using Scaled::Scaled;
  void Run(sdk::RunContext c) const {
    const uint8_t* x = c.input<uint8_t>(0);
    float* out = c.output<float>(0);
    c.ParallelFor(sdk::Count(c.input_view(0)), 0.2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = (static_cast<float>(x[i]) - zero) * scale;
    });
  }
};

// One node's convolution: a product of matrices is one of pixels [1, k] with a window of one.
struct Int8Geometry {
  int64_t batch = 1, in_height = 1, in_width = 1, in_channels = 1, out_height = 1, out_width = 1, out_channels = 1,
          groups = 1;
  sdk::WindowDim height, width;
  int64_t in_group() const { return in_channels / groups; }
  int64_t out_group() const { return out_channels / groups; }
  int64_t rows() const { return height.size * width.size * in_group(); }
  int64_t pixels() const { return batch * out_height * out_width; }
};

struct MatMulShapes {
  explicit MatMulShapes(sdk::CreateContext& c) : transposed(c.Bool("transpose_b")) {}
  Int8Geometry Of(sdk::Dims a, sdk::Dims b, sdk::Dims out) const {
    if (a.size() != 2 || b.size() != 2 || out.size() != 2)
      sdk::Fail(TENON_INVALID_ARGUMENT, "matrices have 2 dims; the shapes are ", a, " and ", b);
    if (a[1] != b[transposed ? 1 : 0])
      sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
    Int8Geometry g;
    g.batch = a[0], g.in_channels = a[1], g.out_channels = b[transposed ? 0 : 1];
    g.height.input = g.height.output = g.width.input = g.width.output = 1;
    return g;
  }
  sdk::WeightMatrix Weights(const Int8Geometry& g, const float* data) const {
    return transposed ? sdk::WeightMatrix{data, g.in_channels, g.out_channels, 1, g.in_channels}
                      : sdk::WeightMatrix{data, g.in_channels, g.out_channels, g.out_channels, 1};
  }
  bool transposed;
};

struct ConvShapes {
  explicit ConvShapes(sdk::CreateContext& c) : window(c, ""), depthwise(c.Bool("depthwise")) {}
  Int8Geometry Of(sdk::Dims in, sdk::Dims filter, sdk::Dims out) const {
    const sdk::Image x(in, false), y(out, false);
    if (filter.size() != 4) sdk::Fail(TENON_INVALID_ARGUMENT, "a filter needs 4 dims; the shape is ", filter);
    const std::array<int64_t, 4> grouped = {filter[0], filter[1], 1, sdk::Multiply(filter[2], filter[3])};
    const sdk::Filter f(depthwise ? sdk::Dims(grouped) : filter, x.channels, y.channels);
    Int8Geometry g{x.batch, x.height, x.width, x.channels, y.height, y.width, y.channels, f.groups, {}, {}};
    g.height = window.Geometry(0, x.height, f.height, y.height);
    g.width = window.Geometry(1, x.width, f.width, y.width);
    return g;
  }
  sdk::WeightMatrix Weights(const Int8Geometry& g, const float* data) const {
    return {data, g.rows(), g.out_channels, g.out_channels, 1};
  }
  sdk::WindowAttributes window;
  bool depthwise;
};

template <class Shapes>
struct Int8ProductKernel {
  explicit Int8ProductKernel(sdk::CreateContext& c) : product(c), shapes(c) {}
  struct Plan {
    Plan(const Int8ProductKernel& kernel, sdk::PrepareContext& c)
        : g(kernel.shapes.Of(sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.output(0)))) {
      if (const float* filter = c.Constant<float>(1)) {
        weights.resize(static_cast<size_t>(sdk::Multiply(g.rows(), g.out_channels)));
        scale.resize(static_cast<size_t>(g.out_channels));
        sdk::QuantizeWeights(kernel.shapes.Weights(g, filter), 0, g.out_channels, weights.data(), scale.data());
      } else {
        weights_at = c.Workspace(sdk::Multiply(g.rows(), g.out_channels));
        scale_at = c.Workspace(sdk::Multiply(g.out_channels, 4));
      }
      factor_at = c.Workspace(sdk::Multiply(g.out_channels, 4));
      shift_at = c.Workspace(sdk::Multiply(g.out_channels, 4));
      shares = c.threads();
      sums_at = c.Workspace(sdk::Multiply(sdk::Multiply(shares, g.out_channels), 4));
    }
    Int8Geometry g;
    std::vector<int8_t> weights;  // of a constant filter
    std::vector<float> scale;
    int64_t weights_at = 0, scale_at = 0, factor_at, shift_at, shares, sums_at;
  };
  void Run(const Plan& p, sdk::RunContext c) const {
    const Int8Geometry& g = p.g;
    const int8_t* weights = p.weights.data();
    const float* scale = p.scale.data();
    if (p.scale.empty()) {
      const sdk::WeightMatrix matrix = shapes.Weights(g, c.input<float>(1));
      constexpr int64_t kBlock = 64;
      c.ParallelFor((g.out_channels + kBlock - 1) / kBlock, static_cast<double>(kBlock * g.rows()) * 2 + 1,
                    [&](int64_t begin, int64_t end) {
                      sdk::QuantizeWeights(matrix, begin * kBlock, std::min(g.out_channels, end * kBlock),
                                           c.workspace<int8_t>(p.weights_at), c.workspace<float>(p.scale_at));
                    });
      weights = c.workspace<int8_t>(p.weights_at);
      scale = c.workspace<float>(p.scale_at);
    }
    float* factor = c.workspace<float>(p.factor_at);
    float* shift = c.workspace<float>(p.shift_at);
    product.Fold(
        g.out_channels, scale, [&](int32_t i) { return c.input<float>(product.first_vector + i); }, factor, shift);
    // Each share of the pixels has sums of its own.
    const double cost = static_cast<double>(g.pixels()) / static_cast<double>(p.shares) *
                        static_cast<double>(g.rows() * g.out_group() * g.groups) * 0.1;
    c.ParallelFor(p.shares, cost + 1, [&](int64_t begin, int64_t end) {
      for (int64_t share = begin; share < end; ++share) {
        sdk::CancelPoll poll(c);
        int32_t* sums = c.workspace<int32_t>(p.sums_at) + share * g.out_channels;
        for (int64_t pixel = g.pixels() * share / p.shares; pixel < g.pixels() * (share + 1) / p.shares; ++pixel) {
          Sum(g, pixel, c.input<uint8_t>(0), weights, sums, poll);
          Store(g, pixel, sums, factor, shift, c);
        }
      }
    });
  }

 private:
  // What lies outside of the image is 0.
  void Sum(const Int8Geometry& g, int64_t pixel, const uint8_t* x, const int8_t* weights, int32_t* sums,
           sdk::CancelPoll& poll) const {
    const int64_t image = pixel / (g.out_height * g.out_width), row = pixel / g.out_width % g.out_height,
                  column = pixel % g.out_width;
    const int64_t in = g.in_group(), out = g.out_group();
    std::fill_n(sums, g.out_channels, 0);
    for (int64_t ky = 0; ky < g.height.size; ++ky) {
      const int64_t y = row * g.height.stride + ky * g.height.dilation - g.height.before;
      if (y < 0 || y >= g.in_height) continue;
      for (int64_t kx = 0; kx < g.width.size; ++kx) {
        const int64_t at = column * g.width.stride + kx * g.width.dilation - g.width.before;
        if (at < 0 || at >= g.in_width) continue;
        const uint8_t* from = x + ((image * g.in_height + y) * g.in_width + at) * g.in_channels;
        const int8_t* window = weights + (ky * g.width.size + kx) * in * g.out_channels;
        if (in == 1 && out == 1) {
          for (int64_t channel = 0; channel < g.out_channels; ++channel)
            sums[channel] += (from[channel] - product.input_zero) * window[channel];
          continue;
        }
        for (int64_t group = 0; group < g.groups; ++group)
          for (int64_t channel = 0; channel < in; ++channel) {
            const int32_t value = from[group * in + channel] - product.input_zero;
            const int8_t* w = window + channel * g.out_channels + group * out;
            int32_t* to = sums + group * out;
            for (int64_t o = 0; o < out; ++o) to[o] += value * w[o];
          }
      }
      poll(g.width.size * in * (g.out_channels / 8 + 1));
    }
  }
  void Store(const Int8Geometry& g, int64_t pixel, const int32_t* sums, const float* factor, const float* shift,
             sdk::RunContext c) const {
    using Activation = sdk::Int8Product::Activation;
    const int64_t first = pixel * g.out_channels;
    const float least = product.activation == Activation::kNone ? -HUGE_VALF : 0.0F, most = product.most();
    if (!product.bytes) {
      float* out = c.output<float>(0) + first;
      for (int64_t o = 0; o < g.out_channels; ++o)
        out[o] = std::min(std::max(static_cast<float>(sums[o]) * factor[o] + shift[o], least), most);
      return;
    }
    uint8_t* out = c.output<uint8_t>(0) + first;
    const uint8_t* addend = product.addend < 0 ? nullptr : c.input<uint8_t>(product.addend) + first;
    const auto addend_zero = static_cast<float>(product.addend_zero),
               output_zero = static_cast<float>(product.output_zero);
    const float addend_factor = product.addend_factor();
    for (int64_t o = 0; o < g.out_channels; ++o) {
      float value = static_cast<float>(sums[o]) * factor[o] + shift[o];
      if (addend != nullptr) value += (static_cast<float>(addend[o]) - addend_zero) * addend_factor;
      out[o] = ByteOf(std::min(std::max(value, least), most) + output_zero);
    }
  }

  sdk::Int8Product product;
  Shapes shapes;
};

constexpr sdk::Traits kProductTraits = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(Int8Quantize) = CpuKernel<Int8QuantizeKernel>("Tenon>Int8Quantize", {});
TENON_CPU_KERNEL(Int8Dequantize) = CpuKernel<Int8DequantizeKernel>("Tenon>Int8Dequantize", {});
TENON_CPU_KERNEL(Int8Conv2D) = CpuKernel<Int8ProductKernel<ConvShapes>>("Tenon>Int8Conv2D", kProductTraits);
TENON_CPU_KERNEL(Int8MatMul) = CpuKernel<Int8ProductKernel<MatMulShapes>>("Tenon>Int8MatMul", kProductTraits);

}  // namespace tenon::cpu
