// SPDX-License-Identifier: Apache-2.0
// What the ops of lists of tensors mean; how a list behaves stands in tensor_list.h.
//
// The gradient of a list is a list of the elements' gradients.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static uint32_t ElementType(GradientContext& g) { return g.Type("element_dtype"); }
static Attribute Typed(uint32_t dtype) { return Attribute::Type("element_dtype", dtype); }
// The shape of a row of x.
static Output RowShape(GradientContext& g, Output x) {
  const Shape row = g.shape(x).Slice(1);
  return row.fully_known() ? g.Vector(row.dims()) : g.VectorSlice(g.ShapeOf(x), 1);
}
// What is known of it before the step: elements of a list of gradients may differ.
static Output KnownRowShape(GradientContext& g, Output x) {
  const Shape row = g.shape(x).Slice(1);
  return row.known_rank() ? g.Vector(row.dims()) : g.Number(-1);
}
// Input `input` as a shape: a vector, or the scalar -1 for an unknown rank.
static Shape ElementShapeOf(ShapeContext& c, int input) {
  return c.Input(input).rank() == 1 ? c.InputAsShape(input) : Shape();
}
// Any shape.
static Output AnyShape(GradientContext& g) { return g.Number(-1); }

// ---- Making lists ----

static void HandleShape(ShapeContext& c) { c.SetOutput(0, Shape::Scalar()); }

TENON_OP(kEmptyTensorList) = DefineOp({
    .name = "EmptyTensorList",
    .inputs = "element_shape: shape_type, max_num_elements: int32",
    .outputs = "handle: variant",
    .attrs = "element_dtype: type; shape_type: {int32, int64}",
    .constraints = "rank(element_shape) <= 1; rank(max_num_elements) == 0",
    .doc = "A list without elements, to which at most max_num_elements can be appended (-1: any number).",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<HandleShape>,
});

TENON_OP(kTensorListReserve) = DefineOp({
    .name = "TensorListReserve",
    .inputs = "element_shape: shape_type, num_elements: int32",
    .outputs = "handle: variant",
    .attrs = "element_dtype: type; shape_type: {int32, int64}",
    .constraints = "rank(element_shape) <= 1; rank(num_elements) == 0",
    .doc = "A list of num_elements elements, none of which is set.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<HandleShape>,
});

static void FromTensorGradient(GradientContext& g) {
  const Shape tensor = g.shape(g.input(0));
  g.SetDx(0, g.Op("TensorListStack", {g.dy(0), RowShape(g, g.input(0))},
                  {Typed(ElementType(g)), {"num_elements", tensor[0]}}));
}

TENON_OP(kTensorListFromTensor) = DefineOp({
    .name = "TensorListFromTensor",
    .inputs = "tensor: element_dtype, element_shape: shape_type",
    .outputs = "output_handle: variant",
    .attrs = "element_dtype: type; shape_type: {int32, int64}",
    .constraints = "rank(tensor) >= 1; rank(element_shape) <= 1",
    .doc = "The rows of a tensor as a list.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<HandleShape>,
    .gradient = GradientFunction<FromTensorGradient>,
});

static void ListSplitGradient(GradientContext& g) {
  // What the rows are is not left to the elements: none may be set.
  const Shape row = g.shape(g.input(0)).Slice(1);
  const Output element =
      row.fully_known() ? g.Vector(Join({-1}, row).dims()) : g.Concat({g.Vector({-1}), RowShape(g, g.input(0))});
  const int64_t whole = g.Node("TensorListConcatV2", {g.dy(0), element, g.input(2)}, {Typed(ElementType(g))});
  g.SetDx(0, {whole, 0, 0});
}

TENON_OP(kTensorListSplit) = DefineOp({
    .name = "TensorListSplit",
    .inputs = "tensor: element_dtype, element_shape: shape_type, lengths: int64",
    .outputs = "output_handle: variant",
    .attrs = "element_dtype: type; shape_type: {int32, int64}",
    .constraints = "rank(tensor) >= 1; rank(element_shape) <= 1; rank(lengths) == 1",
    .doc = "The next lengths[i] rows of a tensor as element i of a list.",
    .shape = ShapeFunction<HandleShape>,
    .gradient = GradientFunction<ListSplitGradient>,
});

static void ListScatterGradient(GradientContext& g) {
  g.SetDx(0, g.Op("TensorListGather", {g.dy(0), g.input(1), RowShape(g, g.input(0))}, {Typed(ElementType(g))}));
}

TENON_OP(kTensorListScatterV2) = DefineOp({
    .name = "TensorListScatterV2",
    .inputs = "tensor: element_dtype, indices: int32, element_shape: shape_type, num_elements: int32",
    .outputs = "output_handle: variant",
    .attrs = "element_dtype: type; shape_type: {int32, int64}",
    .constraints = "rank(tensor) >= 1; rank(indices) == 1; rank(element_shape) <= 1; rank(num_elements) == 0",
    .doc = "A list whose element indices[i] is row i of a tensor; num_elements: its size, -1 for one more than the "
           "greatest index.",
    .shape = ShapeFunction<HandleShape>,
    .gradient = GradientFunction<ListScatterGradient>,
});

