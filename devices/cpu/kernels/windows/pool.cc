// SPDX-License-Identifier: Apache-2.0
// MaxPool, AvgPool and their gradients, of images and of volumes, channels first or last: planes
// (tenon/extras/walk/pool.h) shared among threads.
#include <cstdint>
#include <cstring>
#include <span>

#include "kernels/windows/pool_tiled.h"
#include "kernels/windows/window.h"
#include "tenon/extras/walk/pool.h"

namespace tenon::cpu {
namespace {

using sdk::AverageGradPlane;
using sdk::AveragePlane;
using sdk::ForEachMax;
using sdk::ForEachWindow;
using sdk::MaxGradPlane;
using sdk::MaxPlane;
using sdk::NearMaxGradPlane;
using sdk::PoolPlan;

using MaxTypes = Numbers;
using VolumeTypes = Types<float, Half, Bfloat16>;
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

// What an op computes, of planes by a plan: Check(plan, context) in prepare or before a run, and Run.
template <bool kMax>
struct Pool {
  static constexpr int32_t kIn = 0, kOut = -1;
  static void Check(const PoolPlan&, sdk::Dims, sdk::Dims) {}
  static void Run(const PoolPlan& plan, sdk::RunContext c) {
    using Set = std::conditional_t<kMax, MaxTypes, AverageTypes>;
    Set::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* in = c.input<T>(0);
      T* out = c.output<T>(0);
      if constexpr (kMax && std::is_same_v<T, float>) {
        if (TakesTiledPool(plan)) return MaxPoolTiled(plan, c, in, out);
      }
      ForEachPlane(c, plan, [&](int64_t from, int64_t to, sdk::CancelPoll& poll) {
        if constexpr (kMax) {
          MaxPlane(plan, in + from, out + to, poll);
        } else {
          AveragePlane(plan, in + from, out + to, poll);
        }
      });
    });
  }
};

// (orig_input, orig_output, grad).
template <bool kVolumes>
struct MaxPoolGrad {
  static constexpr int32_t kIn = 0, kOut = 1;
  using Set = std::conditional_t<kVolumes, VolumeTypes, MaxTypes>;
  static void Check(const PoolPlan& plan, sdk::Dims dy, sdk::Dims dx) {
    if (sdk::Count(dy) != plan.out.count() || sdk::Count(dx) != plan.in.count()) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", dy, " for a result of ", plan.out.count(), " elements");
    }
  }
  static void Run(const PoolPlan& plan, sdk::RunContext c) {
    Set::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* in = c.input<T>(0);
      const T* out = c.input<T>(1);
      const T* dy = c.input<T>(2);
      T* dx = c.output<T>(0);
      if constexpr (!kVolumes && std::is_same_v<T, float>) {
        if (TakesTiledPool(plan)) return MaxPoolGradTiled(plan, c, in, out, dy, dx);
      }
      const int64_t plane = plan.in.pixels() * plan.lanes();
      ForEachPlane(c, plan, [&](int64_t from, int64_t to, sdk::CancelPoll& poll) {
        std::fill_n(dx + from, plane, T(0));
        if constexpr (kVolumes) {
          NearMaxGradPlane(plan, in + from, out + to, dy + to, dx + from, poll);
        } else {
          MaxGradPlane(plan, in + from, out + to, dy + to, dx + from, poll);
        }
      });
    });
  }
};

// (orig_input, orig_output, grad): what MaxPoolGrad moves from output to input is read the other way.
struct MaxPoolGradGrad {
  static constexpr int32_t kIn = 0, kOut = 1;
  static void Check(const PoolPlan& plan, sdk::Dims dx, sdk::Dims dy) {
    if (sdk::Count(dx) != plan.in.count() || sdk::Count(dy) != plan.out.count()) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", dx, " for an input of ", plan.in.count(), " elements");
    }
  }
  static void Run(const PoolPlan& plan, sdk::RunContext c) {
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
};

