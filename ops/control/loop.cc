// SPDX-License-Identifier: Apache-2.0
// The edges of a loop's frame. Their gradients are the engine's, by trait.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void PassOnShape(ShapeContext& c) { c.PassOn(0, 0); }

static void LoopCondShape(ShapeContext& c) {
  c.WithRank(0, 0);
  c.SetOutput(0, Shape::Scalar());
}

TENON_OP(kEnter) = DefineOp({
    .name = "Enter",
    .inputs = "data: T",
    .outputs = "output: T",
    .attrs = "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10",
    .roles = "enter",
    .doc = "Brings a value into the frame of a loop: to its first iteration, or to all if is_constant.",
    .traits = TENON_OP_ENTER,
    .shape = ShapeFunction<PassOnShape>,
});

TENON_OP(kRefEnter) = DefineOp({
    .name = "RefEnter",
    .inputs = "data: Ref(T)",
    .outputs = "output: Ref(T)",
    .attrs = "T: type; frame_name: string; is_constant: bool = false; parallel_iterations: int = 10",
    .doc = "Enter for a reference to a variable.",
    .traits = TENON_OP_ENTER,
    .shape = ShapeFunction<PassOnShape>,
});

TENON_OP(kExit) = DefineOp({
    .name = "Exit",
    .inputs = "data: T",
    .outputs = "output: T",
    .attrs = "T: type",
    .roles = "exit",
    .doc = "Brings a value out of the frame of a loop.",
    .traits = TENON_OP_EXIT,
    .shape = ShapeFunction<PassOnShape>,
});

TENON_OP(kRefExit) = DefineOp({
    .name = "RefExit",
    .inputs = "data: Ref(T)",
    .outputs = "output: Ref(T)",
    .attrs = "T: type",
    .doc = "Exit for a reference to a variable.",
    .traits = TENON_OP_EXIT,
    .shape = ShapeFunction<PassOnShape>,
});

TENON_OP(kNextIteration) = DefineOp({
    .name = "NextIteration",
    .inputs = "data: T",
    .outputs = "output: T",
    .attrs = "T: type",
    .roles = "next_iteration",
    .doc = "Gives a value to the loop's next iteration.",
    .traits = TENON_OP_NEXT_ITERATION,
    .shape = ShapeFunction<PassOnShape>,
});

TENON_OP(kRefNextIteration) = DefineOp({
    .name = "RefNextIteration",
    .inputs = "data: Ref(T)",
    .outputs = "output: Ref(T)",
    .attrs = "T: type",
    .doc = "NextIteration for a reference to a variable.",
    .traits = TENON_OP_NEXT_ITERATION,
    .shape = ShapeFunction<PassOnShape>,
});

TENON_OP(kLoopCond) = DefineOp({
    .name = "LoopCond",
    .inputs = "input: bool",
    .outputs = "output: bool",
    .constraints = "rank(input) == 0",
    .roles = "loop_condition",
    .doc = "Marks the condition on which a loop goes on.",
    .traits = TENON_OP_IDENTITY | TENON_OP_LOOP_CONDITION | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<LoopCondShape>,
});

}  // namespace tenon::ops
