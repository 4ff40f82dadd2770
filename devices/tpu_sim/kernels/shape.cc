// SPDX-License-Identifier: Apache-2.0
// Shape, ShapeN, Size and Rank of tensors in device memory: answers on the host, and no work.
#include "tenon/extras/kernel/shape_kernels.h"

#include "kernels/kernel.h"

namespace tenon::tpu_sim {
namespace {

constexpr tenon_span kOutput[] = {TENON_SPAN("output")};
constexpr sdk::Traits kShapeTraits = {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list,
                                      .host_memory = kOutput};

}  // namespace

TENON_TPU_PLAIN_KERNEL(Shape) = PlainKernel<sdk::ShapeKernel>("Shape", kShapeTraits);
TENON_TPU_PLAIN_KERNEL(ShapeN) = PlainKernel<sdk::ShapeKernel>("ShapeN", kShapeTraits);
TENON_TPU_PLAIN_KERNEL(Size) = PlainKernel<sdk::SizeKernel>("Size", kShapeTraits);
TENON_TPU_PLAIN_KERNEL(Rank) = PlainKernel<sdk::RankKernel>("Rank", kShapeTraits);
TENON_TPU_PLAIN_KERNEL(VariableShape) = PlainKernel<sdk::VariableShapeKernel>("VariableShape", {.host_memory = kOutput,
                                                                                                .dynamic_outputs = 1});

}  // namespace tenon::tpu_sim
