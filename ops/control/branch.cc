// SPDX-License-Identifier: Apache-2.0
// Switch and Merge: the two ends of a branch. Their gradients are the engine's, by trait.
#include "tenon/sdk/op/op.h"

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

TENON_OP(kSwitch) = DefineOp({
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

static void SwitchNShape(ShapeContext& c) {
  c.WithRank(1, 0);
  for (int i = 0; i < c.output_count(); ++i) c.PassOn(i, 0);
}

// Output i is alive when the index is i; the last one also for an index that no output has.
static void DecomposeSwitchN(DecomposeContext& d) {
  const Output index = d.input(1);
  const int last = d.output_count() - 1;
  Output none = d.Op("Less", {index, d.Number(0)});  // of the outputs before the last is it
  none = d.Op("LogicalOr", {none, d.Op("GreaterEqual", {index, d.Number(last)})});
  for (int i = 0; i <= last; ++i) {
    const Output taken = i == last ? none : d.Op("Equal", {index, d.Number(i)});
    d.SetOutput(i, {d.Node("Switch", {d.input(0), taken}), 1, 0});
  }
}

TENON_OP(kSwitchN) = DefineOp({
    .name = "_SwitchN",
    .inputs = "data: T, output_index: int32",
    .outputs = "outputs: num_outs * T",
    .attrs = "num_outs: int >= 1; T: type",
    .constraints = "rank(output_index) == 0",
    .doc = "Gives data to the output that output_index says, the last for an index that there is not; the others are "
           "dead.",
    .shape = ShapeFunction<SwitchNShape>,
    .decompose = DecomposeFunction<DecomposeSwitchN>,
});

TENON_OP(kRefSwitch) = DefineOp({
    .name = "RefSwitch",
    .inputs = "data: Ref(T), pred: bool",
    .outputs = "output_false: Ref(T), output_true: Ref(T)",
    .attrs = "T: type",
    .constraints = "rank(pred) == 0",
    .doc = "Switch for a reference to a variable.",
    .traits = TENON_OP_SWITCH | TENON_OP_UNINITIALIZED,
    .shape = ShapeFunction<SwitchShape>,
});

TENON_OP(kMerge) = DefineOp({
    .name = "Merge",
    .inputs = "inputs: N * T",
    .outputs = "output: T, value_index: int32",
    .attrs = "T: type; N: int >= 1",
    .roles = "merge",
    .doc = "Gives the one input that is alive, and its index.",
    .traits = TENON_OP_MERGE,
    .shape = ShapeFunction<MergeShape>,
});

TENON_OP(kRefMerge) = DefineOp({
    .name = "RefMerge",
    .inputs = "inputs: Ref(N * T)",
    .outputs = "output: Ref(T), value_index: int32",
    .attrs = "T: type; N: int >= 1",
    .doc = "Merge for references to variables.",
    .traits = TENON_OP_MERGE,
    .shape = ShapeFunction<MergeShape>,
});

}  // namespace tenon::ops
