// SPDX-License-Identifier: Apache-2.0
// Shape, ShapeN, Size and Rank of tensors in device memory: answers on the host, and no work.
#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

// Writes an integer to element i of an int32 or int64 output.
void Put(const View& output, int64_t i, int64_t value) {
  if (output.dtype == TENON_DT_INT64) {
    sdk::Data<int64_t>(output)[i] = value;
  } else if (value <= INT32_MAX) {
    sdk::Data<int32_t>(output)[i] = static_cast<int32_t>(value);
  } else {
    sdk::Fail(TENON_INVALID_ARGUMENT, value, " does not fit out_type int32; use int64");
  }
}

struct ShapeKernel {
  void Run(sdk::RunContext c) const {
    for (int32_t k = 0; k < c.input_count(); ++k) {
      const sdk::Dims dims = sdk::DimsOf(c.input_view(k));
      for (size_t i = 0; i < dims.size(); ++i) Put(c.output_view(k), static_cast<int64_t>(i), dims[i]);
    }
  }
};
struct SizeKernel {
  void Run(sdk::RunContext c) const { Put(c.output_view(0), 0, sdk::Count(c.input_view(0))); }
};
struct RankKernel {
  void Run(sdk::RunContext c) const { Put(c.output_view(0), 0, c.input_view(0).dl.ndim); }
};

constexpr tenon_span kOutput[] = {TENON_SPAN("output")};
constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list, .host_memory = kOutput};

}  // namespace

TENON_TPU_KERNEL(Shape) = PlainKernel<ShapeKernel>("Shape", kTraits);
TENON_TPU_KERNEL(ShapeN) = PlainKernel<ShapeKernel>("ShapeN", kTraits);
TENON_TPU_KERNEL(Size) = PlainKernel<SizeKernel>("Size", kTraits);
TENON_TPU_KERNEL(Rank) = PlainKernel<RankKernel>("Rank", kTraits);

}  // namespace tenon::tpu_sim
