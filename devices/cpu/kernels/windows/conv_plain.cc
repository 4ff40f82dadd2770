// SPDX-License-Identifier: Apache-2.0
// Conv2D, Conv3D and their gradients in half and bfloat16, those of images in int32 too, by their definition: each
// product of a pixel and an element of the filter is added to an accumulator in the workspace. Halves are summed as
// floats and rounded once, integers wrap.
#include <algorithm>

#include "kernels/windows/window.h"

namespace tenon::cpu {
namespace {

using sdk::Filter;

enum class Role { kImage, kFilter, kResult };

struct PlainGeometry {
  template <size_t kDirections>
  PlainGeometry(const sdk::WindowAttributesOf<kDirections>& a, sdk::Dims in, sdk::Dims filter_dims, sdk::Dims out)
      : x(in, a.channels_first, kDirections + 2), y(out, a.channels_first, kDirections + 2),
        filter(filter_dims, x.channels, y.channels, kDirections + 2),
        rows(a.Geometry(kDirections - 2, x.height, filter.height, y.height)),
        columns(a.Geometry(kDirections - 1, x.width, filter.width, y.width)), channels_first(a.channels_first) {
    if constexpr (kDirections == 3) planes = a.Geometry(0, x.depth, filter.depth, y.depth);
    if (x.batch != y.batch) sdk::Fail(TENON_INVALID_ARGUMENT, "batches of ", x.batch, " and ", y.batch, " images");
  }
  int64_t At(const Image& image, int64_t n, int64_t pixel, int64_t channel) const {
    return channels_first ? (n * image.channels + channel) * image.pixels() + pixel
                          : (n * image.pixels() + pixel) * image.channels + channel;
  }
  // function(place in x, in the filter, in y) for every product.
  template <class Function>
  void ForEachProduct(sdk::CancelPoll poll, Function&& function) const {
    for (int64_t n = 0; n < y.batch; ++n)
      for (int64_t o = 0; o < y.pixels(); ++o)
        for (int64_t tap = 0; tap < filter.taps(); poll(3 * filter.in * filter.out), ++tap) {
          const int64_t area = filter.height * filter.width;
          const int64_t iz = Cell(planes, o / (y.height * y.width), tap / area);
          const int64_t iy = Cell(rows, o / y.width % y.height, tap % area / filter.width);
          const int64_t ix = Cell(columns, o % y.width, tap % filter.width);
          if (iz >= 0 && iz < x.depth && iy >= 0 && iy < x.height && ix >= 0 && ix < x.width)
            ForEachChannel({n, o, (iz * x.height + iy) * x.width + ix, tap}, function);
        }
  }
  Image x, y;
  Filter filter;
  WindowDim planes{1, 1, 1, 1, 1, 0}, rows, columns;
  bool channels_first;

