// SPDX-License-Identifier: Apache-2.0
// MaxPool, AvgPool and their gradients, NHWC and NCHW.
//
// A tensor is walked as [batch, y, x, channel] by strides, so both layouts share the code; for NHWC the channel is the inner
// loop. Padding never wins a maximum and does not count in an average. The gradient of a maximum goes to the first one in
// row-major order. A NaN is passed over by the maximum unless it comes first: TensorFlow leaves it open.
#include <cstring>
#include <limits>

#include "kernels/window.h"

namespace tenon::cpu {
namespace {

using MaxTypes = Types<float, double, int32_t, int64_t, Half, Bfloat16>;
using AverageTypes = Types<float, double, Half, Bfloat16>;

struct PoolPlan {
  PoolPlan(const WindowAttributes& a, sdk::Dims input, sdk::Dims output)
      : in(input, a.channels_first), out(output, a.channels_first), channels_first(a.channels_first) {
    if (in.batch != out.batch || in.channels != out.channels) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "pooling does not take shape ", input, " to ", output);
    }
    y = a.Geometry(0, in.height, a.sizes[0], out.height);
    x = a.Geometry(1, in.width, a.sizes[1], out.width);
  }
  // A plane is what one share works on: an image (NHWC) or one channel of one (NCHW).
  int64_t planes() const { return channels_first ? in.batch * in.channels : in.batch; }
  int64_t lanes() const { return channels_first ? 1 : in.channels; }
  double PlaneCost() const {
    return static_cast<double>(out.pixels() * lanes()) * static_cast<double>(y.size * x.size) * 0.15 + 10;
  }
  Image in, out;
  WindowDim y, x;
  bool channels_first;
};

// Cells of the window at `index` that lie inside: [begin, end).
struct Cells {
  Cells(const WindowDim& w, int64_t index) {
    const int64_t from = index * w.stride - w.before;
    begin = std::max<int64_t>(0, from);
    end = std::min(w.input, from + w.size);
  }
  int64_t begin, end;
};

template <class T>
void MaxPlane(const PoolPlan& p, const T* in, T* out) {
  const int64_t lanes = p.lanes();
  for (int64_t oy = 0; oy < p.out.height; ++oy) {
    const Cells ys(p.y, oy);
    for (int64_t ox = 0; ox < p.out.width; ++ox) {
      const Cells xs(p.x, ox);
      T* to = out + (oy * p.out.width + ox) * lanes;
      if constexpr (std::numeric_limits<T>::has_infinity) {
        std::fill_n(to, lanes, -std::numeric_limits<T>::infinity());
      } else if constexpr (kIsHalf<T>) {
        std::fill_n(to, lanes, T(-std::numeric_limits<float>::infinity()));
      } else {
        std::fill_n(to, lanes, std::numeric_limits<T>::lowest());
      }
      for (int64_t y = ys.begin; y < ys.end; ++y) {
        for (int64_t x = xs.begin; x < xs.end; ++x) {
          const T* from = in + (y * p.in.width + x) * lanes;
#pragma GCC ivdep
          for (int64_t k = 0; k < lanes; ++k) {
            to[k] = static_cast<Wide<T>>(from[k]) > static_cast<Wide<T>>(to[k]) ? from[k] : to[k];
          }
        }
      }
    }
  }
}

template <class T>
void AveragePlane(const PoolPlan& p, const T* in, T* out) {
  using A = Wide<T>;
  constexpr int64_t kLanes = 64;
  const int64_t lanes = p.lanes();
  for (int64_t oy = 0; oy < p.out.height; ++oy) {
    const Cells ys(p.y, oy);
    for (int64_t ox = 0; ox < p.out.width; ++ox) {
      const Cells xs(p.x, ox);
      T* to = out + (oy * p.out.width + ox) * lanes;
      const A cells = static_cast<A>(std::max<int64_t>(0, ys.end - ys.begin) * std::max<int64_t>(0, xs.end - xs.begin));
      for (int64_t k0 = 0; k0 < lanes; k0 += kLanes) {
        const int64_t n = std::min(kLanes, lanes - k0);
        A sum[kLanes] = {};
        for (int64_t y = ys.begin; y < ys.end; ++y) {
          for (int64_t x = xs.begin; x < xs.end; ++x) {
            const T* from = in + (y * p.in.width + x) * lanes + k0;
            for (int64_t k = 0; k < n; ++k) sum[k] += static_cast<A>(from[k]);
          }
        }
        for (int64_t k = 0; k < n; ++k) to[k0 + k] = static_cast<T>(sum[k] / cells);
      }
    }
  }
}

