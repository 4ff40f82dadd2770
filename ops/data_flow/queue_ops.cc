// SPDX-License-Identifier: Apache-2.0
// What the ops of queues mean; how a queue behaves stands in queue.h.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// A handle refers to one shape and type: what a queue of one component holds is known from it.
static void QueueShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  const std::vector<uint32_t> types = c.Types("component_types");
  const std::vector<Shape> shapes = c.Shapes("shapes");
  if (!shapes.empty() && shapes.size() != types.size()) {
    return c.Invalid(types.size(), " component_types have ", shapes.size(),
                     " shapes; give each its own, or none at all");
  }
  if (types.size() == 1) c.SetOutputHandle(0, shapes.empty() ? Shape() : shapes[0], types[0]);
}

// The priority goes before what component_types says.
static void PriorityQueueShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  const size_t types = c.Types("component_types").size(), shapes = c.Shapes("shapes").size();
  if (types != shapes) c.Invalid(types, " component_types have ", shapes, " shapes; give each its own");
}

TENON_OP(kFIFOQueueV2) = DefineOp({
    .name = "FIFOQueueV2",
    .outputs = "handle: resource",
    .attrs = "component_types: list(type) >= 1; shapes: list(shape) = []; capacity: int = -1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "A queue that gives elements in the order in which they came; a negative capacity is no limit.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<QueueShape>,
});

TENON_OP(kPaddingFIFOQueueV2) = DefineOp({
    .name = "PaddingFIFOQueueV2",
    .outputs = "handle: resource",
    .attrs = "component_types: list(type) >= 1; shapes: list(shape) = []; capacity: int = -1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "A queue in order whose elements may differ in the dims that shapes leaves unknown; several at once are "
           "padded to the "
           "largest of them.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<QueueShape>,
});

TENON_OP(kRandomShuffleQueueV2) = DefineOp({
    .name = "RandomShuffleQueueV2",
    .outputs = "handle: resource",
    .attrs =
        "component_types: list(type) >= 1; shapes: list(shape) = []; capacity: int = -1; min_after_dequeue: int = 0; "
        "seed: int = 0; seed2: int = 0; container: string = ''; shared_name: string = ''",
    .doc = "A queue that gives its elements in random order, and keeps min_after_dequeue of them until it is closed.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<QueueShape>,
});

TENON_OP(kPriorityQueueV2) = DefineOp({
    .name = "PriorityQueueV2",
    .outputs = "handle: resource",
    .attrs = "component_types: list(type) = []; shapes: list(shape); capacity: int = -1; container: string = ''; "
             "shared_name: string = ''",
    .doc = "A queue that gives the element of the smallest priority first: an int64, which is the first component of "
           "its elements, before those of "
           "component_types.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<PriorityQueueShape>,
});

TENON_OP(kQueueEnqueueV2) = DefineOp({
    .name = "QueueEnqueueV2",
    .inputs = "handle: resource, components: Tcomponents",
    .attrs = "Tcomponents: list(type) >= 1; timeout_ms: int = -1",
    .doc = "Puts one element into the queue, when there is room.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kQueueEnqueueManyV2) = DefineOp({
    .name = "QueueEnqueueManyV2",
    .inputs = "handle: resource, components: Tcomponents",
    .attrs = "Tcomponents: list(type) >= 1; timeout_ms: int = -1",
    .doc = "Puts the rows of the components into the queue, each as an element, as there is room.",
    .traits = TENON_OP_STATEFUL,
});

// What the handle says of the one component of its queue, below `leading`.
static void DequeuedShape(ShapeContext& c, const Shape& leading) {
  const std::vector<uint32_t> types = c.Types("component_types");
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID && c.ok() && (types.size() != 1 || types[0] != handle.dtype)) {
    return c.Invalid("the queue holds one component of type ", TypeName(handle.dtype),
                     "; component_types says otherwise");
  }
  if (handle.dtype != TENON_DT_INVALID) c.SetOutput(0, Join(leading, handle.shape));
}

static void DequeueShape(ShapeContext& c) { DequeuedShape(c, Shape::Scalar()); }
static void DequeueManyShape(ShapeContext& c) {
  c.WithRank(1, 0);
  DequeuedShape(c, {c.Integer(1).value_or(kUnknown)});
}
static void DequeueUpToShape(ShapeContext& c) {
  c.WithRank(1, 0);
  DequeuedShape(c, {kUnknown});
}

TENON_OP(kQueueDequeueV2) = DefineOp({
    .name = "QueueDequeueV2",
    .inputs = "handle: resource",
    .outputs = "components: component_types",
    .attrs = "component_types: list(type) >= 1; timeout_ms: int = -1",
    .doc = "Takes one element from the queue, when there is one.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DequeueShape>,
});

TENON_OP(kQueueDequeueManyV2) = DefineOp({
    .name = "QueueDequeueManyV2",
    .inputs = "handle: resource, n: int32",
    .outputs = "components: component_types",
    .attrs = "component_types: list(type) >= 1; timeout_ms: int = -1",
    .constraints = "rank(n) == 0; value(n) >= 0",
    .doc = "Takes n elements from the queue, or none, and gives them as the rows of the components.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DequeueManyShape>,
});

TENON_OP(kQueueDequeueUpToV2) = DefineOp({
    .name = "QueueDequeueUpToV2",
    .inputs = "handle: resource, n: int32",
    .outputs = "components: component_types",
    .attrs = "component_types: list(type) >= 1; timeout_ms: int = -1",
    .constraints = "rank(n) == 0; value(n) >= 0",
    .doc = "Takes n elements from the queue; of a closed one what is left, if that is fewer.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DequeueUpToShape>,
});

TENON_OP(kQueueCloseV2) = DefineOp({
    .name = "QueueCloseV2",
    .inputs = "handle: resource",
    .attrs = "cancel_pending_enqueues: bool = false",
    .doc = "Closes the queue: nothing more goes in. Enqueues that wait are cancelled, or awaited.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kQueueIsClosedV2) = DefineOp({
    .name = "QueueIsClosedV2",
    .inputs = "handle: resource",
    .outputs = "is_closed: bool",
    .doc = "Whether the queue is closed.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kQueueSizeV2) = DefineOp({
    .name = "QueueSizeV2",
    .inputs = "handle: resource",
    .outputs = "size: int32",
    .doc = "How many elements are in the queue.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