 private:
  struct Tap {
    int64_t n, result, pixel, place;
  };
  static int64_t Cell(const WindowDim& w, int64_t result, int64_t tap) {
    return result * w.stride + tap * w.dilation - w.before;
  }
  template <class Function>
  void ForEachChannel(const Tap& t, Function& function) const {
    const int64_t out_group = filter.out / filter.groups;
    for (int64_t in = 0; in < filter.in; ++in)
      for (int64_t out = 0; out < filter.out; ++out)
        function(At(x, t.n, t.pixel, out / out_group * filter.in + in), (t.place * filter.in + in) * filter.out + out,
                 At(y, t.n, t.result, out));
  }
};

// Inputs in their order, of which one role is the output's.
template <class Attributes, Role kOutput>
struct PlainConvolution {
  explicit PlainConvolution(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan : PlainGeometry {
    Plan(const PlainConvolution& kernel, sdk::PrepareContext& c)
        : PlainGeometry(kernel.attributes, DimsOf(c, Role::kImage), DimsOf(c, Role::kFilter),
                        DimsOf(c, Role::kResult)) {
      c.Workspace(sdk::Multiply(sdk::Count(c.output(0)), 4));
    }
    static sdk::Dims DimsOf(sdk::PrepareContext& c, Role role) {
      return sdk::DimsOf(role == kOutput ? c.output(0) : c.input(InputOf(role)));
    }
  };
  // Conv2D takes (image, filter), the gradients (sizes, filter, result) and (image, sizes, result).
  static constexpr int32_t InputOf(Role role) { return role == Role::kImage ? 0 : role == Role::kFilter ? 1 : 2; }

  void Run(const Plan& plan, sdk::RunContext c) const {
    // The type of what is multiplied; the result may be the sums of halves.
    Types<Half, Bfloat16, int32_t>::Dispatch(
        c.input_view(InputOf(kOutput == Role::kResult ? Role::kImage : Role::kResult)).dtype, [&]<class T>(Tag<T>) {
          c.output_view(0).dtype == TENON_DT_FLOAT ? Typed<T, float>(plan, c) : Typed<T, T>(plan, c);
        });
  }

 private:
  template <class T, class Result>
  static void Typed(const Plan& plan, sdk::RunContext c) {
    using A = std::conditional_t<std::is_integral_v<T>, uint32_t, float>;
    A* sum = c.workspace<A>();
    const int64_t count = sdk::Count(c.output_view(0));
    std::fill_n(sum, count, A(0));
    const auto read = [&](Role role, int64_t at) {
      return static_cast<A>(static_cast<Wide<T>>(c.input<T>(InputOf(role))[at]));
    };
    plan.ForEachProduct(sdk::CancelPoll(c), [&](int64_t x, int64_t f, int64_t y) {
      if constexpr (kOutput == Role::kImage) sum[x] += read(Role::kResult, y) * read(Role::kFilter, f);
      if constexpr (kOutput == Role::kFilter) sum[f] += read(Role::kImage, x) * read(Role::kResult, y);
      if constexpr (kOutput == Role::kResult) sum[y] += read(Role::kImage, x) * read(Role::kFilter, f);
    });
    auto* out = c.output<Result>(0);
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<Result>(sum[i]);
  }
  Attributes attributes;
};

template <class Set>
constexpr sdk::Traits kPlainConvTraits = {.constraints = sdk::Constraints<typename Set::template Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};
constexpr sdk::Traits kImages = kPlainConvTraits<Types<Half, Bfloat16, int32_t>>,
                      kVolumes = kPlainConvTraits<Types<Half, Bfloat16>>;

}  // namespace

TENON_CPU_KERNEL(Conv2DPlain) = CpuKernel<PlainConvolution<WindowAttributes, Role::kResult>>("Conv2D", kImages);
TENON_CPU_KERNEL(Conv2DBackpropInputPlain) =
    CpuKernel<PlainConvolution<WindowAttributes, Role::kImage>>("Conv2DBackpropInput", kImages);
TENON_CPU_KERNEL(Conv2DBackpropFilterPlain) =
    CpuKernel<PlainConvolution<WindowAttributes, Role::kFilter>>("Conv2DBackpropFilter", kImages);
TENON_CPU_KERNEL(Conv2DBackpropFilterSums) = CpuKernel<PlainConvolution<WindowAttributes, Role::kFilter>>(
    "Tenon>Conv2DBackpropFilterSums", kPlainConvTraits<Types<Half, Bfloat16>>);
TENON_CPU_KERNEL(Conv3DPlain) = CpuKernel<PlainConvolution<VolumeAttributes, Role::kResult>>("Conv3D", kVolumes);
TENON_CPU_KERNEL(Conv3DBackpropInputV2Plain) =
    CpuKernel<PlainConvolution<VolumeAttributes, Role::kImage>>("Conv3DBackpropInputV2", kVolumes);
TENON_CPU_KERNEL(Conv3DBackpropFilterV2Plain) =
    CpuKernel<PlainConvolution<VolumeAttributes, Role::kFilter>>("Conv3DBackpropFilterV2", kVolumes);

}  // namespace tenon::cpu
