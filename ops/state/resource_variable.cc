// SPDX-License-Identifier: Apache-2.0
// Resource variables: a handle to a variable, and reads whose values no later write changes.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void VarHandleShape(ShapeContext& c) {
  c.SetOutput(0, Shape::Scalar());
  c.SetOutputHandle(0, c.ShapeAttr("shape"), c.Type("dtype"));
}

TENON_OP(kVarHandleOp) = DefineOp({
    .name = "VarHandleOp",
    .outputs = "resource: resource",
    .attrs = "container: string = ''; shared_name: string = ''; debug_name: string = ''; dtype: type; shape: shape; "
             "allowed_devices: list(string) = []",
    .roles = "variable_handle",
    .doc = "A handle to the variable shared_name of the container.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<VarHandleShape>,
});

// The variable's shape, which `value` must fit. The dtype must be the variable's where it is known.
static Shape CheckVariable(ShapeContext& c, const Shape& value) {
  c.WithRank(0, 0);
  const ShapeContext::Handle handle = c.InputHandle(0);
  const uint32_t dtype = c.Type("dtype");
  if (handle.dtype != TENON_DT_INVALID && c.ok() && BaseType(handle.dtype) != dtype) {
    c.Invalid("the variable is of type ", TypeName(handle.dtype), ", but 'dtype' says ", TypeName(dtype));
  }
  return c.Merge(handle.shape, value, "the shapes of the variable and the value");
}

static void ReadShape(ShapeContext& c) { c.SetOutput(0, CheckVariable(c, Shape())); }
static void WriteShape(ShapeContext& c) { CheckVariable(c, c.Input(1)); }

TENON_OP(kReadVariableOp) = DefineOp({
    .name = "ReadVariableOp",
    .inputs = "resource: resource",
    .outputs = "value: dtype",
    .attrs = "dtype: type",
    .roles = "read_variable",
    .doc = "The variable's value now.",
    .properties = "reads_state",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<ReadShape>,
    .gradient = GradientFunction<PassOnGradient>,
});

TENON_OP(kAssignVariableOp) = DefineOp({
    .name = "AssignVariableOp",
    .inputs = "resource: resource, value: dtype",
    .attrs = "dtype: type; validate_shape: bool = false",
    .doc = "Gives the variable a value, and makes it at the first time.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<WriteShape>,
});

TENON_OP(kAssignAddVariableOp) = DefineOp({
    .name = "AssignAddVariableOp",
    .inputs = "resource: resource, value: dtype",
    .attrs = "dtype: type",
    .doc = "Adds the value to the variable.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<WriteShape>,
});

TENON_OP(kAssignSubVariableOp) = DefineOp({
    .name = "AssignSubVariableOp",
    .inputs = "resource: resource, value: dtype",
    .attrs = "dtype: type",
    .doc = "Subtracts the value from the variable.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<WriteShape>,
});

TENON_OP(kVarIsInitializedOp) = DefineOp({
    .name = "VarIsInitializedOp",
    .inputs = "resource: resource",
    .outputs = "is_initialized: bool",
    .doc = "Whether the variable has a value.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

static void VariableShapeShape(ShapeContext& c) {
  const Shape variable = c.InputHandle(0).shape;
  c.SetOutput(0, {variable.known_rank() ? variable.rank() : kUnknown});
}

TENON_OP(kVariableShape) = DefineOp({
    .name = "VariableShape",
    .inputs = "input: resource",
    .outputs = "output: out_type",
    .attrs = "out_type: {int32, int64} = int32",
    .doc = "The shape that the variable's value has now.",
    .traits = TENON_OP_STATEFUL | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<VariableShapeShape>,
});

TENON_OP(kDisableCopyOnRead) = DefineOp({
    .name = "DisableCopyOnRead",
    .inputs = "resource: resource",
    .doc = "Does nothing to a variable that has a value: no read copies here, and no write changes what was read.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kDestroyResourceOp) = DefineOp({
    .name = "DestroyResourceOp",
    .inputs = "resource: resource",
    .attrs = "ignore_lookup_error: bool = true",
    .doc = "Removes what the handle refers to; an error if nothing is there and ignore_lookup_error is not set.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE,
});

}  // namespace tenon::ops
