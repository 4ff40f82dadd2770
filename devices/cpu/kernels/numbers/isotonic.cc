// SPDX-License-Identifier: Apache-2.0
// IsotonicRegression: adjacent segments are pooled as long as the second one's mean is larger.
#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

struct IsotonicKernel {
  struct Plan {
    Plan(const IsotonicKernel&, sdk::PrepareContext& c) {
      const sdk::Dims dims = sdk::DimsOf(c.input(0));
      length = dims.empty() ? 1 : dims.back();
      rows = length == 0 ? 0 : sdk::Count(dims) / length;
      c.Workspace(sdk::Multiply(length, sizeof(Segment)));
    }
    int64_t length, rows;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Numbers::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      Reals::Dispatch(c.output_view(0).dtype, [&]<class To>(Tag<To>) {
        for (int64_t row = 0; row < plan.rows; ++row) {
          const int64_t at = row * plan.length;
          Fit(c, c.input<T>(0) + at, c.output<To>(0) + at, c.output<int32_t>(1) + at, plan.length);
        }
      });
    });
  }

 private:
  struct Segment {
    int64_t begin;
    double sum;
  };

  template <class T, class To>
  static void Fit(const sdk::RunContext& c, const T* x, To* out, int32_t* ids, int64_t length) {
    Segment* segments = c.workspace<Segment>();
    int64_t count = 0;
    sdk::CancelPoll poll(c);
    const auto mean = [&](int64_t k, int64_t end) {
      return segments[k].sum / static_cast<double>(end - segments[k].begin);
    };
    for (int64_t i = 0; i < length; poll(20), ++i) {
      segments[count++] = {i, static_cast<double>(static_cast<Wide<T>>(x[i]))};
      while (count > 1 && mean(count - 2, segments[count - 1].begin) < mean(count - 1, i + 1)) {
        segments[count - 2].sum += segments[count - 1].sum;
        --count;
      }
    }
    for (int64_t k = 0; k < count; ++k) {
      const int64_t end = k + 1 < count ? segments[k + 1].begin : length;
      const To value = static_cast<To>(static_cast<Wide<To>>(mean(k, end)));
      poll(10 + 2 * (end - segments[k].begin));
      for (int64_t i = segments[k].begin; i < end; ++i) {
        out[i] = value;
        ids[i] = static_cast<int32_t>(k);
      }
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(IsotonicRegression) = CpuKernel<IsotonicKernel>(
    "IsotonicRegression",
    {.constraints = sdk::Constraints<Numbers::Constraint<"T">, Reals::Constraint<"output_dtype">>::list});

}  // namespace tenon::cpu
