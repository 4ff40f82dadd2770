// SPDX-License-Identifier: Apache-2.0
// MaxPool, AvgPool and their gradients, NHWC and NCHW: planes (tenon/sdk/walk/pool.h) shared among threads.
#include <cstring>

#include "kernels/window.h"
#include "tenon/sdk/walk/pool.h"

namespace tenon::cpu {
namespace {

using sdk::AverageGradPlane;
using sdk::AveragePlane;
using sdk::ForEachMax;
using sdk::MaxGradPlane;
using sdk::MaxPlane;
using sdk::PoolPlan;

using MaxTypes = Numbers;
using AverageTypes = Types<float, double, Half, Bfloat16>;

// Calls function(offset of the plane in the input, in the output, poll) for every plane.
template <class Function>
void ForEachPlane(sdk::RunContext c, const PoolPlan& p, Function&& function) {
  const int64_t in = p.in.pixels() * p.lanes(), out = p.out.pixels() * p.lanes();
  c.ParallelFor(p.planes(), p.PlaneCost(), [&](int64_t begin, int64_t end) {
    sdk::CancelPoll poll(c);
    for (int64_t i = begin; i < end; ++i) function(i * in, i * out, poll);
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
      ForEachPlane(c, plan, [&](int64_t from, int64_t to, sdk::CancelPoll& poll) {
        if constexpr (kMax) {
          MaxPlane(plan, in + from, out + to, poll);
        } else {
          AveragePlane(plan, in + from, out + to, poll);
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
      ForEachPlane(c, plan, [&](int64_t from, int64_t to, sdk::CancelPoll& poll) {
        std::fill_n(dx + from, plane, T(0));
        MaxGradPlane(plan, in + from, out + to, dy + to, dx + from, poll);
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
      ForEachPlane(c, plan, [&](int64_t from, int64_t to, sdk::CancelPoll& poll) {
        std::fill_n(dy + to, plane, T(0));
        ForEachMax(plan, in + from, out + to, poll, [=](int64_t where, int64_t at, auto hit) {
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
      ForEachPlane(c, plan, [&](int64_t from, int64_t to, sdk::CancelPoll& poll) {
        std::fill_n(dx + from, plane, T(0));
        AverageGradPlane(plan, dy + to, dx + from, poll);
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