// ---- Changing lists ----

// `list` with the size of `other`.
static Output AsLongAs(GradientContext& g, Output list, Output other) {
  return g.Op("TensorListResize", {list, g.Op("TensorListLength", {other})});
}

static void PushBackGradient(GradientContext& g) {
  const int64_t popped = g.Node("TensorListPopBack", {g.dy(0), g.ShapeOf(g.input(1))}, {Typed(ElementType(g))});
  g.SetDx(0, {popped, 0, 0});
  g.SetDx(1, {popped, 1, 0});
}

TENON_OP(kTensorListPushBack) = DefineOp({
    .name = "TensorListPushBack",
    .inputs = "input_handle: variant, tensor: element_dtype",
    .outputs = "output_handle: variant",
    .attrs = "element_dtype: type",
    .constraints = "rank(input_handle) == 0",
    .doc = "The list with one more element at its end.",
    .shape = ShapeFunction<HandleShape>,
    .gradient = GradientFunction<PushBackGradient>,
});

static void PopBackGradient(GradientContext& g) {
  // What is left of the list may be used for nothing: its gradient is then a list of elements that nobody has set.
  const Output rest =
      g.has_dy(0) ? g.dy(0)
                  : g.Op("TensorListReserve",
                         {g.Op("TensorListElementShape", {g.input(0)}, {Attribute::Type("shape_type", TENON_DT_INT32)}),
                          g.Op("TensorListLength", {g.output(0)})},
                         {Typed(ElementType(g)), Attribute::Type("shape_type", TENON_DT_INT32)});
  g.SetDx(0, g.Op("TensorListPushBack", {rest, g.dy(1)}));
}

static void PopBackShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  c.SetOutput(1, ElementShapeOf(c, 1));
}

TENON_OP(kTensorListPopBack) = DefineOp({
    .name = "TensorListPopBack",
    .inputs = "input_handle: variant, element_shape: int32",
    .outputs = "output_handle: variant, tensor: element_dtype",
    .attrs = "element_dtype: type",
    .constraints = "rank(input_handle) == 0; rank(element_shape) <= 1",
    .doc = "The list without its last element, and that element.",
    .shape = ShapeFunction<PopBackShape>,
    .gradient = GradientFunction<PopBackGradient>,
});

static void SetItemGradient(GradientContext& g) {
  const Output item = g.input(2);
  const Output list = g.Op("TensorListSetItem", {g.dy(0), g.input(1), g.ZerosLike(item)});
  g.SetDx(0, g.Bool("resize_if_index_out_of_bounds") ? AsLongAs(g, list, g.input(0)) : list);
  g.SetDx(2, g.Op("TensorListGetItem", {g.dy(0), g.input(1), g.ShapeOf(item)}, {Typed(ElementType(g))}));
}

TENON_OP(kTensorListSetItem) = DefineOp({
    .name = "TensorListSetItem",
    .inputs = "input_handle: variant, index: int32, item: element_dtype",
    .outputs = "output_handle: variant",
    .attrs = "element_dtype: type; resize_if_index_out_of_bounds: bool = false",
    .constraints = "rank(input_handle) == 0; rank(index) == 0",
    .doc = "The list with item as element index.",
    .shape = ShapeFunction<HandleShape>,
    .gradient = GradientFunction<SetItemGradient>,
});

static void ScatterIntoGradient(GradientContext& g) {
  const Output tensor = g.input(1), indices = g.input(2);
  g.SetDx(0,
          AsLongAs(g, g.Op("TensorListScatterIntoExistingList", {g.dy(0), g.ZerosLike(tensor), indices}), g.input(0)));
  g.SetDx(1, g.Op("TensorListGather", {g.dy(0), indices, RowShape(g, tensor)}, {Typed(ElementType(g))}));
}

TENON_OP(kTensorListScatterIntoExistingList) = DefineOp({
    .name = "TensorListScatterIntoExistingList",
    .inputs = "input_handle: variant, tensor: element_dtype, indices: int32",
    .outputs = "output_handle: variant",
    .attrs = "element_dtype: type",
    .constraints = "rank(input_handle) == 0; rank(tensor) >= 1; rank(indices) == 1",
    .doc = "The list with row i of a tensor as element indices[i]; it grows where an index is beyond its end.",
    .shape = ShapeFunction<HandleShape>,
    .gradient = GradientFunction<ScatterIntoGradient>,
});

static void ResizeGradient(GradientContext& g) { g.SetDx(0, AsLongAs(g, g.dy(0), g.input(0))); }

TENON_OP(kTensorListResize) = DefineOp({
    .name = "TensorListResize",
    .inputs = "input_handle: variant, size: int32",
    .outputs = "output_handle: variant",
    .constraints = "rank(input_handle) == 0; rank(size) == 0",
    .doc = "The first size elements of the list; new ones are not set.",
    .shape = ShapeFunction<HandleShape>,
    .gradient = GradientFunction<ResizeGradient>,
});

// ---- Reading lists ----

