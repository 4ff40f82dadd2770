// SPDX-License-Identifier: Apache-2.0
// Reference variables: the output is the variable itself, and writers change it in place.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void VariableV2Shape(ShapeContext& c) {
  const Shape shape = c.ShapeAttr("shape");
  c.SetOutput(0, shape);
  c.SetOutputHandle(0, shape, c.Type("dtype"));
}

// The old op writes an unknown shape as a scalar's.
static void VariableShape(ShapeContext& c) {
  Shape shape = c.ShapeAttr("shape");
  if (shape.rank() == 0) shape = Shape();
  c.SetOutput(0, shape);
  c.SetOutputHandle(0, shape, c.Type("dtype"));
}

TENON_OP(kVariableV2) = DefineOp({
    .name = "VariableV2",
    .outputs = "ref: Ref(dtype)",
    .attrs = "shape: shape; dtype: type; container: string = ''; shared_name: string = ''",
    .roles = "reference_variable",
    .doc = "A reference to the variable of the given name (the node's own if shared_name is empty).",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<VariableV2Shape>,
});

TENON_OP(kVariable) = DefineOp({
    .name = "Variable",
    .outputs = "ref: Ref(dtype)",
    .attrs = "shape: shape; dtype: type; container: string = ''; shared_name: string = ''",
    .roles = "reference_variable",
    .doc = "VariableV2 as old graphs write it; a shape without dims is unknown.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<VariableShape>,
});

static void AssignShape(ShapeContext& c) {
  const Shape value = c.Input(1);
  const Shape shape =
      c.Bool("validate_shape") ? c.Merge(c.Input(0), value, "the shapes of the variable and the value") : value;
  c.SetOutput(0, shape);
  c.SetOutputHandle(0, shape, c.input_type(0));
}

TENON_OP(kAssign) = DefineOp({
    .name = "Assign",
    .inputs = "ref: Ref(T), value: T",
    .outputs = "output_ref: Ref(T)",
    .attrs = "T: type; validate_shape: bool = true; use_locking: bool = true",
    .doc = "Gives the variable a value; without validate_shape it may be of another shape.",
    .traits = TENON_OP_UNINITIALIZED | TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<AssignShape>,
});

static void UpdateShape(ShapeContext& c) {
  const Shape shape = c.Merge(c.Input(0), c.Input(1), "the shapes of the variable and the value");
  c.SetOutput(0, shape);
  c.SetOutputHandle(0, shape, c.input_type(0));
}

TENON_OP(kAssignAdd) = DefineOp({
    .name = "AssignAdd",
    .inputs = "ref: Ref(T), value: T",
    .outputs = "output_ref: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .doc = "Adds the value to the variable.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<UpdateShape>,
});

TENON_OP(kAssignSub) = DefineOp({
    .name = "AssignSub",
    .inputs = "ref: Ref(T), value: T",
    .outputs = "output_ref: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .doc = "Subtracts the value from the variable.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<UpdateShape>,
});

TENON_OP(kIsVariableInitialized) = DefineOp({
    .name = "IsVariableInitialized",
    .inputs = "ref: Ref(dtype)",
    .outputs = "is_initialized: bool",
    .attrs = "dtype: type",
    .doc = "Whether the variable has a value.",
    .traits = TENON_OP_UNINITIALIZED,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
