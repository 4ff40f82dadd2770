// SPDX-License-Identifier: Apache-2.0
// Bincount and DenseBincount. Weights that are floats are added in any order.
#include "code/bincount.h"

#include "kernels/move.h"

namespace tenon::gpu {
namespace {

using BinTypes = Types<int32_t, int64_t, float, double>;

// kDense: of each row, and perhaps whether there is any.
template <bool kDense>
struct BincountKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("size"), 1}};
  explicit BincountKernel(sdk::CreateContext& c) {
    if constexpr (kDense) binary = c.Bool("binary_output");
  }
  struct Plan {
    Plan(const BincountKernel& kernel, Shapes& s) {
      const sdk::Dims shape = s.in(0), weights = s.in(2);
      const int64_t rows = kDense && shape.size() == 2 ? shape[0] : 1;
      const uint32_t dtype = s.dtype(2);
      p.count = sdk::Count(shape);
      p.bins = s.Integer(1);
      p.columns = DimOf(rows == 0 ? 0 : p.count / rows);
      p.values.kind = KindOf(s.dtype(0));
      p.binary = kernel.binary ? 1 : 0;
      const bool fit = kDense ? std::ranges::equal(weights, shape) : sdk::Count(weights) == p.count;
      if (sdk::Count(weights) != 0 && !fit) {
        sdk::Fail(TENON_INVALID_ARGUMENT,
                  "`weights` must be the same shape as `arr` or a length-0 `Tensor`; their shapes are ", weights,
                  " and ", shape);
      }
      if (p.bins < 0 || sdk::Multiply(rows, p.bins) != sdk::Count(s.out(0))) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "size ", p.bins, " does not give the output's shape ", s.out(0));
      }
      is_weighted = sdk::Count(weights) != 0 && !kernel.binary;
      is_shared = rows == 1 && p.bins <= kSharedBins && !kernel.binary;
      bytes = sdk::Multiply(sdk::Count(s.out(0)), static_cast<int64_t>(sdk::ElementSize(dtype)));
      code = s.Code(is_shared ? "BincountShared" : "Bincount", dtype);
      site = s.Site(TENON_INVALID_ARGUMENT, "Input arr must be non-negative! arr[{0}] is {1}");
    }
    void Launch(Launcher& on, char* const* at) const {
      BincountParams now = p;
      now.values.at = at[0];
      now.weights = is_weighted ? at[2] : nullptr;
      now.out = at[3];
      now.site = on.Site(site);
      on.Fill(now.out, 0, bytes);
      on(code, Flat(now.count, is_shared ? 8 : 1), now);
    }
    BincountParams p = {};
    bool is_weighted = false, is_shared = false;
    int64_t bytes = 0;
    Function code = nullptr;
    uint64_t site = 0;
  };
  bool binary = false;
};

constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<BinTypes::Constraint<"T">>::list, .flags = 0};

}  // namespace

TENON_GPU_KERNEL(Bincount) = Kernel<BincountKernel<false>>("Bincount", kTraits);
TENON_GPU_KERNEL(DenseBincount) = Kernel<BincountKernel<true>>("DenseBincount", kTraits);

}  // namespace tenon::gpu
