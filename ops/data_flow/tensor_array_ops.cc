// SPDX-License-Identifier: Apache-2.0
// What the ops of tensor arrays mean; how an array behaves stands in tensor_array.h. A flow is a number that only says
// what comes after what.
//
// The gradient of an array is an array of the same size, which TensorArrayGradV3 makes once for each name `source`:
// what is read of the forward array is written there, and summed; what was written is read from there.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ArrayShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.SetOutput(0, Shape::Scalar());
  c.SetOutput(1, Shape::Scalar());
  c.SetOutputHandle(0, c.ShapeAttr("element_shape"), c.Type("dtype"));
}

TENON_OP(kTensorArrayV3) = DefineOp({
    .name = "TensorArrayV3",
    .inputs = "size: int32",
    .outputs = "handle: resource, flow: float",
    .attrs = "dtype: type; element_shape: shape = unknown; dynamic_size: bool = false; clear_after_read: bool = true; "
             "identical_element_shapes: bool = false; tensor_array_name: string = ''",
    .doc = "A new array of tensors, each written once, that lives until the step ends.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ArrayShape>,
});

static void ArrayGradShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  c.SetOutput(1, Shape::Scalar());
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID) c.SetOutputHandle(0, handle.shape, handle.dtype);
}

// What is written to arrays of gradients depends on values too: of the flow, which says after what, the gradient's flow
// is passed on.
static void ArrayGradGradient(GradientContext& g) {
  if (g.has_dy(1)) g.PassOn(1, 1);
}

TENON_OP(kTensorArrayGradV3) = DefineOp({
    .name = "TensorArrayGradV3",
    .inputs = "handle: resource, flow_in: float",
    .outputs = "grad_handle: resource, flow_out: float",
    .attrs = "source: string",
    .doc = "The array of gradients of an array for the gradients named source: made by the first who asks. What is "
           "written there twice is summed.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ArrayGradShape>,
    .gradient = GradientFunction<ArrayGradGradient>,
});

// ---- Gradients ----

// The array of gradients of input 0, after `flow`: {handle, flow}.
static int64_t GradientArrayOf(GradientContext& g, Output flow) {
  return g.Node("TensorArrayGradV3", {g.input(0), flow}, {{"source", g.scope()}});
}

static void WriteGradient(GradientContext& g) {
  const int64_t array = GradientArrayOf(g, g.dy(0));
  g.SetDx(2, g.Op("TensorArrayReadV3", {{array, 0, 0}, g.input(1), {array, 1, 0}},
                  {Attribute::Type("dtype", g.type(g.input(2)))}));
  g.PassOn(3, 0);
}
static void ReadGradient(GradientContext& g) {
  const int64_t array = GradientArrayOf(g, g.input(2));
  g.SetDx(2, g.Op("TensorArrayWriteV3", {{array, 0, 0}, g.input(1), g.dy(0), {array, 1, 0}}));
}
static void ScatterGradient(GradientContext& g) {
  const int64_t array = GradientArrayOf(g, g.dy(0));
  g.SetDx(2, g.Op("TensorArrayGatherV3", {{array, 0, 0}, g.input(1), {array, 1, 0}},
                  {Attribute::Type("dtype", g.type(g.input(2)))}));
  g.PassOn(3, 0);
}
static void GatherGradient(GradientContext& g) {
  const int64_t array = GradientArrayOf(g, g.input(2));
  g.SetDx(2, g.Op("TensorArrayScatterV3", {{array, 0, 0}, g.input(1), g.dy(0), {array, 1, 0}}));
}
static void SplitGradient(GradientContext& g) {
  const int64_t array = GradientArrayOf(g, g.dy(0));
  g.SetDx(1,
          g.Op("TensorArrayConcatV3", {{array, 0, 0}, {array, 1, 0}}, {Attribute::Type("dtype", g.type(g.input(1)))}));
  g.PassOn(3, 0);
}
static void ConcatGradient(GradientContext& g) {
  const int64_t array = GradientArrayOf(g, g.input(1));
  g.SetDx(1, g.Op("TensorArraySplitV3", {{array, 0, 0}, g.dy(0), g.output(1), {array, 1, 0}}));
}

// ---- Elements ----

