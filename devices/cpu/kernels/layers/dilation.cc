// SPDX-License-Identifier: Apache-2.0
// Dilation2D, the largest sum of a window's elements and a filter's, and its gradients, which go to the first of the
// largest.
#include <algorithm>

#include "kernels/windows/window.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/walk/pool.h"

namespace tenon::cpu {
namespace {

struct DilationGeometry {
  DilationGeometry(const WindowAttributes& a, sdk::Dims in, sdk::Dims filter, sdk::Dims out)
      : x(in, false), y(out, false) {
    if (filter.size() != 3 || filter[2] != x.channels || y.channels != x.channels || y.batch != x.batch) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", filter, " does not take ", in, " to ", out);
    }
    rows = a.Geometry(0, x.height, filter[0], y.height);
    columns = a.Geometry(1, x.width, filter[1], y.width);
  }
  int64_t taps() const { return rows.size * columns.size; }
  // Rough nanoseconds of one element of the result.
  double Cost() const { return 2.0 * static_cast<double>(taps()); }
  static int64_t At(const Image& image, int64_t n, int64_t row, int64_t column) {
    return ((n * image.height + row) * image.width + column) * image.channels;
  }
  // function(where a cell stands in x, where its tap in the filter) for the cells of a window that lie inside; of
  // channel 0.
  template <class Function>
  void ForEachCell(int64_t n, int64_t oy, int64_t ox, Function&& function) const {
    for (int64_t ky = 0; ky < rows.size; ++ky) {
      const int64_t iy = oy * rows.stride + ky * rows.dilation - rows.before;
      if (iy < 0 || iy >= x.height) continue;
      for (int64_t kx = 0; kx < columns.size; ++kx) {
        const int64_t ix = ox * columns.stride + kx * columns.dilation - columns.before;
        if (ix >= 0 && ix < x.width) function(At(x, n, iy, ix), (ky * columns.size + kx) * x.channels);
      }
    }
  }
  Image x, y;
  WindowDim rows, columns;
};

template <class T>
T Sum(T a, T b) {
  return static_cast<T>(sdk::AddOp()(static_cast<Wide<T>>(a), static_cast<Wide<T>>(b)));
}

struct DilationKernel {
  explicit DilationKernel(sdk::CreateContext& c) : attributes(c, "", "rates") {}
  struct Plan : DilationGeometry {
    Plan(const DilationKernel& kernel, sdk::PrepareContext& c)
        : DilationGeometry(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)),
                           sdk::DimsOf(c.output(0))) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Numbers::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const int64_t lanes = plan.x.channels;
      c.ParallelFor(plan.y.batch * plan.y.height, plan.Cost() * static_cast<double>(plan.y.width * lanes),
                    [&](int64_t begin, int64_t end) {
                      sdk::CancelPoll poll(c);
                      for (int64_t row = begin; row < end; ++row) {
                        for (int64_t ox = 0; ox < plan.y.width; poll(plan.taps() * lanes + 1), ++ox) {
                          T* to = c.output<T>(0) + (row * plan.y.width + ox) * lanes;
                          std::fill_n(to, lanes, static_cast<T>(sdk::Lowest<T>()));
                          plan.ForEachCell(
                              row / plan.y.height, row % plan.y.height, ox, [&](int64_t cell, int64_t tap) {
                                const T* in = c.input<T>(0) + cell;
                                const T* filter = c.input<T>(1) + tap;
                                for (int64_t k = 0; k < lanes; ++k) {
                                  const T sum = Sum(in[k], filter[k]);
                                  to[k] = static_cast<Wide<T>>(sum) > static_cast<Wide<T>>(to[k]) ? sum : to[k];
                                }
                              });
                        }
                      }
                    });
    });
  }
  WindowAttributes attributes;
};

