// SPDX-License-Identifier: Apache-2.0
// Conv2D and its gradients on the matrix unit, as products of patches (im2col).
//
// A patch is what one window sees, in the filter's order; patches stand in a block of pixels at a time:
//   forward:             y      = patches filter
//   gradient of filter:  filter = patches^T y, where a block is a whole number of folds, so that blocks change no sum
//   gradient of input:   patches = y filter^T, which are added to where they came from, in the order of the pixels.
#include <algorithm>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/product.h"
#include "tenon/extras/walk/window.h"

namespace tenon::tpu_sim {
namespace {

using sdk::Dims;

class Geometry {
 public:
  Geometry(const sdk::WindowAttributes& a, Dims in, Dims filter_dims, Dims out)
      : x(in, a.channels_first), y(out, a.channels_first), filter(filter_dims, x.channels, y.channels),
        rows(a.Geometry(0, x.height, filter.height, y.height)), columns(a.Geometry(1, x.width, filter.width, y.width)),
        channels_first(a.channels_first) {
    if (x.batch != y.batch) sdk::Fail(TENON_INVALID_ARGUMENT, "batches of ", x.batch, " and ", y.batch, " images");
    group_filters = filter.out / filter.groups;
    patch = sdk::Multiply(filter.height * filter.width, filter.in);
  }
  int64_t pixels() const { return y.batch * y.pixels(); }
  // Steps from channel to channel in an image, and where a pixel's first channel is.
  int64_t Step(const sdk::Image& image) const { return channels_first ? image.pixels() : 1; }
  int64_t At(const sdk::Image& image, int64_t batch, int64_t pixel) const {
    return channels_first ? batch * image.channels * image.pixels() + pixel
                          : (batch * image.pixels() + pixel) * image.channels;
  }
  // Where filter channel 0 of the group stands in y, for output pixel p.
  int64_t Result(int64_t p, int64_t group) const {
    return At(y, p / y.pixels(), p % y.pixels()) + group * group_filters * Step(y);
  }
  // function(cell, at) for the cells of pixel p's patch: its channels stand in x from `cell` on, or are padding where
  // it is -1; in the patch from `at` on.
  template <class Function>
  void ForEachCell(int64_t p, int64_t group, Function&& function) const {
    const int64_t batch = p / y.pixels(), oy = p % y.pixels() / y.width, ox = p % y.width;
    int64_t at = 0;
    for (int64_t ky = 0; ky < filter.height; ++ky) {
      const int64_t iy = oy * rows.stride + ky * rows.dilation - rows.before;
      for (int64_t kx = 0; kx < filter.width; ++kx, at += filter.in) {
        const int64_t ix = ox * columns.stride + kx * columns.dilation - columns.before;
        const bool inside = iy >= 0 && iy < x.height && ix >= 0 && ix < x.width;
        function(inside ? At(x, batch, iy * x.width + ix) + group * filter.in * Step(x) : int64_t{-1}, at);
      }
    }
  }

  sdk::Image x, y;
  sdk::Filter filter;
  sdk::WindowDim rows, columns;
  bool channels_first;
  int64_t group_filters, patch;
};

// What the three plans have in common.
struct ConvPlan : Geometry {
  ConvPlan(const sdk::WindowAttributes& a, Dims in, Dims filter_dims, Dims out, uint32_t dtype, const Shapes& s)
      : Geometry(a, in, filter_dims, out), round(s.Rounds(dtype)), fold(s.machine().rows) {
    block = (kLeastBlock + fold - 1) / fold * fold;
  }
  void Work(char* const* at) const { function(*this, at); }

  // function(first pixel, pixels) for each block.
  template <class Function>
  void ForEachBlock(Function&& function) const {
    for (int64_t begin = 0; begin < pixels(); begin += block) function(begin, std::min(block, pixels() - begin));
  }
  // Patches as rows.
  template <class T>
  void FetchPatches(const T* image, int64_t begin, int64_t count, int64_t group, float* out) const {
    const int64_t step = Step(x);
    for (int64_t i = 0; i < count; ++i) {
      ForEachCell(begin + i, group, [&](int64_t cell, int64_t at) {
        for (int64_t k = 0; k < filter.in; ++k) {
          out[i * patch + at + k] = cell < 0 ? 0.0f : Factor(image[cell + k * step], round);
        }
      });
    }
  }
  template <class T>
  void FetchResults(const T* results, int64_t begin, int64_t count, int64_t group, float* out) const {
    for (int64_t i = 0; i < count; ++i) {
      const T* from = results + Result(begin + i, group);
      for (int64_t j = 0; j < group_filters; ++j) out[i * group_filters + j] = Factor(from[j * Step(y)], round);
    }
  }
  int64_t ImageBytes(uint32_t dtype) const {
    return std::min(x.count(), pixels() * patch) * static_cast<int64_t>(sdk::ElementSize(dtype));
  }

