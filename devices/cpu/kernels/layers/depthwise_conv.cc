// SPDX-License-Identifier: Apache-2.0
// DepthwiseConv2dNative and its gradients: each channel with its own filters, NHWC.
//
// Channels are the innermost loop of all three. Each element is summed by one task in a fixed order: results do not
// depend on threads. Halves are summed as floats.
#include <algorithm>

#include "kernels/common/vector.h"
#include "kernels/windows/window.h"

namespace tenon::cpu {
namespace {

// Sums of one pixel (or of one tap) over its channels.
struct Depthwise {
  Depthwise(const WindowAttributes& a, sdk::Dims in, sdk::Dims filter, sdk::Dims out) : x(in, false), y(out, false) {
    if (filter.size() != 4 || filter[2] != x.channels || y.channels != sdk::Multiply(x.channels, filter[3]) ||
        x.batch != y.batch) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", filter, " does not go with images of shape ", in,
                " and results of shape ", out);
    }
    rows = a.Geometry(0, x.height, filter[0], y.height);
    columns = a.Geometry(1, x.width, filter[1], y.width);
    multiplier = filter[3];
  }
  int64_t TapAt(int64_t ky, int64_t kx) const { return (ky * columns.size + kx) * y.channels; }
  template <class T>
  bool IsCommon() const {
    return std::is_floating_point_v<T> && multiplier == 1 && rows.size == 3 && columns.size == 3;
  }
  // Rough nanoseconds of a row of taps on one pixel.
  int64_t TapRowCost() const { return columns.size * (y.channels / 4 + 1); }
  double Work() const { return 0.3 * static_cast<double>(y.count()) * static_cast<double>(rows.size * columns.size); }

  // sums[c * multiplier + m] += x[c] * f[c * multiplier + m].
  template <class T, class A>
  void MultiplyAdd(const T* pixel, const T* filter, A* sums) const {
    for (int64_t k = 0; k < x.channels; ++k) {
      const A value = static_cast<A>(pixel[k]);
      for (int64_t m = 0; m < multiplier; ++m)
        sums[k * multiplier + m] += value * static_cast<A>(filter[k * multiplier + m]);
    }
  }
  // sums[c] += sum over m of dy[c * multiplier + m] * f[c * multiplier + m].
  template <class T, class A>
  void MultiplyBack(const T* dy, const T* filter, A* sums) const {
    for (int64_t k = 0; k < x.channels; ++k) {
      A sum = sums[k];
      for (int64_t m = 0; m < multiplier; ++m)
        sum += static_cast<A>(dy[k * multiplier + m]) * static_cast<A>(filter[k * multiplier + m]);
      sums[k] = sum;
    }
  }

  Image x, y;
  WindowDim rows, columns;
  int64_t multiplier = 1;
};

// sums[k] += a[k] * b[k] for several pairs of rows of one filter a channel, three at a time: the sums are read and
// written less often. End() before they are looked at.
template <class T>
class Products {
 public:
  using A = Wide<T>;
  Products(A* sums, int64_t channels) : sums_(sums), channels_(channels) { std::fill_n(sums, channels, A(0)); }
  void Add(const T* a, const T* b) {
    a_[count_] = a, b_[count_] = b;
    if (++count_ == kTogether) Flush(a_[0], b_[0], a_[1], b_[1], a_[2], b_[2]);
  }
  void End() {
    if (count_ == 2) Flush(a_[0], b_[0], a_[1], b_[1]);
    if (count_ == 1) Flush(a_[0], b_[0]);
  }

 private:
  static constexpr int kTogether = 3;
  template <class... Rows>
  void Flush(Rows... rows) {
    A* sums = sums_;
#pragma GCC ivdep
    for (int64_t k = 0; k < channels_; ++k) sums[k] += Sum(k, rows...);
    count_ = 0;
  }
  static A Sum(int64_t) { return A(0); }
  template <class... More>
  static A Sum(int64_t k, const T* a, const T* b, More... more) {
    const A product = static_cast<A>(a[k]) * static_cast<A>(b[k]);
    if constexpr (sizeof...(More) == 0) {
      return product;
    } else {
      return product + Sum(k, more...);
    }
  }
  A* sums_;
  int64_t channels_;
  const T* a_[kTogether];
  const T* b_[kTogether];
  int count_ = 0;
};

// Pixels along a row whose windows of 3 x 3 lie inside the image, one filter a channel: the filters of as many channels
// as a register holds stay in registers for several pixels.
template <class T>
struct Inside3x3 {
  const T* x;           // the first pixel of the first window
  int64_t row, pixel;   // from one of its rows to the next, and from one window to the next
  const T* filter;
  int64_t tap;          // from one of its taps to the next: -channels where they go backwards
  int64_t channels;

