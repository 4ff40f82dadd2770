// SPDX-License-Identifier: Apache-2.0
// MaxPool, AvgPool and their gradients on the vector unit (tenon/extras/walk/pool.h).
#include "tenon/extras/walk/pool.h"

#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

using sdk::Dims;
using sdk::PoolPlan;
using PoolTypes = Types<float, Bfloat16, double>;

// A plan and the loop over its planes; Function(plan, at, offset of the plane in the image, in the result) for each.
struct PlanePlan : PoolPlan {
  PlanePlan(const sdk::WindowAttributes& attributes, Dims image, Dims result, Shapes& s)
      : PoolPlan(attributes, image, result) {
    s.Vector(sdk::Multiply(out.count(), y.size * x.size));
  }
  void Work(char* const* at) const { function(*this, at); }
  template <class Function>
  void ForEachPlane(Function&& function) const {
    const int64_t image = in.pixels() * lanes(), result = out.pixels() * lanes();
    for (int64_t i = 0; i < planes(); ++i) function(i * image, i * result);
  }
  void (*function)(const PlanePlan&, char* const*) = nullptr;
};

template <bool kMax>
struct PoolKernel {
  explicit PoolKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan : PlanePlan {
    Plan(const PoolKernel& kernel, Shapes& s) : PlanePlan(kernel.attributes, s.in(0), s.out(0), s) {
      PoolTypes::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
    }
    template <class T>
    static void Loop(const PlanePlan& p, char* const* at) {
      const T* in = reinterpret_cast<const T*>(at[0]);
      T* out = reinterpret_cast<T*>(at[1]);
      p.ForEachPlane([&](int64_t from, int64_t to) {
        kMax ? sdk::MaxPlane(p, in + from, out + to, sdk::NeverEnds())
             : sdk::AveragePlane(p, in + from, out + to, sdk::NeverEnds());
      });
    }
  };
  sdk::WindowAttributes attributes;
};

// (orig_input, orig_output, grad).
struct MaxPoolGradKernel {
  explicit MaxPoolGradKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan : PlanePlan {
    Plan(const MaxPoolGradKernel& kernel, Shapes& s) : PlanePlan(kernel.attributes, s.in(0), s.in(1), s) {
      if (sdk::Count(s.in(2)) != out.count() || sdk::Count(s.out(0)) != in.count()) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", s.in(2), " for a result of shape ", s.in(1));
      }
      PoolTypes::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
    }
    template <class T>
    static void Loop(const PlanePlan& p, char* const* at) {
      const T* in = reinterpret_cast<const T*>(at[0]);
      const T* out = reinterpret_cast<const T*>(at[1]);
      const T* dy = reinterpret_cast<const T*>(at[2]);
      T* dx = reinterpret_cast<T*>(at[3]);
      std::fill_n(dx, p.in.count(), T(0));
      p.ForEachPlane([&](int64_t from, int64_t to) {
        sdk::MaxGradPlane(p, in + from, out + to, dy + to, dx + from, sdk::NeverEnds());
      });
    }
  };
  sdk::WindowAttributes attributes;
};

// (orig_input_shape, grad).
struct AvgPoolGradKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("orig_input_shape"), 0}};
  explicit AvgPoolGradKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan : PlanePlan {
    Plan(const AvgPoolGradKernel& kernel, Shapes& s) : PlanePlan(kernel.attributes, s.out(0), s.in(1), s) {
      PoolTypes::Dispatch(s.input(1).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
    }
    template <class T>
    static void Loop(const PlanePlan& p, char* const* at) {
      const T* dy = reinterpret_cast<const T*>(at[1]);
      T* dx = reinterpret_cast<T*>(at[2]);
      std::fill_n(dx, p.in.count(), T(0));
      p.ForEachPlane([&](int64_t from, int64_t to) { sdk::AverageGradPlane(p, dy + to, dx + from, sdk::NeverEnds()); });
    }
  };
  sdk::WindowAttributes attributes;
};

constexpr sdk::Traits kPoolTraits = {.constraints = sdk::Constraints<PoolTypes::Constraint<"T">>::list};

}  // namespace

TENON_TPU_KERNEL(MaxPool) = Kernel<PoolKernel<true>>("MaxPool", kPoolTraits);
TENON_TPU_KERNEL(AvgPool) = Kernel<PoolKernel<false>>("AvgPool", kPoolTraits);
TENON_TPU_KERNEL(MaxPoolGrad) = Kernel<MaxPoolGradKernel>("MaxPoolGrad", kPoolTraits);
TENON_TPU_KERNEL(AvgPoolGrad) = Kernel<AvgPoolGradKernel>("AvgPoolGrad", kPoolTraits);

}  // namespace tenon::tpu_sim