  static constexpr int64_t kLeastBlock = 256;
  bool round;
  int64_t fold, block;
  void (*function)(const ConvPlan&, char* const*) = nullptr;
};

size_t Size(int64_t rows, int64_t columns) { return static_cast<size_t>(sdk::Multiply(rows, columns)); }

struct Conv2DKernel {
  explicit Conv2DKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan : ConvPlan {
    Plan(const Conv2DKernel& kernel, Shapes& s)
        : ConvPlan(kernel.attributes, s.in(0), s.in(1), s.out(0), s.input(0).dtype, s) {
      const uint32_t dtype = s.input(0).dtype;
      MatrixTypes::Dispatch(dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Matrix(pixels(), group_filters, patch, dtype, filter.groups);
      s.effort.product.left_bytes = ImageBytes(dtype);
    }
    template <class T>
    static void Loop(const ConvPlan& p, char* const* at) {
      std::vector<float> patches(Size(p.block, p.patch)), weights(Size(p.patch, p.group_filters)),
          sums(Size(p.block, p.group_filters));
      T* out = reinterpret_cast<T*>(at[2]);
      for (int64_t g = 0; g < p.filter.groups; ++g) {
        Fetch(reinterpret_cast<const T*>(at[1]) + g * p.group_filters, p.patch, p.group_filters, p.filter.out, 1,
              p.round, weights.data());
        p.ForEachBlock([&](int64_t begin, int64_t count) {
          p.FetchPatches(reinterpret_cast<const T*>(at[0]), begin, count, g, patches.data());
          MultiplyFolds({patches.data(), p.patch, 1}, weights.data(), count, p.group_filters, p.patch, p.fold, false,
                        sums.data());
          for (int64_t i = 0; i < count; ++i) {
            T* to = out + p.Result(begin + i, g);
            for (int64_t j = 0; j < p.group_filters; ++j) {
              to[j * p.Step(p.y)] = static_cast<T>(sums[static_cast<size_t>(i * p.group_filters + j)]);
            }
          }
        });
      }
    }
  };
  sdk::WindowAttributes attributes;
};

// (input_sizes, filter, out_backprop).
struct BackpropInputKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("input_sizes"), 0}};
  explicit BackpropInputKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan : ConvPlan {
    Plan(const BackpropInputKernel& kernel, Shapes& s)
        : ConvPlan(kernel.attributes, s.out(0), s.in(1), s.in(2), s.input(2).dtype, s) {
      const uint32_t dtype = s.input(2).dtype;
      MatrixTypes::Dispatch(dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Matrix(pixels(), patch, group_filters, dtype, filter.groups);
      s.effort.left = 2;
      s.Vector(sdk::Multiply(pixels(), patch));
    }
    template <class T>
    static void Loop(const ConvPlan& p, char* const* at) {
      std::vector<float> results(Size(p.block, p.group_filters)), weights(Size(p.group_filters, p.patch)),
          patches(Size(p.block, p.patch));
      std::vector<float> image(static_cast<size_t>(p.x.count()));
      for (int64_t g = 0; g < p.filter.groups; ++g) {
        Fetch(reinterpret_cast<const T*>(at[1]) + g * p.group_filters, p.group_filters, p.patch, 1, p.filter.out,
              p.round, weights.data());
        p.ForEachBlock([&](int64_t begin, int64_t count) {
          p.FetchResults(reinterpret_cast<const T*>(at[2]), begin, count, g, results.data());
          MultiplyFolds({results.data(), p.group_filters, 1}, weights.data(), count, p.patch, p.group_filters, p.fold,
                        false, patches.data());
          for (int64_t i = 0; i < count; ++i) {
            p.ForEachCell(begin + i, g, [&](int64_t cell, int64_t from) {
              for (int64_t k = 0; cell >= 0 && k < p.filter.in; ++k) {
                image[static_cast<size_t>(cell + k * p.Step(p.x))] +=
                    patches[static_cast<size_t>(i * p.patch + from + k)];
              }
            });
          }
        });
      }
      std::transform(image.begin(), image.end(), reinterpret_cast<T*>(at[3]),
                     [](float value) { return static_cast<T>(value); });
    }
  };
  sdk::WindowAttributes attributes;
};

// (input, filter_sizes, out_backprop).
struct BackpropFilterKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("filter_sizes"), 1}};
  explicit BackpropFilterKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan : ConvPlan {
    Plan(const BackpropFilterKernel& kernel, Shapes& s)
        : ConvPlan(kernel.attributes, s.in(0), s.out(0), s.in(2), s.input(0).dtype, s) {
      const uint32_t dtype = s.input(0).dtype;
      MatrixTypes::Dispatch(dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Matrix(patch, group_filters, pixels(), dtype, filter.groups);
      s.effort.product.left_bytes = ImageBytes(dtype);
    }
    template <class T>
    static void Loop(const ConvPlan& p, char* const* at) {
      std::vector<float> patches(Size(p.block, p.patch)), results(Size(p.block, p.group_filters)),
          sums(Size(p.patch, p.group_filters));
      T* out = reinterpret_cast<T*>(at[3]);
      for (int64_t g = 0; g < p.filter.groups; ++g) {
        std::fill(sums.begin(), sums.end(), 0.0f);
        p.ForEachBlock([&](int64_t begin, int64_t count) {
          p.FetchPatches(reinterpret_cast<const T*>(at[0]), begin, count, g, patches.data());
          p.FetchResults(reinterpret_cast<const T*>(at[2]), begin, count, g, results.data());
          MultiplyFolds({patches.data(), 1, p.patch}, results.data(), p.patch, p.group_filters, count, p.fold, true,
                        sums.data());
        });
        for (int64_t e = 0; e < p.patch; ++e) {
          for (int64_t j = 0; j < p.group_filters; ++j) {
            out[e * p.filter.out + g * p.group_filters + j] =
                static_cast<T>(sums[static_cast<size_t>(e * p.group_filters + j)]);
          }
        }
      }
    }
  };
  sdk::WindowAttributes attributes;
};

constexpr sdk::Traits kConvTraits = {.constraints = sdk::Constraints<MatrixTypes::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_TPU_KERNEL(Conv2D) = Kernel<Conv2DKernel>("Conv2D", kConvTraits);
TENON_TPU_KERNEL(Conv2DBackpropInput) = Kernel<BackpropInputKernel>("Conv2DBackpropInput", kConvTraits);
TENON_TPU_KERNEL(Conv2DBackpropFilter) = Kernel<BackpropFilterKernel>("Conv2DBackpropFilter", kConvTraits);

}  // namespace tenon::tpu_sim
