// SPDX-License-Identifier: Apache-2.0
// Kernels of barriers. They run on the host; a take is asynchronous.
#include <algorithm>

#include "barrier.h"
#include "handle.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr tenon_span kBarrierType = TENON_SPAN("tenon.Barrier/1");

struct MakeBarrier {
  explicit MakeBarrier(CreateContext& c)
      : named(c, "barrier"), options{named.name, c.Types("component_types"), c.Shapes("shapes")} {
    if (!c.ok()) return;
    if (options.shapes.size() != options.types.size())
      c.Fail(TENON_INVALID_ARGUMENT, "a Barrier of ", options.types.size(), " component_types has ",
             options.shapes.size(), " shapes; give each its own");
    for (const Shape& shape : options.shapes)
      if (!shape.fully_known())
        c.Fail(TENON_INVALID_ARGUMENT, "a Barrier takes no component of shape ", shape, "; all dims must be known");
    for (const uint32_t dtype : options.types)
      if (ElementSize(dtype) == 0 && dtype != TENON_DT_STRING)
        c.Fail(TENON_UNIMPLEMENTED, "a Barrier of ", TypeName(dtype));
    if (const int64_t capacity = c.Int("capacity"); capacity != -1)
      c.Fail(TENON_INVALID_ARGUMENT, "a Barrier has no bound, and capacity is ", capacity,
             "; let its elements come through a queue, which may have one");
  }
  void Run(RunContext c) const {
    PlaceOf<Barrier>(c, named.handle, kBarrierType, options)->CheckSame(options);
    *c.output<tenon_resource*>(0) = named.handle;
  }
  NamedHandle named;
  BarrierOptions options;
};

std::shared_ptr<Barrier> BarrierIn(const RunContext& c) { return PlaceIn<Barrier>(c, 0, kBarrierType); }

struct InsertKernel {
  explicit InsertKernel(CreateContext& c) : component(c.Int("component_index")) {}
  void Run(RunContext c) const { BarrierIn(c)->Insert(c, component, c.input_view(1), c.input_view(2)); }
  int64_t component;
};

// wait_for_incomplete changes nothing, as in TensorFlow.
struct BarrierTakeKernel {
  explicit BarrierTakeKernel(CreateContext& c) : types(c.Types("component_types")), fewer(c.Bool("allow_small_batch")) {
    if (c.Int("timeout_ms") != -1)
      c.Fail(TENON_INVALID_ARGUMENT, "timeout_ms is not supported; give the step a deadline");
  }
  void RunAsync(RunContext c, Done done) const {
    const std::shared_ptr<Barrier> barrier = BarrierIn(c);
    if (types != barrier->types())
      Fail(TENON_INVALID_ARGUMENT, "the ", barrier->Describe(),
           " has components of other types than component_types says");
    const int32_t count = *c.input<int32_t>(1);
    if (count < 0) Fail(TENON_INVALID_ARGUMENT, count, " elements are asked for");
    barrier->Take(c, done, count, fewer);
  }
  std::vector<uint32_t> types;
  bool fewer;
};

struct BarrierCloseKernel {
  explicit BarrierCloseKernel(CreateContext& c) : cancels(c.Bool("cancel_pending_enqueues")) {}
  void Run(RunContext c) const { BarrierIn(c)->Close(cancels); }
  bool cancels;
};
struct ReadySizeKernel {
  void Run(RunContext c) const { *c.output<int32_t>(0) = static_cast<int32_t>(BarrierIn(c)->ReadySize()); }
};
struct IncompleteSizeKernel {
  void Run(RunContext c) const { *c.output<int32_t>(0) = static_cast<int32_t>(BarrierIn(c)->IncompleteSize()); }
};

constexpr Traits kBarriers = {.flags = 0};

}  // namespace

TENON_KERNEL(kBarrierKernel) = Registration<MakeBarrier>("Barrier", {.flags = TENON_KERNEL_STATEFUL});
TENON_KERNEL(kBarrierInsertManyKernel) = Registration<InsertKernel>("BarrierInsertMany", kBarriers);
TENON_KERNEL(kBarrierTakeManyKernel) = Registration<BarrierTakeKernel>("BarrierTakeMany",
                                                                       {.flags = 0,
                                                                        .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_KERNEL(kBarrierCloseKernel) = Registration<BarrierCloseKernel>("BarrierClose", kBarriers);
TENON_KERNEL(kBarrierReadySizeKernel) = Registration<ReadySizeKernel>("BarrierReadySize", kBarriers);
TENON_KERNEL(kBarrierIncompleteSizeKernel) = Registration<IncompleteSizeKernel>("BarrierIncompleteSize", kBarriers);

}  // namespace tenon::ops