  void Run(T* out, int64_t count) const {
    constexpr int64_t kPixels = 64;  // what one pass reads stays in the cache for the next channels
    // The next row's pixels and this one's results, which the passes over channels would ask for in strides.
    constexpr int64_t kLine = 64, kSize = sizeof(T);
    const auto below =
        reinterpret_cast<uintptr_t>(x) + static_cast<uintptr_t>(3 * row * kSize);  // perhaps beyond the image
    for (int64_t i = 0; i < count * pixel * kSize; i += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(below + static_cast<uintptr_t>(i)));
    for (int64_t i = 0; i < count * channels; i += kLine / kSize) __builtin_prefetch(out + i, 1);
    for (int64_t i = 0; i < count; i += kPixels) {
      const Inside3x3 some = {x + i * pixel, row, pixel, filter, tap, channels};
      if constexpr (std::is_floating_point_v<T>) some.RunSome(out + i * channels, std::min(kPixels, count - i));
    }
  }

 private:
  void RunSome(T* out, int64_t count) const {
    using Vector = VectorOf<T>;
    int64_t k = 0;
    for (; k + Vector::kLanes <= channels; k += Vector::kLanes) {
      Channels<typename Vector::Type>(
          k, count, [](const T* from) { return Vector::Load(from); },
          [&](int64_t i, typename Vector::Type v) { Vector::Store(out + i * channels + k, v); });
    }
    for (; k < channels; ++k) {
      Channels<T>(k, count, [](const T* from) { return *from; }, [&](int64_t i, T v) { out[i * channels + k] = v; });
    }
  }
  template <class V, class Load, class Store>
  void Channels(int64_t k, int64_t count, const Load& load, const Store& store) const {
    V taps[9];
    for (int t = 0; t < 9; ++t) taps[t] = load(filter + t * tap + k);
    for (int64_t i = 0; i < count; ++i) {
      const T* at = x + i * pixel + k;
      const auto along = [&](int y) {
        const T* from = at + y * row;
        return load(from) * taps[3 * y] + load(from + channels) * taps[3 * y + 1] +
               load(from + 2 * channels) * taps[3 * y + 2];
      };
      store(i, along(0) + along(1) + along(2));
    }
  }
};

// Of `count` windows, the first at `before` cells before the image, those that lie inside it: [first, last).
struct InsideRange {
  InsideRange(int64_t before, int64_t stride, int64_t size, int64_t count)
      : first(std::min(count, (before + stride - 1) / stride)),
        last(size + before < 3 ? first : std::clamp((size + before - 3) / stride + 1, first, count)) {}
  int64_t first, last;
};

struct DepthwiseAttributes {
  explicit DepthwiseAttributes(sdk::CreateContext& c) : window(c, "") {
    if (window.channels_first)
      c.Fail(TENON_UNIMPLEMENTED, "Depthwise convolution on CPU is only supported for NHWC format");
    if (window.strides[0] != window.strides[1])
      c.Invalid("strides of height and width must be equal; they are ", window.strides[0], " and ", window.strides[1]);
    if (window.dilations[0] != 1 || window.dilations[1] != 1)
      c.Fail(TENON_UNIMPLEMENTED, "depthwise convolution with dilations");
  }
  WindowAttributes window;
};

// Shares of `count` rows, each with room for the sums of so many channels.
struct DepthwiseTasks {
  DepthwiseTasks() = default;
  DepthwiseTasks(sdk::PrepareContext& c, int64_t count, int64_t channels)
      : rows(count), tasks(std::max<int64_t>(1, std::min(c.threads() * 2, count))) {
    bytes = (sdk::Multiply(channels, sizeof(double)) + 63) / 64 * 64;
    at = c.Workspace(sdk::Multiply(bytes, tasks));
  }
  // function(row, sums).
  template <class A, class Function>
  void ForEachRow(sdk::RunContext c, double work, Function&& function) const {
    c.ParallelFor(tasks, work / static_cast<double>(tasks), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        A* sums = c.workspace<A>(at + task * bytes);
        for (int64_t row = rows * task / tasks; row < rows * (task + 1) / tasks; ++row) {
          c.CheckCancelled();
          function(row, sums);
        }
      }
    });
  }
  int64_t rows = 0, tasks = 1, bytes = 0, at = 0;
};

