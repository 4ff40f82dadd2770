// SPDX-License-Identifier: Apache-2.0
// The first versions of the ops of queues: the same, with a reference to a string as the handle. Graphs of TensorFlow
// before 1.0 have them.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void FirstQueueShape(ShapeContext& c) {
  c.SetOutput(0, {2});
  const std::vector<uint32_t> types = c.Types("component_types");
  const std::vector<Shape> shapes = c.Shapes("shapes");
  if (!shapes.empty() && shapes.size() != types.size())
    c.Invalid(types.size(), " component_types have ", shapes.size(), " shapes");
}

// The components' shapes are the queue's, which a reference does not say.
static void ElementShape(ShapeContext&) {}
static void RowsShape(ShapeContext& c) { c.WithRank(1, 0); }

TENON_OP(kFIFOQueue) = DefineOp({
    .name = "FIFOQueue",
    .outputs = "handle: Ref(string)",
    .attrs = "component_types: list(type) >= 1; shapes: list(shape) = []; capacity: int = -1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "FIFOQueueV2, with a reference to a string as the handle.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstQueueShape>,
});

TENON_OP(kPaddingFIFOQueue) = DefineOp({
    .name = "PaddingFIFOQueue",
    .outputs = "handle: Ref(string)",
    .attrs = "component_types: list(type) >= 1; shapes: list(shape) = []; capacity: int = -1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "PaddingFIFOQueueV2, with a reference to a string as the handle.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstQueueShape>,
});

TENON_OP(kRandomShuffleQueue) = DefineOp({
    .name = "RandomShuffleQueue",
    .outputs = "handle: Ref(string)",
    .attrs =
        "component_types: list(type) >= 1; shapes: list(shape) = []; capacity: int = -1; min_after_dequeue: int = 0; "
        "seed: int = 0; seed2: int = 0; container: string = ''; shared_name: string = ''",
    .doc = "RandomShuffleQueueV2, with a reference to a string as the handle.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstQueueShape>,
});

TENON_OP(kPriorityQueue) = DefineOp({
    .name = "PriorityQueue",
    .outputs = "handle: Ref(string)",
    .attrs = "component_types: list(type) = []; shapes: list(shape); capacity: int = -1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "PriorityQueueV2, with a reference to a string as the handle.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<FirstQueueShape>,
});

TENON_OP(kQueueEnqueue) = DefineOp({
    .name = "QueueEnqueue",
    .inputs = "handle: Ref(string), components: Tcomponents",
    .attrs = "Tcomponents: list(type) >= 1; timeout_ms: int = -1",
    .doc = "QueueEnqueueV2, with a reference to a string as the handle.",
});

TENON_OP(kQueueEnqueueMany) = DefineOp({
    .name = "QueueEnqueueMany",
    .inputs = "handle: Ref(string), components: Tcomponents",
    .attrs = "Tcomponents: list(type) >= 1; timeout_ms: int = -1",
    .doc = "QueueEnqueueManyV2, with a reference to a string as the handle.",
});

TENON_OP(kQueueDequeue) = DefineOp({
    .name = "QueueDequeue",
    .inputs = "handle: Ref(string)",
    .outputs = "components: component_types",
    .attrs = "component_types: list(type) >= 1; timeout_ms: int = -1",
    .doc = "QueueDequeueV2, with a reference to a string as the handle.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ElementShape>,
});

TENON_OP(kQueueDequeueMany) = DefineOp({
    .name = "QueueDequeueMany",
    .inputs = "handle: Ref(string), n: int32",
    .outputs = "components: component_types",
    .attrs = "component_types: list(type) >= 1; timeout_ms: int = -1",
    .constraints = "rank(n) == 0; value(n) >= 0",
    .doc = "QueueDequeueManyV2, with a reference to a string as the handle.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<RowsShape>,
});

TENON_OP(kQueueDequeueUpTo) = DefineOp({
    .name = "QueueDequeueUpTo",
    .inputs = "handle: Ref(string), n: int32",
    .outputs = "components: component_types",
    .attrs = "component_types: list(type) >= 1; timeout_ms: int = -1",
    .constraints = "rank(n) == 0; value(n) >= 0",
    .doc = "QueueDequeueUpToV2, with a reference to a string as the handle.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<RowsShape>,
});

TENON_OP(kQueueClose) = DefineOp({
    .name = "QueueClose",
    .inputs = "handle: Ref(string)",
    .attrs = "cancel_pending_enqueues: bool = false",
    .doc = "QueueCloseV2, with a reference to a string as the handle.",
});

TENON_OP(kQueueIsClosed) = DefineOp({
    .name = "QueueIsClosed",
    .inputs = "handle: Ref(string)",
    .outputs = "is_closed: bool",
    .doc = "QueueIsClosedV2, with a reference to a string as the handle.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kQueueSize) = DefineOp({
    .name = "QueueSize",
    .inputs = "handle: Ref(string)",
    .outputs = "size: int32",
    .doc = "QueueSizeV2, with a reference to a string as the handle.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