// The shape of an element below `leading`, when the handle says it.
static void ElementsShape(ShapeContext& c, const Shape& leading) {
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype == TENON_DT_INVALID) return;
  if (handle.dtype != c.Type("dtype"))
    return c.Invalid("the tensor array holds ", TypeName(handle.dtype), "; dtype is ", TypeName(c.Type("dtype")));
  c.SetOutput(0, Join(leading, handle.shape));
}

static void FlowShape(ShapeContext& c) { c.SetOutput(0, Shape::Scalar()); }
static void WriteShape(ShapeContext& c) {
  c.WithRank(1, 0);
  FlowShape(c);
}
static void ReadShape(ShapeContext& c) {
  c.WithRank(1, 0);
  ElementsShape(c, Shape::Scalar());
}
static void GatherShape(ShapeContext& c) { ElementsShape(c, {c.WithRank(1, 1)[0]}); }
static void ScatterShape(ShapeContext& c) {
  const Shape value = c.WithRankAtLeast(2, 1), indices = c.WithRank(1, 1);
  if (value.known_rank()) c.Merge(value[0], indices[0], "the rows of value and the number of indices");
  FlowShape(c);
}
static void SplitShape(ShapeContext& c) {
  c.WithRankAtLeast(1, 1);
  c.WithRank(2, 1);
  FlowShape(c);
}
static void ConcatShape(ShapeContext& c) { c.SetOutput(1, {kUnknown}); }

TENON_OP(kTensorArrayWriteV3) = DefineOp({
    .name = "TensorArrayWriteV3",
    .inputs = "handle: resource, index: int32, value: T, flow_in: float",
    .outputs = "flow_out: float",
    .attrs = "T: type",
    .doc = "Writes value as element index.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<WriteShape>,
    .gradient = GradientFunction<WriteGradient>,
});

TENON_OP(kTensorArrayReadV3) = DefineOp({
    .name = "TensorArrayReadV3",
    .inputs = "handle: resource, index: int32, flow_in: float",
    .outputs = "value: dtype",
    .attrs = "dtype: type",
    .doc = "Element index; zeros when it was not written and the array knows its shape.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ReadShape>,
    .gradient = GradientFunction<ReadGradient>,
});

TENON_OP(kTensorArrayGatherV3) = DefineOp({
    .name = "TensorArrayGatherV3",
    .inputs = "handle: resource, indices: int32, flow_in: float",
    .outputs = "value: dtype",
    .attrs = "dtype: type; element_shape: shape = unknown",
    .doc = "The elements indices, which have one shape, as the rows of value.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<GatherShape>,
    .gradient = GradientFunction<GatherGradient>,
});

TENON_OP(kTensorArrayScatterV3) = DefineOp({
    .name = "TensorArrayScatterV3",
    .inputs = "handle: resource, indices: int32, value: T, flow_in: float",
    .outputs = "flow_out: float",
    .attrs = "T: type",
    .doc = "Writes the rows of value as the elements indices.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ScatterShape>,
    .gradient = GradientFunction<ScatterGradient>,
});

TENON_OP(kTensorArrayConcatV3) = DefineOp({
    .name = "TensorArrayConcatV3",
    .inputs = "handle: resource, flow_in: float",
    .outputs = "value: dtype, lengths: int64",
    .attrs = "dtype: type; element_shape_except0: shape = unknown",
    .doc = "All elements one after the other along their first dimension, and how many rows each has.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ConcatShape>,
    .gradient = GradientFunction<ConcatGradient>,
});

TENON_OP(kTensorArraySplitV3) = DefineOp({
    .name = "TensorArraySplitV3",
    .inputs = "handle: resource, value: T, lengths: int64, flow_in: float",
    .outputs = "flow_out: float",
    .attrs = "T: type",
    .doc = "Writes the next lengths[i] rows of value as element i.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<SplitShape>,
    .gradient = GradientFunction<SplitGradient>,
});

TENON_OP(kTensorArraySizeV3) = DefineOp({
    .name = "TensorArraySizeV3",
    .inputs = "handle: resource, flow_in: float",
    .outputs = "size: int32",
    .doc = "How many elements the array has.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<FlowShape>,
});

TENON_OP(kTensorArrayCloseV3) = DefineOp({
    .name = "TensorArrayCloseV3",
    .inputs = "handle: resource",
    .doc = "Empties the array; using it afterwards is an error.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
});

}  // namespace tenon::ops