// Kernel::Row of every row of pixels, with room for the sums of one pixel.
template <class Kernel, class Plan>
void RunRows(const Plan& plan, sdk::RunContext c) {
  Reals::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
    plan.template ForEachRow<Wide<T>>(c, plan.Work(),
                                      [&](int64_t row, Wide<T>* sums) { Kernel::template Row<T>(plan, c, row, sums); });
  });
}

struct DepthwiseKernel : DepthwiseAttributes {
  using DepthwiseAttributes::DepthwiseAttributes;
  struct Plan : Depthwise, DepthwiseTasks {
    Plan(const DepthwiseKernel& kernel, sdk::PrepareContext& c)
        : Depthwise(kernel.window, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.output(0))),
          DepthwiseTasks(c, y.batch * y.height, y.channels) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunRows<DepthwiseKernel>(plan, c); }

  template <class T>
  static void Row(const Plan& v, sdk::RunContext c, int64_t row, Wide<T>* sums) {
    const int64_t n = row / v.y.height, top = row % v.y.height * v.Depthwise::rows.stride - v.Depthwise::rows.before;
    T* out = c.output<T>(0) + row * v.y.width * v.y.channels;
    const bool reached = v.IsCommon<T>() && top >= 0 && top + 3 <= v.x.height;
    const InsideRange inside(v.columns.before, v.columns.stride, reached ? v.x.width : 0, v.y.width);
    if (inside.last > inside.first) {
      const T* first =
          c.input<T>(0) +
          ((n * v.x.height + top) * v.x.width + inside.first * v.columns.stride - v.columns.before) * v.x.channels;
      const Inside3x3<T> windows = {
          first, v.x.width * v.x.channels, v.columns.stride * v.x.channels, c.input<T>(1), v.x.channels, v.x.channels};
      windows.Run(out + inside.first * v.y.channels, inside.last - inside.first);
    }
    sdk::CancelPoll poll(c);
    const int64_t taps = v.TapRowCost();
    for (int64_t ox = 0; ox < v.y.width; ++ox) {
      if (ox == inside.first) ox = inside.last;
      if (ox == v.y.width) break;
      const int64_t left = ox * v.columns.stride - v.columns.before;
      Products<T> products(sums, v.y.channels);
      for (int64_t ky = std::max<int64_t>(0, -top); ky < std::min(v.Depthwise::rows.size, v.x.height - top);
           poll(taps), ++ky) {
        for (int64_t kx = std::max<int64_t>(0, -left); kx < std::min(v.columns.size, v.x.width - left); ++kx) {
          const T* pixel = c.input<T>(0) + ((n * v.x.height + top + ky) * v.x.width + left + kx) * v.x.channels;
          const T* filter = c.input<T>(1) + v.TapAt(ky, kx);
          v.multiplier == 1 ? products.Add(pixel, filter) : v.MultiplyAdd(pixel, filter, sums);
        }
      }
      products.End();
      for (int64_t k = 0; k < v.y.channels; ++k) out[ox * v.y.channels + k] = static_cast<T>(sums[k]);
    }
  }
};

// The windows that saw a pixel p: (p + before - tap) / stride where that is whole.
struct DepthwiseInputKernel : DepthwiseAttributes {
  using DepthwiseAttributes::DepthwiseAttributes;
  struct Plan : Depthwise, DepthwiseTasks {
    Plan(const DepthwiseInputKernel& kernel, sdk::PrepareContext& c)
        : Depthwise(kernel.window, sdk::DimsOf(c.output(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.input(2))),
          DepthwiseTasks(c, x.batch * x.height, x.channels) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunRows<DepthwiseInputKernel>(plan, c); }

