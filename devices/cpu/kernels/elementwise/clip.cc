// SPDX-License-Identifier: Apache-2.0
// ClipByValue. The lower bound counts where the bounds are the wrong way round; a bound that is NaN bounds nothing.
#include <algorithm>

#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

struct ClipKernel {
  struct Plan {
    Plan(const ClipKernel&, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {
      const sdk::Dims shape = sdk::DimsOf(c.input(0));
      for (int i = 1; i < 3; ++i) {
        const sdk::Dims bound = sdk::DimsOf(c.input(i));
        if (!bound.empty() && !std::ranges::equal(bound, shape)) {
          sdk::Fail(TENON_INVALID_ARGUMENT, i == 1 ? "clip_value_min" : "clip_value_max", " of shape ", bound,
                    " is no scalar, and does not have t's shape ", shape);
        }
        step[i - 1] = bound.empty() ? 0 : 1;
      }
    }
    int64_t count;
    int64_t step[2];
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Numbers::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      const T* low = c.input<T>(1);
      const T* high = c.input<T>(2);
      T* out = c.output<T>(0);
      c.ParallelFor(plan.count, 0.5, [&](int64_t begin, int64_t end) {
        if (plan.step[0] == 0 && plan.step[1] == 0) {
          Row(begin, end, x, out, [l = *low](int64_t) { return l; }, [h = *high](int64_t) { return h; });
        } else {
          Row(
              begin, end, x, out, [&](int64_t i) { return low[i * plan.step[0]]; },
              [&](int64_t i) { return high[i * plan.step[1]]; });
        }
      });
    });
  }
  sdk::Tile TileOf(std::span<const uint32_t> inputs, uint32_t) const {
    sdk::Tile tile{nullptr, nullptr, 0.5};
    Numbers::Dispatch(inputs[0], [&]<class T>(Tag<T>) { tile.function = &Piece<T>; });
    return tile;
  }

 private:
  template <class T>
  static void Piece(const void*, const void* const* inputs, const int64_t* strides, void* out, int64_t n) {
    const T* low = static_cast<const T*>(inputs[1]);
    const T* high = static_cast<const T*>(inputs[2]);
    Row(
        0, n, static_cast<const T*>(inputs[0]), static_cast<T*>(out), [=](int64_t i) { return low[i * strides[1]]; },
        [=](int64_t i) { return high[i * strides[2]]; });
  }
  template <class T, class Low, class High>
  static void Row(int64_t begin, int64_t end, const T* x, T* out, const Low& low, const High& high) {
    for (int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<Wide<T>>(x[i]), l = static_cast<Wide<T>>(low(i)),
                 h = static_cast<Wide<T>>(high(i));
      const auto not_above = value > h ? h : value;
      out[i] = static_cast<T>(not_above < l ? l : not_above);
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(ClipByValue) = CpuKernel<ClipKernel>("ClipByValue",
                                                      {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list,
                                                       .in_place = kInPlaceFirst});

}  // namespace tenon::cpu
