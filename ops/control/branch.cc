// SPDX-License-Identifier: Apache-2.0
// Switch and Merge: the two ends of a branch. Their gradients are the engine's, by trait.
#include "tenon/sdk/op.h"

namespace tenon::ops {
using namespace sdk;

static void SwitchShape(ShapeContext& c) {
  c.WithRank(1, 0);
  c.PassOn(0, 0);
  c.PassOn(1, 0);
}

// The dims in which all inputs agree.
static void MergeShape(ShapeContext& c) {
  c.SetOutput(1, Shape::Scalar());
  Shape out = c.Input(0);
  for (int i = 1; i < c.input_count(); ++i) {
    const Shape shape = c.Input(i);
    if (shape.rank() != out.rank()) out = Shape();
    for (int d = 0; d < out.rank(); ++d) {
      if (out[d] != shape[d]) out.Set(d, kUnknown);
    }
  }
  c.SetOutput(0, out);
}

extern const tenon_op_definition kSwitch = DefineOp({
    .name = "Switch",
    .inputs = "data: T, pred: bool",
    .outputs = "output_false: T, output_true: T",
    .attrs = "T: type",
    .constraints = "rank(pred) == 0",
    .roles = "switch",
    .doc = "Gives data to one of two outputs, which pred says; the other is dead.",
    .traits = TENON_OP_SWITCH,
    .shape = ShapeFunction<SwitchShape>,
});

extern const tenon_op_definition kRefSwitch = DefineOp({
    .name = "RefSwitch",
    .inputs = "data: Ref(T), pred: bool",
    .outputs = "output_false: Ref(T), output_true: Ref(T)",
    .attrs = "T: type",
    .constraints = "rank(pred) == 0",
    .doc = "Switch for a reference to a variable.",
    .traits = TENON_OP_SWITCH | TENON_OP_UNINITIALIZED,
    .shape = ShapeFunction<SwitchShape>,
});

extern const tenon_op_definition kMerge = DefineOp({
    .name = "Merge",
    .inputs = "inputs: N * T",
    .outputs = "output: T, value_index: int32",
    .attrs = "T: type; N: int >= 1",
    .roles = "merge",
    .doc = "Gives the one input that is alive, and its index.",
    .traits = TENON_OP_MERGE,
    .shape = ShapeFunction<MergeShape>,
});

extern const tenon_op_definition kRefMerge = DefineOp({
    .name = "RefMerge",
    .inputs = "inputs: Ref(N * T)",
    .outputs = "output: Ref(T), value_index: int32",
    .attrs = "T: type; N: int >= 1",
    .doc = "Merge for references to variables.",
    .traits = TENON_OP_MERGE,
    .shape = ShapeFunction<MergeShape>,
});

}  // namespace tenon::ops
