// SPDX-License-Identifier: Apache-2.0
// Shape, ShapeN, Size and Rank of tensors in device memory: answers on the host, and no work. What graphs compute with
// shapes, on the host too; of DynamicStitch and InvertPermutation int32, which shapes and permutations are of. And the
// views.
#include "tenon/extras/kernel/shape_kernels.h"

#include "kernels/kernel.h"

namespace tenon::gpu {
namespace {

// The engine gives the output the input's memory and never runs this; it is right all the same.
struct ViewKernel {
  void Run(sdk::RunContext c) const {
    RequireOwn(c.frame()->device);
    const View &from = c.input_view(0), &to = c.output_view(0);
    SubmitTo(*c.frame(), [&](Launcher& on) {
      on.Copy(sdk::Data<void>(to), sdk::Data<void>(from), static_cast<int64_t>(std::min(from.byte_size, to.byte_size)));
    });
  }
};

constexpr tenon_span kOutput[] = {TENON_SPAN("output")};
constexpr tenon_span kGradientArgs[] = {TENON_SPAN("s0"), TENON_SPAN("s1"), TENON_SPAN("r0"), TENON_SPAN("r1")};
constexpr tenon_span kConcatArgs[] = {TENON_SPAN("concat_dim"), TENON_SPAN("shape"), TENON_SPAN("offset")};
constexpr tenon_span kStitchArgs[] = {TENON_SPAN("indices"), TENON_SPAN("data"), TENON_SPAN("merged")};
constexpr tenon_span kPermutations[] = {TENON_SPAN("x"), TENON_SPAN("y")};
constexpr auto& kInt32 = sdk::Constraints<sdk::Allowed<"T", TENON_DT_INT32>>::list;
constexpr tenon_span kShapeArgument[] = {TENON_SPAN("shape")};
constexpr tenon_span kDimArgument[] = {TENON_SPAN("dim")};
constexpr auto& kPlain = sdk::Constraints<sdk::PlainConstraint<"T">>::list;
constexpr sdk::Traits kTraits = {.constraints = kPlain, .host_memory = kOutput};
constexpr sdk::Traits ViewTraits(std::span<const tenon_span> host) {
  return {.constraints = kPlain,
          .in_place = sdk::kInPlaceFirst,
          .host_memory = host,
          .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_VIEW};
}

}  // namespace

TENON_GPU_KERNEL(Shape) = PlainKernel<sdk::ShapeKernel>("Shape", kTraits);
TENON_GPU_KERNEL(ShapeN) = PlainKernel<sdk::ShapeKernel>("ShapeN", kTraits);
TENON_GPU_KERNEL(Size) = PlainKernel<sdk::SizeKernel>("Size", kTraits);
TENON_GPU_KERNEL(Rank) = PlainKernel<sdk::RankKernel>("Rank", kTraits);
TENON_GPU_KERNEL(VariableShape) = PlainKernel<sdk::VariableShapeKernel>("VariableShape",
                                                                        {.host_memory = kOutput, .dynamic_outputs = 1});
TENON_GPU_KERNEL(BroadcastGradientArgs) = PlainKernel<sdk::BroadcastGradientArgsKernel>("BroadcastGradientArgs",
                                                                                        {.host_memory = kGradientArgs,
                                                                                         .dynamic_outputs = 3});
TENON_GPU_KERNEL(ConcatOffset) = PlainKernel<sdk::ConcatOffsetKernel>("ConcatOffset", {.host_memory = kConcatArgs});
TENON_GPU_KERNEL(DynamicStitchOnHost) = PlainKernel<sdk::DynamicStitchKernel>(
    "DynamicStitch", {.constraints = kInt32, .host_memory = kStitchArgs, .dynamic_outputs = 1, .priority = 1});
TENON_GPU_KERNEL(InvertPermutationOnHost) = PlainKernel<sdk::InvertPermutationKernel>("InvertPermutation",
                                                                                      {.constraints = kInt32,
                                                                                       .host_memory = kPermutations});
TENON_GPU_KERNEL(Reshape) = PlainKernel<ViewKernel>("Reshape", ViewTraits(kShapeArgument));
TENON_GPU_KERNEL(ExpandDims) = PlainKernel<ViewKernel>("ExpandDims", ViewTraits(kDimArgument));
TENON_GPU_KERNEL(Squeeze) = PlainKernel<ViewKernel>("Squeeze", ViewTraits({}));
TENON_GPU_KERNEL(EnsureShape) = PlainKernel<ViewKernel>("EnsureShape", ViewTraits({}));

}  // namespace tenon::gpu