static void GetItemShape(ShapeContext& c) { c.SetOutput(0, ElementShapeOf(c, 2)); }
static void GetItemGradient(GradientContext& g) {
  const Output shape = g.Op("TensorListElementShape", {g.input(0)}, {Attribute::Type("shape_type", TENON_DT_INT32)});
  const Output empty =
      g.Op("TensorListReserve", {shape, g.Op("TensorListLength", {g.input(0)})}, {Typed(ElementType(g))});
  g.SetDx(0, g.Op("TensorListSetItem", {empty, g.input(1), g.dy(0)}));
}

TENON_OP(kTensorListGetItem) = DefineOp({
    .name = "TensorListGetItem",
    .inputs = "input_handle: variant, index: int32, element_shape: Tshape",
    .outputs = "item: element_dtype",
    .attrs = "element_dtype: type; Tshape: {int32, int64} = int32",
    .constraints = "rank(input_handle) == 0; rank(index) == 0; rank(element_shape) <= 1",
    .doc = "Element index; zeros when it was not set and its shape is known.",
    .shape = ShapeFunction<GetItemShape>,
    .gradient = GradientFunction<GetItemGradient>,
});

static void StackShape(ShapeContext& c) {
  const int64_t rows = c.Int("num_elements");
  c.SetOutput(0, Join({rows < 0 ? kUnknown : rows}, ElementShapeOf(c, 1)));
}
static void StackGradient(GradientContext& g) {
  g.SetDx(0, g.Op("TensorListFromTensor", {g.dy(0), KnownRowShape(g, g.dy(0))}));
}

TENON_OP(kTensorListStack) = DefineOp({
    .name = "TensorListStack",
    .inputs = "input_handle: variant, element_shape: int32",
    .outputs = "tensor: element_dtype",
    .attrs = "element_dtype: type; num_elements: int = -1",
    .constraints = "rank(input_handle) == 0; rank(element_shape) <= 1",
    .doc = "All elements, which have one shape, as the rows of a tensor.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<StackShape>,
    .gradient = GradientFunction<StackGradient>,
});

static void ListGatherShape(ShapeContext& c) { c.SetOutput(0, Join({c.WithRank(1, 1)[0]}, ElementShapeOf(c, 2))); }
static void ListGatherGradient(GradientContext& g) {
  g.SetDx(0, g.Op("TensorListScatterV2",
                  {g.dy(0), g.input(1), KnownRowShape(g, g.dy(0)), g.Op("TensorListLength", {g.input(0)})}));
}

TENON_OP(kTensorListGather) = DefineOp({
    .name = "TensorListGather",
    .inputs = "input_handle: variant, indices: int32, element_shape: int32",
    .outputs = "values: element_dtype",
    .attrs = "element_dtype: type",
    .constraints = "rank(input_handle) == 0; rank(indices) == 1; rank(element_shape) <= 1",
    .doc = "The elements indices, which have one shape, as the rows of a tensor.",
    .shape = ShapeFunction<ListGatherShape>,
    .gradient = GradientFunction<ListGatherGradient>,
});

static void ListConcatShape(ShapeContext& c) {
  const Shape element = ElementShapeOf(c, 1);
  if (element.known_rank() && element.rank() == 0)
    return c.Invalid("elements that are concatenated need a first dimension; element_shape is ", element);
  c.SetOutput(0, Join({kUnknown}, element.Slice(1)));
  c.SetOutput(1, {kUnknown});
}
static void ListConcatGradient(GradientContext& g) {
  g.SetDx(0, g.Op("TensorListSplit", {g.dy(0), AnyShape(g), g.output(1)}));
}

TENON_OP(kTensorListConcatV2) = DefineOp({
    .name = "TensorListConcatV2",
    .inputs = "input_handle: variant, element_shape: shape_type, leading_dims: int64",
    .outputs = "tensor: element_dtype, lengths: int64",
    .attrs = "element_dtype: type; shape_type: {int32, int64}",
    .constraints = "rank(input_handle) == 0; rank(element_shape) <= 1; rank(leading_dims) == 1",
    .doc = "All elements joined along their first dimension, and how many rows each has.",
    .shape = ShapeFunction<ListConcatShape>,
    .gradient = GradientFunction<ListConcatGradient>,
});

TENON_OP(kTensorListLength) = DefineOp({
    .name = "TensorListLength",
    .inputs = "input_handle: variant",
    .outputs = "length: int32",
    .constraints = "rank(input_handle) == 0",
    .doc = "How many elements the list has.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<HandleShape>,
});

// A vector or a scalar: the list says.
static void ShapeOfShape(ShapeContext&) {}

TENON_OP(kTensorListElementShape) = DefineOp({
    .name = "TensorListElementShape",
    .inputs = "input_handle: variant",
    .outputs = "element_shape: shape_type",
    .attrs = "shape_type: {int32, int64}",
    .constraints = "rank(input_handle) == 0",
    .doc = "The shape of the list's elements, as a vector in which -1 is any dimension; the scalar -1 for any rank.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ShapeOfShape>,
});

}  // namespace tenon::ops