// (orig_input_shape, grad).
struct AvgPoolGrad {
  static constexpr int32_t kIn = -1, kOut = 1;
  static void Check(const PoolPlan&, sdk::Dims, sdk::Dims) {}
  static void Run(const PoolPlan& plan, sdk::RunContext c) {
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
};

template <class Work, class Attributes = WindowAttributes>
struct PoolKernel {
  explicit PoolKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan : PoolPlan {
    Plan(const PoolKernel& kernel, sdk::PrepareContext& c)
        : PoolPlan(kernel.attributes, DimsOf(c, Work::kIn), DimsOf(c, Work::kOut)) {
      if (c.input_count() < 3) return;
      if (c.input(2).dtype != c.input(0).dtype)
        sdk::Fail(TENON_UNIMPLEMENTED, "the gradient has another dtype than the input; on the CPU both have one");
      Work::Check(*this, sdk::DimsOf(c.input(2)), sdk::DimsOf(c.output(0)));
    }
    static sdk::Dims DimsOf(sdk::PrepareContext& c, int32_t input) {
      return sdk::DimsOf(input < 0 ? c.output(0) : c.input(input));
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const { Work::Run(plan, c); }
  Attributes attributes;
};

// The last two inputs are ksize and strides.
template <class Work>
struct PoolV2Kernel {
  explicit PoolV2Kernel(sdk::CreateContext& c) : attributes(c, "") {}
  void Run(sdk::RunContext c) const {
    const int32_t ksize = c.input_count() - 2, strides = ksize + 1;
    const auto list = [&](int32_t i) {
      return std::span(c.input<int32_t>(i), static_cast<size_t>(sdk::Count(c.input_view(i))));
    };
    const auto dims = [&](int32_t i) { return sdk::DimsOf(i < 0 ? c.output_view(0) : c.input_view(i)); };
    const PoolPlan plan(attributes.Slide(list(ksize), list(strides)), dims(Work::kIn), dims(Work::kOut));
    if (c.input_count() == 5) Work::Check(plan, dims(2), dims(-1));
    Work::Run(plan, c);
  }
  WindowAttributes attributes;
};

// The largest element of each window, and where it is: flat in its image, or in the batch. The first element is taken
// and then each that is larger, so that, unlike MaxPool's, a NaN that comes first stays.
struct MaxPoolWithArgmaxKernel {
  explicit MaxPoolWithArgmaxKernel(sdk::CreateContext& c)
      : attributes(c, "ksize"), in_batch(c.Bool("include_batch_in_index")) {}
  struct Plan : PoolPlan {
    Plan(const MaxPoolWithArgmaxKernel& kernel, sdk::PrepareContext& c)
        : PoolPlan(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.output(0))) {
      const int64_t places = kernel.in_batch ? in.count() : in.pixels() * in.channels;
      if (c.output(1).dtype == TENON_DT_INT32 && places > INT32_MAX) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "argmax would hold places of ", places,
                  " elements, which int32 cannot; ask for Targmax = int64");
      }
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    MaxTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      Indices::Dispatch(c.output_view(1).dtype, [&]<class Index>(Tag<Index>) { Typed<T, Index>(plan, c); });
    });
  }

 private:
  template <class T, class Index>
  void Typed(const Plan& plan, sdk::RunContext c) const {
    const int64_t lanes = plan.lanes();
    ForEachPlane(c, plan, [&](int64_t from, int64_t to, sdk::CancelPoll& poll) {
      const T* in = c.input<T>(0) + from;
      const int64_t offset = in_batch ? from : 0;
      sdk::WindowPoll windows(poll, plan.RowCost(lanes), plan.Rows());
      ForEachWindow(plan, [&](int64_t at, const sdk::WindowCells& w) {
        windows.Window();
        T* best = c.output<T>(0) + to + at * lanes;
        Index* where = c.output<Index>(1) + to + at * lanes;
        const int64_t first = (w.ys.begin * plan.in.width + w.xs.begin) * lanes;
        for (int64_t k = 0; k < lanes; ++k) best[k] = in[first + k], where[k] = static_cast<Index>(offset + first + k);
        w.ForEachRow(plan, [&](int64_t row) {
          for (int64_t x = w.xs.begin; x < w.xs.end; ++x) {
            const int64_t cell = (row * plan.in.width + x) * lanes;
            for (int64_t k = 0; k < lanes; ++k) {
              const bool larger = static_cast<Wide<T>>(best[k]) < static_cast<Wide<T>>(in[cell + k]);
              best[k] = larger ? in[cell + k] : best[k];
              where[k] = larger ? static_cast<Index>(offset + cell + k) : where[k];
            }
          }
          windows.Row();
        });
      });
    });
  }
  WindowAttributes attributes;
  bool in_batch;
};

// (input, grad, argmax). Forward, gradients go to where the maxima were; backward, they are read there.
template <bool kForward>
struct MaxPoolGradWithArgmaxKernel {
  explicit MaxPoolGradWithArgmaxKernel(sdk::CreateContext& c)
      : attributes(c, "ksize"), in_batch(c.Bool("include_batch_in_index")) {}
  struct Plan : PoolPlan {
    Plan(const MaxPoolGradWithArgmaxKernel& kernel, sdk::PrepareContext& c)
        : PoolPlan(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(2))) {
      if (sdk::Count(c.input(1)) != (kForward ? out : in).count()) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", sdk::DimsOf(c.input(1)),
                  " beside an argmax of shape ", sdk::DimsOf(c.input(2)));
      }
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    MaxTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const tenon_tensor_view& argmax = c.input_view(2);
      const void* places = sdk::Data<void>(argmax);
      const int64_t image = plan.in.pixels() * plan.lanes(), pooled = plan.out.pixels() * plan.lanes();
      c.ParallelFor(
          plan.in.batch, 5 + 3 * static_cast<double>(pooled) + 0.1 * static_cast<double>(image),
          [&](int64_t begin, int64_t end) {
            for (int64_t n = begin; n < end; ++n) {
              if (kForward) std::fill_n(c.output<T>(0) + n * image, image, T(0));
              for (int64_t i = n * pooled; i < (n + 1) * pooled; ++i) {
                const int64_t place = IndexAt(places, argmax.dtype, i) - (in_batch ? n * image : 0);
                if (place < 0 || place >= image) {
                  sdk::Fail(TENON_INVALID_ARGUMENT, "argmax[", i, "] is ", IndexAt(places, argmax.dtype, i),
                            ", which is not in the image ", n, " of ", image, " elements (include_batch_in_index is ",
                            in_batch ? "true" : "false", ")");
                }
                if constexpr (kForward) {
                  T& to = c.output<T>(0)[n * image + place];
                  to = static_cast<T>(sdk::AddOp()(static_cast<Wide<T>>(to), static_cast<Wide<T>>(c.input<T>(1)[i])));
                } else {
                  c.output<T>(0)[i] = c.input<T>(1)[n * image + place];
                }
              }
            }
          });
    });
  }
  WindowAttributes attributes;
  bool in_batch;
};

