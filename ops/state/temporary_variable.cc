// SPDX-License-Identifier: Apache-2.0
// Variables of one step: made, changed by reference, and taken apart again. Each run of the node makes another one, in
// each turn of a loop too.
#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/op/decomposition.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct MakeTemporary {
  explicit MakeTemporary(CreateContext& c) {
    const Shape shape = c.ShapeAttr("shape");
    if (c.ok() && !shape.fully_known()) c.Invalid("shape ", shape, " is not fully known");
  }
  void Run(RunContext c) const {
    Check(c.services().step_resource(c.frame(), ToSpan("temporary variable"), c.output<tenon_resource*>(0)));
  }
};

}  // namespace

TENON_KERNEL(kTemporaryVariableKernel) = Registration<MakeTemporary>("TemporaryVariable",
                                                                     {.flags = TENON_KERNEL_DETERMINISTIC |
                                                                               TENON_KERNEL_STATEFUL});

static void TemporaryShape(ShapeContext& c) {
  const Shape shape = c.ShapeAttr("shape");
  c.SetOutput(0, shape);
  c.SetOutputHandle(0, shape, c.Type("dtype"));
}

TENON_OP(kTemporaryVariable) = DefineOp({
    .name = "TemporaryVariable",
    .outputs = "ref: Ref(dtype)",
    .attrs = "shape: shape; dtype: type; var_name: string = ''",
    .doc = "A reference to a new variable that ends with the step. It has no value before it is assigned one. var_name "
           "is for people: the reference "
           "alone says which variable is meant.",
    .traits = TENON_OP_STATEFUL,
    .shape = ShapeFunction<TemporaryShape>,
});

static void DestroyTemporaryShape(ShapeContext& c) { c.SetOutput(0, c.Input(0)); }

// The value, wherever the variable lies; its memory is the step's until somebody else has no use for it.
static void DecomposeDestroyTemporary(DecomposeContext& d) { d.SetOutput(0, d.Op("Identity", {d.input(0)})); }

TENON_OP(kDestroyTemporaryVariable) = DefineOp({
    .name = "DestroyTemporaryVariable",
    .inputs = "ref: Ref(T)",
    .outputs = "value: T",
    .attrs = "T: type; var_name: string",
    .doc = "The value that a TemporaryVariable has in the end. It must run after all that uses the reference: control "
           "edges say so. var_name is for people.",
    .traits = TENON_OP_WRITES_STATE,
    .shape = ShapeFunction<DestroyTemporaryShape>,
    .decompose = DecomposeFunction<DecomposeDestroyTemporary>,
});

}  // namespace tenon::ops