// (input, filter, out_backprop). Channels are apart from each other in both gradients, and shared among threads.
template <bool kOfInput>
struct DilationGradKernel {
  explicit DilationGradKernel(sdk::CreateContext& c) : attributes(c, "", "rates") {}
  struct Plan : DilationGeometry {
    Plan(const DilationGradKernel& kernel, sdk::PrepareContext& c)
        : DilationGeometry(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)),
                           sdk::DimsOf(c.input(2))) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Numbers::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      std::fill_n(c.output<T>(0), sdk::Count(c.output_view(0)), T(0));
      const int64_t windows = plan.y.batch * plan.y.pixels();
      // A share is some channels of all windows, as many as fill vectors.
      const int64_t blocks = (plan.x.channels + kLanes - 1) / kLanes;
      c.ParallelFor(blocks, 0.25 * plan.Cost() * static_cast<double>(windows * kLanes),
                    [&](int64_t begin, int64_t end) {
                      sdk::CancelPoll poll(c);
                      for (int64_t k = begin * kLanes; k < std::min(end * kLanes, plan.x.channels); k += kLanes)
                        for (int64_t at = 0; at < windows; poll(2 * plan.taps() + 1), ++at)
                          Add<T>(plan, c, at, k, std::min(kLanes, plan.x.channels - k));
                    });
    });
  }

 private:
  static constexpr int64_t kLanes = 16;
  // The window's gradients of some channels, each to its place in x or in the filter. Where nothing is larger than the
  // lowest number, that is the window's first cell inside, and the filter's first tap.
  template <class T>
  static void Add(const Plan& plan, const sdk::RunContext& c, int64_t at, int64_t k, int64_t lanes) {
    const int64_t n = at / plan.y.pixels(), oy = at % plan.y.pixels() / plan.y.width, ox = at % plan.y.width;
    const auto first = [](const WindowDim& w, int64_t o) { return std::max<int64_t>(0, o * w.stride - w.before); };
    const int64_t start = kOfInput ? DilationGeometry::At(plan.x, n, first(plan.rows, oy), first(plan.columns, ox)) : 0;
    Wide<T> largest[kLanes];
    int32_t winners[kLanes];  // the number of the tap; -1: none
    constexpr int64_t kKept = 64;
    int64_t cells[kKept];  // where the first taps' cells stand
    std::fill_n(largest, kLanes, sdk::Lowest<T>());
    std::fill_n(winners, kLanes, -1);
    plan.ForEachCell(n, oy, ox, [&](int64_t cell, int64_t tap) {
      const T* x = c.input<T>(0) + cell + k;
      const T* filter = c.input<T>(1) + tap + k;
      const auto number = static_cast<int32_t>(tap / plan.x.channels);
      if (kOfInput && number < kKept) cells[number] = cell;
#pragma GCC ivdep
      for (int64_t l = 0; l < lanes; ++l) {
        const auto sum = static_cast<Wide<T>>(Sum(x[l], filter[l]));
        const bool larger = sum > largest[l];
        largest[l] = larger ? sum : largest[l];
        winners[l] = larger ? number : winners[l];
      }
    });
    T* out = c.output<T>(0);
    const T* dy = c.input<T>(2) + at * plan.y.channels + k;
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t tap = winners[l];
      int64_t to = start;
      if (tap >= 0 && kOfInput && tap < kKept) {
        to = cells[tap];
      } else if (tap >= 0 && kOfInput) {
        to = DilationGeometry::At(
            plan.x, n, oy * plan.rows.stride + tap / plan.columns.size * plan.rows.dilation - plan.rows.before,
            ox * plan.columns.stride + tap % plan.columns.size * plan.columns.dilation - plan.columns.before);
      } else if (tap >= 0) {
        to = tap * plan.x.channels;
      }
      out[to + k + l] = Sum(out[to + k + l], dy[l]);
    }
  }
  WindowAttributes attributes;
};

constexpr sdk::Traits kDilationTraits = {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list};

}  // namespace

TENON_CPU_KERNEL(Dilation2D) = CpuKernel<DilationKernel>("Dilation2D", kDilationTraits);
TENON_CPU_KERNEL(Dilation2DBackpropInput) = CpuKernel<DilationGradKernel<true>>("Dilation2DBackpropInput",
                                                                                kDilationTraits);
TENON_CPU_KERNEL(Dilation2DBackpropFilter) = CpuKernel<DilationGradKernel<false>>("Dilation2DBackpropFilter",
                                                                                  kDilationTraits);

}  // namespace tenon::cpu