constexpr sdk::Traits kMaxTraits = {.constraints = sdk::Constraints<MaxTypes::Constraint<"T">>::list};
constexpr sdk::Traits kAverageTraits = {.constraints = sdk::Constraints<AverageTypes::Constraint<"T">>::list};
constexpr sdk::Traits kVolumeTraits = {.constraints = sdk::Constraints<VolumeTypes::Constraint<"T">>::list};
constexpr sdk::Traits kArgmaxTraits = {
    .constraints = sdk::Constraints<MaxTypes::Constraint<"T">, Indices::Constraint<"Targmax">>::list};

}  // namespace

TENON_CPU_KERNEL(MaxPool) = CpuKernel<PoolKernel<Pool<true>>>("MaxPool", kMaxTraits);
TENON_CPU_KERNEL(AvgPool) = CpuKernel<PoolKernel<Pool<false>>>("AvgPool", kAverageTraits);
TENON_CPU_KERNEL(MaxPoolGrad) = CpuKernel<PoolKernel<MaxPoolGrad<false>>>("MaxPoolGrad", kMaxTraits);
TENON_CPU_KERNEL(MaxPoolGradGrad) = CpuKernel<PoolKernel<MaxPoolGradGrad>>("MaxPoolGradGrad", kMaxTraits);
TENON_CPU_KERNEL(AvgPoolGrad) = CpuKernel<PoolKernel<AvgPoolGrad>>("AvgPoolGrad", kAverageTraits);
TENON_CPU_KERNEL(MaxPoolV2) = CpuKernel<PoolV2Kernel<Pool<true>>>("MaxPoolV2", kMaxTraits);
TENON_CPU_KERNEL(MaxPoolGradV2) = CpuKernel<PoolV2Kernel<MaxPoolGrad<false>>>("MaxPoolGradV2", kMaxTraits);
TENON_CPU_KERNEL(MaxPoolGradGradV2) = CpuKernel<PoolV2Kernel<MaxPoolGradGrad>>("MaxPoolGradGradV2", kMaxTraits);
TENON_CPU_KERNEL(MaxPoolWithArgmax) = CpuKernel<MaxPoolWithArgmaxKernel>("MaxPoolWithArgmax", kArgmaxTraits);
TENON_CPU_KERNEL(MaxPoolGradWithArgmax) = CpuKernel<MaxPoolGradWithArgmaxKernel<true>>("MaxPoolGradWithArgmax",
                                                                                       kArgmaxTraits);
TENON_CPU_KERNEL(MaxPoolGradGradWithArgmax) = CpuKernel<MaxPoolGradWithArgmaxKernel<false>>("MaxPoolGradGradWithArgmax",
                                                                                            kArgmaxTraits);
TENON_CPU_KERNEL(MaxPool3D) = CpuKernel<PoolKernel<Pool<true>, VolumeAttributes>>("MaxPool3D", kMaxTraits);
TENON_CPU_KERNEL(AvgPool3D) = CpuKernel<PoolKernel<Pool<false>, VolumeAttributes>>("AvgPool3D", kAverageTraits);
TENON_CPU_KERNEL(MaxPool3DGrad) = CpuKernel<PoolKernel<MaxPoolGrad<true>, VolumeAttributes>>("MaxPool3DGrad",
                                                                                             kVolumeTraits);
TENON_CPU_KERNEL(MaxPool3DGradGrad) = CpuKernel<PoolKernel<MaxPoolGradGrad, VolumeAttributes>>("MaxPool3DGradGrad",
                                                                                               kMaxTraits);
TENON_CPU_KERNEL(AvgPool3DGrad) = CpuKernel<PoolKernel<AvgPoolGrad, VolumeAttributes>>("AvgPool3DGrad", kAverageTraits);

}  // namespace tenon::cpu