  template <class T>
  static void Row(const Plan& v, sdk::RunContext c, int64_t row, Wide<T>* sums) {
    const int64_t n = row / v.x.height, iy = row % v.x.height;
    // With stride 1 a window of dy saw the pixel, with the taps backwards.
    T* out = c.output<T>(0) + row * v.x.width * v.x.channels;
    const int64_t top = iy + v.Depthwise::rows.before - 2, before = 2 - v.columns.before;
    const bool dense = v.IsCommon<T>() && v.Depthwise::rows.stride == 1 && v.columns.stride == 1 && before >= 0;
    const InsideRange inside(dense ? before : 0, 1, dense && top >= 0 && top + 3 <= v.y.height ? v.y.width : 0,
                             v.x.width);
    if (inside.last > inside.first) {
      const T* first = c.input<T>(2) + ((n * v.y.height + top) * v.y.width + inside.first - before) * v.y.channels;
      const Inside3x3<T> windows = {
          first, v.y.width * v.y.channels, v.y.channels, c.input<T>(1) + v.TapAt(2, 2), -v.x.channels, v.x.channels};
      windows.Run(out + inside.first * v.x.channels, inside.last - inside.first);
    }
    sdk::CancelPoll poll(c);
    const int64_t taps = v.TapRowCost();
    for (int64_t ix = 0; ix < v.x.width; ++ix) {
      if (ix == inside.first) ix = inside.last;
      if (ix == v.x.width) break;
      Products<T> products(sums, v.x.channels);
      ForEachWindow(v.Depthwise::rows, iy, [&](int64_t ky, int64_t oy) {
        ForEachWindow(v.columns, ix, [&](int64_t kx, int64_t ox) {
          const T* dy = c.input<T>(2) + ((n * v.y.height + oy) * v.y.width + ox) * v.y.channels;
          const T* filter = c.input<T>(1) + v.TapAt(ky, kx);
          v.multiplier == 1 ? products.Add(dy, filter) : v.MultiplyBack(dy, filter, sums);
        });
        poll(taps);
      });
      products.End();
      for (int64_t k = 0; k < v.x.channels; ++k) out[ix * v.x.channels + k] = static_cast<T>(sums[k]);
    }
  }
 private:
  template <class Function>
  static void ForEachWindow(const WindowDim& w, int64_t p, Function&& function) {
    for (int64_t tap = 0; tap < w.size; ++tap) {
      const int64_t at = p + w.before - tap;
      if (at >= 0 && at % w.stride == 0 && at / w.stride < w.output) function(tap, at / w.stride);
    }
  }
};

// A task is a tap; rows of the result are summed one after the other, each as a sum of its own.
struct DepthwiseFilterKernel : DepthwiseAttributes {
  using DepthwiseAttributes::DepthwiseAttributes;
  struct Plan : Depthwise, DepthwiseTasks {
    Plan(const DepthwiseFilterKernel& kernel, sdk::PrepareContext& c)
        : Depthwise(kernel.window, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.output(0)), sdk::DimsOf(c.input(2))),
          DepthwiseTasks(c, Depthwise::rows.size * columns.size, y.channels * 2) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Reals::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      plan.ForEachRow<double>(c, plan.Work(), [&](int64_t tap, double* totals) { OneTap<T>(plan, c, tap, totals); });
    });
  }

 private:
  template <class T>
  static void OneTap(const Plan& v, sdk::RunContext c, int64_t tap, double* totals) {
    auto* sums = reinterpret_cast<Wide<T>*>(totals + v.y.channels);
    std::fill_n(totals, v.y.channels, 0.0);
    const int64_t down = tap / v.columns.size - v.Depthwise::rows.before,
                  along = tap % v.columns.size - v.columns.before;
    sdk::CancelPoll poll(c);
    for (int64_t row = 0; row < v.y.batch * v.y.height; poll(v.y.width * v.y.channels), ++row) {
      const int64_t n = row / v.y.height, iy = row % v.y.height * v.Depthwise::rows.stride + down;
      if (iy < 0 || iy >= v.x.height) continue;
      Products<T> products(sums, v.y.channels);
      for (int64_t ox = 0; ox < v.y.width; ++ox) {
        const int64_t ix = ox * v.columns.stride + along;
        if (ix < 0 || ix >= v.x.width) continue;
        const T* pixel = c.input<T>(0) + ((n * v.x.height + iy) * v.x.width + ix) * v.x.channels;
        const T* dy = c.input<T>(2) + (row * v.y.width + ox) * v.y.channels;
        v.multiplier == 1 ? products.Add(pixel, dy) : v.MultiplyAdd(pixel, dy, sums);
      }
      products.End();
      for (int64_t k = 0; k < v.y.channels; ++k) totals[k] += static_cast<double>(sums[k]);
    }
    T* out = c.output<T>(0) + tap * v.y.channels;
    for (int64_t k = 0; k < v.y.channels; ++k) out[k] = static_cast<T>(static_cast<Wide<T>>(totals[k]));
  }
};

constexpr sdk::Traits kDepthwiseTraits = {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(DepthwiseConv2dNative) = CpuKernel<DepthwiseKernel>("DepthwiseConv2dNative", kDepthwiseTraits);
TENON_CPU_KERNEL(DepthwiseConv2dNativeBackpropInput) =
    CpuKernel<DepthwiseInputKernel>("DepthwiseConv2dNativeBackpropInput", kDepthwiseTraits);
TENON_CPU_KERNEL(DepthwiseConv2dNativeBackpropFilter) =
    CpuKernel<DepthwiseFilterKernel>("DepthwiseConv2dNativeBackpropFilter", kDepthwiseTraits);

}  // namespace tenon::cpu