// Calls function(where in the input, where in the output, hit) for each cell of each window; hit is 1 at the first cell
// that equals the maximum, else 0. Channels side by side.
template <class T, class Function>
void ForEachMax(const PoolPlan& p, const T* in, const T* out, Function&& function) {
  using Flag = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;  // as wide as what it selects
  constexpr int64_t kLanes = 64;
  const int64_t lanes = p.lanes();
  for (int64_t oy = 0; oy < p.out.height; ++oy) {
    const Cells ys(p.y, oy);
    for (int64_t ox = 0; ox < p.out.width; ++ox) {
      const Cells xs(p.x, ox);
      for (int64_t k0 = 0; k0 < lanes; k0 += kLanes) {
        const int64_t at = (oy * p.out.width + ox) * lanes + k0, n = std::min(kLanes, lanes - k0);
        Flag wanting[kLanes];
        std::fill_n(wanting, n, Flag{1});
        for (int64_t y = ys.begin; y < ys.end; ++y) {
          for (int64_t x = xs.begin; x < xs.end; ++x) {
            const int64_t from = (y * p.in.width + x) * lanes + k0;
#pragma GCC ivdep
            for (int64_t k = 0; k < n; ++k) {
              const Flag equal = static_cast<Wide<T>>(in[from + k]) == static_cast<Wide<T>>(out[at + k]) ? 1 : 0;
              const Flag hit = equal & wanting[k];
              function(from + k, at + k, hit);
              wanting[k] ^= hit;
            }
          }
        }
      }
    }
  }
}

// dx is zero before.
template <class T>
void MaxGradPlane(const PoolPlan& p, const T* in, const T* out, const T* dy, T* dx) {
  ForEachMax(p, in, out, [=](int64_t from, int64_t at, auto hit) {
    const Wide<T> part = hit != 0 ? static_cast<Wide<T>>(dy[at]) : Wide<T>(0);
    dx[from] = static_cast<T>(static_cast<Wide<T>>(dx[from]) + part);
  });
}

template <class T>
void AverageGradPlane(const PoolPlan& p, const T* dy, T* dx) {
  using A = Wide<T>;
  const int64_t lanes = p.lanes();
  for (int64_t oy = 0; oy < p.out.height; ++oy) {
    const Cells ys(p.y, oy);
    for (int64_t ox = 0; ox < p.out.width; ++ox) {
      const Cells xs(p.x, ox);
      const T* from = dy + (oy * p.out.width + ox) * lanes;
      const A cells = static_cast<A>(std::max<int64_t>(0, ys.end - ys.begin) * std::max<int64_t>(0, xs.end - xs.begin));
      for (int64_t y = ys.begin; y < ys.end; ++y) {
        for (int64_t x = xs.begin; x < xs.end; ++x) {
          T* to = dx + (y * p.in.width + x) * lanes;
#pragma GCC ivdep
          for (int64_t k = 0; k < lanes; ++k) {
            to[k] = static_cast<T>(static_cast<A>(to[k]) + static_cast<A>(from[k]) / cells);
          }
        }
      }
    }
  }
}

// Calls function(offset of the plane in the input, in the output) for every plane.
template <class Function>
void ForEachPlane(sdk::RunContext c, const PoolPlan& p, Function&& function) {
  const int64_t in = p.in.pixels() * p.lanes(), out = p.out.pixels() * p.lanes();
  c.ParallelFor(p.planes(), p.PlaneCost(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) function(i * in, i * out);
  });
}

template <bool kMax>
struct PoolKernel {
  using Set = std::conditional_t<kMax, MaxTypes, AverageTypes>;
  explicit PoolKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan : PoolPlan {
    Plan(const PoolKernel& kernel, sdk::PrepareContext& c)
        : PoolPlan(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.output(0))) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Set::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* in = c.input<T>(0);
      T* out = c.output<T>(0);
      ForEachPlane(c, plan, [&](int64_t from, int64_t to) {
        if constexpr (kMax) {
          MaxPlane(plan, in + from, out + to);
        } else {
          AveragePlane(plan, in + from, out + to);
        }
      });
    });
  }
  WindowAttributes attributes;
};

