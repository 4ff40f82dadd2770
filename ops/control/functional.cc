// SPDX-License-Identifier: Apache-2.0
// Conditionals and loops over functions of the graph's library. The engine makes switches, merges and frames of them
// before the step, and differentiates those.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

// What the attribute output_shapes says; false: nothing.
static bool TakeOutputShapes(ShapeContext& c) {
  const std::vector<Shape> shapes = c.Shapes("output_shapes");
  if (shapes.empty()) return false;
  if (static_cast<int>(shapes.size()) != c.output_count()) {
    c.Invalid("output_shapes has ", shapes.size(), " shapes for ", c.output_count(), " outputs");
    return true;
  }
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, shapes[static_cast<size_t>(i)]);
  return true;
}

static void BranchShape(ShapeContext& c) { TakeOutputShapes(c); }

// A variable keeps its shape, unless output_shapes says otherwise.
static void WhileShape(ShapeContext& c) {
  if (TakeOutputShapes(c)) return;
  for (int i = 0; i < c.output_count(); ++i) c.PassOn(i, i);
}

static constexpr const char* kIfAttrs =
    "Tcond: type; Tin: list(type); Tout: list(type); then_branch: func; else_branch: func; output_shapes: list(shape) "
    "= []";
static constexpr const char* kCaseAttrs =
    "Tin: list(type); Tout: list(type); branches: list(func) >= 1; output_shapes: list(shape) = []";
static constexpr const char* kWhileAttrs =
    "T: list(type); cond: func; body: func; output_shapes: list(shape) = []; parallel_iterations: int = 10";

TENON_OP(kIf) = DefineOp({
    .name = "If",
    .inputs = "cond: Tcond, input: Tin",
    .outputs = "output: Tout",
    .attrs = kIfAttrs,
    .doc = "The results of then_branch(input) where cond holds, else of else_branch(input).",
    .traits = TENON_OP_BRANCH | TENON_OP_STATEFUL,
    .shape = ShapeFunction<BranchShape>,
});

TENON_OP(kStatelessIf) = DefineOp({
    .name = "StatelessIf",
    .inputs = "cond: Tcond, input: Tin",
    .outputs = "output: Tout",
    .attrs = kIfAttrs,
    .doc = "If, of branches without side effects.",
    .traits = TENON_OP_BRANCH,
    .shape = ShapeFunction<BranchShape>,
});

TENON_OP(kCase) = DefineOp({
    .name = "Case",
    .inputs = "branch_index: int32, input: Tin",
    .outputs = "output: Tout",
    .attrs = kCaseAttrs,
    .doc = "The results of branches[branch_index](input); of the last branch where there is none of that index.",
    .traits = TENON_OP_BRANCH | TENON_OP_STATEFUL,
    .shape = ShapeFunction<BranchShape>,
});

TENON_OP(kStatelessCase) = DefineOp({
    .name = "StatelessCase",
    .inputs = "branch_index: int32, input: Tin",
    .outputs = "output: Tout",
    .attrs = kCaseAttrs,
    .doc = "Case, of branches without side effects.",
    .traits = TENON_OP_BRANCH,
    .shape = ShapeFunction<BranchShape>,
});

TENON_OP(kWhile) = DefineOp({
    .name = "While",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = kWhileAttrs,
    .doc = "What input becomes: while cond(input), input = body(input).",
    .traits = TENON_OP_WHILE | TENON_OP_STATEFUL,
    .shape = ShapeFunction<WhileShape>,
});

TENON_OP(kStatelessWhile) = DefineOp({
    .name = "StatelessWhile",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = kWhileAttrs,
    .doc = "While, of functions without side effects.",
    .traits = TENON_OP_WHILE,
    .shape = ShapeFunction<WhileShape>,
});

}  // namespace tenon::ops
