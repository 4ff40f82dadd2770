// SPDX-License-Identifier: Apache-2.0
// Which of some ranges numbers are in: Bucketize and HistogramFixedWidth.
#include <algorithm>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::cpu {
namespace {

using Binned = Types<float, double, int32_t, int64_t>;

struct BucketizeKernel {
  explicit BucketizeKernel(sdk::CreateContext& c) {
    const tenon_attr_value given = c.Raw("boundaries");
    if (!c.ok()) return;
    const auto* first = static_cast<const float*>(given.data);
    if (given.count != 0) boundaries.assign(first, first + given.count);
    if (!std::is_sorted(boundaries.begin(), boundaries.end())) c.Invalid("Bucketize needs sorted boundaries");
  }
  void Run(sdk::RunContext c) const {
    Binned::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      int32_t* out = c.output<int32_t>(0);
      c.ParallelFor(sdk::Count(c.input_view(0)), 10, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto above = std::upper_bound(boundaries.begin(), boundaries.end(), x[i], [](T value, float boundary) {
            return value < static_cast<Compared<T>>(boundary);
          });
          out[i] = static_cast<int32_t>(above - boundaries.begin());
        }
      });
    });
  }

 private:
  // Whole numbers are compared as floats, as in TensorFlow.
  template <class T>
  using Compared = std::conditional_t<std::is_integral_v<T>, float, T>;
  std::vector<float> boundaries;
};

struct HistogramKernel {
  void Run(sdk::RunContext c) const {
    Binned::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T low = c.input<T>(1)[0], high = c.input<T>(1)[1];
      if (!(low < high)) sdk::Fail(TENON_INVALID_ARGUMENT, "value_range[0] must be less than value_range[1]");
      const int64_t bins = sdk::Count(c.output_view(0)), count = sdk::Count(c.input_view(0));
      const double width = Distance(high, low) / static_cast<double>(bins);
      Indices::Dispatch(c.output_view(0).dtype, [&]<class Index>(Tag<Index>) {
        Index* out = c.output<Index>(0);
        std::fill_n(out, bins, Index{0});
        sdk::CancelPoll poll(c);
        const T* values = c.input<T>(0);
        // Places of a piece, of which there are vectors, and then their numbers.
        constexpr int64_t kPiece = 1024;
        const auto last = static_cast<double>(bins - 1);
        for (int64_t first = 0; first < count; first += kPiece, poll(kPiece)) {
          const int64_t n = std::min(kPiece, count - first);
          int64_t places[kPiece];
          int64_t odd = 0;
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) {
            const T value = values[first + i];
            odd += IsNan(value) ? 1 : 0;
            const double far = Distance(value, low) / width;
            const double at = value <= low ? 0.0 : far;
            places[i] = static_cast<int64_t>(at < last ? at : last);
          }
          for (int64_t i = 0; odd != 0 && i < n; ++i) {
            if (IsNan(values[first + i]))
              sdk::Fail(TENON_INVALID_ARGUMENT, "Histogram values must not contain NaN; values[", first + i, "] is");
          }
          for (int64_t i = 0; i < n; ++i) ++out[places[i]];
        }
      });
    });
  }

 private:
  template <class T>
  static bool IsNan(T value) {
    if constexpr (std::is_integral_v<T>) return false;
    else return value != value;
  }
  // Of whole numbers exact before it is rounded; of floats, as they are subtracted. high >= low.
  template <class T>
  static double Distance(T high, T low) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<double>(static_cast<Unsigned>(high) - static_cast<Unsigned>(low));
    } else {
      return static_cast<double>(high - low);
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(Bucketize) =
    CpuKernel<BucketizeKernel>("Bucketize", {.constraints = sdk::Constraints<Binned::Constraint<"T">>::list});
TENON_CPU_KERNEL(HistogramFixedWidth) =
    CpuKernel<HistogramKernel>("HistogramFixedWidth", {.constraints = sdk::Constraints<Binned::Constraint<"T">>::list});

}  // namespace tenon::cpu