// (orig_input, orig_output, grad).
struct MaxPoolGradKernel {
  explicit MaxPoolGradKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan : PoolPlan {
    Plan(const MaxPoolGradKernel& kernel, sdk::PrepareContext& c)
        : PoolPlan(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1))) {
      if (sdk::Count(c.input(2)) != out.count() || sdk::Count(c.output(0)) != in.count()) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", sdk::DimsOf(c.input(2)), " for a result of shape ",
                  sdk::DimsOf(c.input(1)));
      }
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    MaxTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* in = c.input<T>(0);
      const T* out = c.input<T>(1);
      const T* dy = c.input<T>(2);
      T* dx = c.output<T>(0);
      const int64_t plane = plan.in.pixels() * plan.lanes();
      ForEachPlane(c, plan, [&](int64_t from, int64_t to) {
        std::fill_n(dx + from, plane, T(0));
        MaxGradPlane(plan, in + from, out + to, dy + to, dx + from);
      });
    });
  }
  WindowAttributes attributes;
};

// (orig_input, orig_output, grad): what MaxPoolGrad moves from output to input is read the other way.
struct MaxPoolGradGradKernel {
  explicit MaxPoolGradGradKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan : PoolPlan {
    Plan(const MaxPoolGradGradKernel& kernel, sdk::PrepareContext& c)
        : PoolPlan(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1))) {
      if (sdk::Count(c.input(2)) != in.count() || sdk::Count(c.output(0)) != out.count()) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", sdk::DimsOf(c.input(2)), " for an input of shape ",
                  sdk::DimsOf(c.input(0)));
      }
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    MaxTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* in = c.input<T>(0);
      const T* out = c.input<T>(1);
      const T* dx = c.input<T>(2);
      T* dy = c.output<T>(0);
      const int64_t plane = plan.out.pixels() * plan.lanes();
      ForEachPlane(c, plan, [&](int64_t from, int64_t to) {
        std::fill_n(dy + to, plane, T(0));
        ForEachMax(plan, in + from, out + to, [=](int64_t where, int64_t at, auto hit) {
          dy[to + at] = hit != 0 ? dx[from + where] : dy[to + at];
        });
      });
    });
  }
  WindowAttributes attributes;
};

// (orig_input_shape, grad).
struct AvgPoolGradKernel {
  explicit AvgPoolGradKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan : PoolPlan {
    Plan(const AvgPoolGradKernel& kernel, sdk::PrepareContext& c)
        : PoolPlan(kernel.attributes, sdk::DimsOf(c.output(0)), sdk::DimsOf(c.input(1))) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    AverageTypes::Dispatch(c.input_view(1).dtype, [&]<class T>(Tag<T>) {
      const T* dy = c.input<T>(1);
      T* dx = c.output<T>(0);
      const int64_t plane = plan.in.pixels() * plan.lanes();
      ForEachPlane(c, plan, [&](int64_t from, int64_t to) {
        std::fill_n(dx + from, plane, T(0));
        AverageGradPlane(plan, dy + to, dx + from);
      });
    });
  }
  WindowAttributes attributes;
};

constexpr sdk::Traits kMaxTraits = {.constraints = sdk::Constraints<MaxTypes::Constraint<"T">>::list};
constexpr sdk::Traits kAverageTraits = {.constraints = sdk::Constraints<AverageTypes::Constraint<"T">>::list};

}  // namespace

TENON_CPU_KERNEL(MaxPool) = CpuKernel<PoolKernel<true>>("MaxPool", kMaxTraits);
TENON_CPU_KERNEL(AvgPool) = CpuKernel<PoolKernel<false>>("AvgPool", kAverageTraits);
TENON_CPU_KERNEL(MaxPoolGrad) = CpuKernel<MaxPoolGradKernel>("MaxPoolGrad", kMaxTraits);
TENON_CPU_KERNEL(MaxPoolGradGrad) = CpuKernel<MaxPoolGradGradKernel>("MaxPoolGradGrad", kMaxTraits);
TENON_CPU_KERNEL(AvgPoolGrad) = CpuKernel<AvgPoolGradKernel>("AvgPoolGrad", kAverageTraits);

}  // namespace tenon::cpu
