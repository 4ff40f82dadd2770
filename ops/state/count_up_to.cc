// SPDX-License-Identifier: Apache-2.0
// CountUpTo and ResourceCountUpTo: a counter with an end, as input pipelines count their epochs.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void CounterShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.SetOutput(0, Shape::Scalar());
}

static void ResourceCounterShape(ShapeContext& c) {
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID && c.ok() && BaseType(handle.dtype) != c.Type("T"))
    return c.Invalid("the variable is of type ", TypeName(handle.dtype), ", but 'T' says ", TypeName(c.Type("T")));
  if (handle.shape.known_rank() && handle.shape.rank() != 0)
    return c.Invalid("the counter must be a scalar; its shape is ", handle.shape);
  c.SetOutput(0, Shape::Scalar());
}

TENON_OP(kCountUpTo) = DefineOp({
    .name = "CountUpTo",
    .inputs = "ref: Ref(T)",
    .outputs = "output: T",
    .attrs = "limit: int; T: {int32, int64}",
    .doc = "The variable's value, which is one more then. OUT_OF_RANGE at the limit.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<CounterShape>,
});

TENON_OP(kResourceCountUpTo) = DefineOp({
    .name = "ResourceCountUpTo",
    .inputs = "resource: resource",
    .outputs = "output: T",
    .attrs = "limit: int; T: {int32, int64}",
    .doc = "The variable's value, which is one more then. OUT_OF_RANGE at the limit.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ResourceCounterShape>,
});

}  // namespace tenon::ops
