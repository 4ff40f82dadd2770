// SPDX-License-Identifier: Apache-2.0
// Kernels of accumulators. They run on the host; a take is asynchronous.
#include "accumulator.h"
#include "handle.h"
#include "tenon/sdk/kernel/element.h"

namespace tenon::ops {
using namespace sdk;

namespace {

template <bool kSparse>
struct MakeAccumulator {
  explicit MakeAccumulator(CreateContext& c) : named(c, "accumulator") {
    options.op = std::string(c.op());
    options.name = named.name;
    options.dtype = c.Type("dtype");
    options.shape = c.ShapeAttr("shape");
    options.mean = c.String("reduction_type") == "MEAN";
    options.sparse = kSparse;
  }
  // As in TensorFlow, whoever comes first says the shape and the reduction of one that is shared.
  void Run(RunContext c) const {
    PlaceOf<Accumulator>(c, named.handle, kAccumulatorType, options)->Check(options.dtype, kSparse);
    *c.output<tenon_resource*>(0) = named.handle;
  }
  NamedHandle named;
  AccumulatorOptions options;
};

std::shared_ptr<Accumulator> AccumulatorIn(const RunContext& c) { return PlaceIn<Accumulator>(c, 0, kAccumulatorType); }

struct ApplyKernel {
  void Run(RunContext c) const {
    const std::shared_ptr<Accumulator> accumulator = AccumulatorIn(c);
    accumulator->Check(c.input_view(2).dtype, false);
    accumulator->Apply(c, *c.input<int64_t>(1), c.input_view(2));
  }
};

struct SparseApplyKernel {
  explicit SparseApplyKernel(CreateContext& c) : has_shape(c.Bool("has_known_shape")) {}
  void Run(RunContext c) const {
    const std::shared_ptr<Accumulator> accumulator = AccumulatorIn(c);
    accumulator->Check(c.input_view(3).dtype, true);
    SparseGradient gradient = {c.input_view(2), c.input_view(3), c.input_view(4)};
    if (!has_shape) gradient.shape = {};
    accumulator->Apply(c, *c.input<int64_t>(1), gradient);
  }
  bool has_shape;
};

template <bool kSparse>
struct TakeKernel {
  explicit TakeKernel(CreateContext& c) : dtype(c.Type("dtype")) {}
  void RunAsync(RunContext c, Done done) const {
    const std::shared_ptr<Accumulator> accumulator = AccumulatorIn(c);
    accumulator->Check(dtype, kSparse);
    const int32_t count = *c.input<int32_t>(1);
    if (count < 1) Fail(TENON_INVALID_ARGUMENT, "num_required is ", count, "; at least 1 gradient must be waited for");
    accumulator->Take(c, done, count);
  }
  uint32_t dtype;
};

struct CountKernel {
  void Run(RunContext c) const {
    *c.output<int32_t>(0) = static_cast<int32_t>(std::min<int64_t>(AccumulatorIn(c)->Count(), INT32_MAX));
  }
};
struct SetStepKernel {
  void Run(RunContext c) const { AccumulatorIn(c)->SetGlobalStep(*c.input<int64_t>(1)); }
};

// TensorFlow's.
using HeldTypes = Types<float, double, Half>;
constexpr Traits kAccumulatorsMake = {.constraints = Constraints<HeldTypes::Constraint<"dtype">>::list,
                                      .flags = TENON_KERNEL_STATEFUL};
constexpr Traits kAccumulatorsGive = {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr Traits kAccumulators = {.flags = 0};

}  // namespace

TENON_KERNEL(kConditionalAccumulatorKernel) = Registration<MakeAccumulator<false>>("ConditionalAccumulator",
                                                                                   kAccumulatorsMake);
TENON_KERNEL(kSparseConditionalAccumulatorKernel) = Registration<MakeAccumulator<true>>("SparseConditionalAccumulator",
                                                                                        kAccumulatorsMake);
TENON_KERNEL(kResourceConditionalAccumulatorKernel) =
    Registration<MakeAccumulator<false>>("ResourceConditionalAccumulator", kAccumulatorsMake);
TENON_KERNEL(kAccumulatorApplyGradientKernel) = Registration<ApplyKernel>("AccumulatorApplyGradient", kAccumulators);
TENON_KERNEL(kResourceAccumulatorApplyGradientKernel) = Registration<ApplyKernel>("ResourceAccumulatorApplyGradient",
                                                                                  kAccumulators);
TENON_KERNEL(kSparseAccumulatorApplyGradientKernel) = Registration<SparseApplyKernel>("SparseAccumulatorApplyGradient",
                                                                                      kAccumulators);
TENON_KERNEL(kAccumulatorTakeGradientKernel) = Registration<TakeKernel<false>>("AccumulatorTakeGradient",
                                                                               kAccumulatorsGive);
TENON_KERNEL(kResourceAccumulatorTakeGradientKernel) =
    Registration<TakeKernel<false>>("ResourceAccumulatorTakeGradient", kAccumulatorsGive);
TENON_KERNEL(kSparseAccumulatorTakeGradientKernel) = Registration<TakeKernel<true>>("SparseAccumulatorTakeGradient",
                                                                                    kAccumulatorsGive);
TENON_KERNEL(kAccumulatorNumAccumulatedKernel) = Registration<CountKernel>("AccumulatorNumAccumulated", kAccumulators);
TENON_KERNEL(kResourceAccumulatorNumAccumulatedKernel) = Registration<CountKernel>("ResourceAccumulatorNumAccumulated",
                                                                                   kAccumulators);
TENON_KERNEL(kAccumulatorSetGlobalStepKernel) = Registration<SetStepKernel>("AccumulatorSetGlobalStep", kAccumulators);
TENON_KERNEL(kResourceAccumulatorSetGlobalStepKernel) = Registration<SetStepKernel>("ResourceAccumulatorSetGlobalStep",
                                                                                    kAccumulators);

}  // namespace tenon::ops
