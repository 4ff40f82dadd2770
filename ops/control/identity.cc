// SPDX-License-Identifier: Apache-2.0
// Identities: values pass through; what differs is what becomes of the gradient.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void IdentityShape(ShapeContext& c) {
  for (int i = 0; i < c.output_count(); ++i) c.PassOn(i, i);
}

TENON_OP(kIdentity) = DefineOp({
    .name = "Identity",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: type",
    .roles = "identity",
    .doc = "The input, unchanged.",
    .properties = "view(input), fits_half",
    .traits = TENON_OP_IDENTITY,
    .shape = ShapeFunction<IdentityShape>,
    .gradient = GradientFunction<PassOnGradient>,
});

TENON_OP(kRefIdentity) = DefineOp({
    .name = "RefIdentity",
    .inputs = "input: Ref(T)",
    .outputs = "output: Ref(T)",
    .attrs = "T: type",
    .doc = "The reference to a variable, unchanged.",
    .traits = TENON_OP_IDENTITY | TENON_OP_UNINITIALIZED,
    .shape = ShapeFunction<IdentityShape>,
    .gradient = GradientFunction<PassOnGradient>,
});

TENON_OP(kIdentityN) = DefineOp({
    .name = "IdentityN",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: list(type) >= 1",
    .roles = "identity_n",
    .doc = "All inputs, unchanged: none is available before the last.",
    .traits = TENON_OP_IDENTITY,
    .shape = ShapeFunction<IdentityShape>,
    .gradient = GradientFunction<PassOnGradient>,
});

TENON_OP(kStopGradient) = DefineOp({
    .name = "StopGradient",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: type",
    .doc = "The input, unchanged; gradients see a constant.",
    .properties = "view(input), fits_half",
    .traits = TENON_OP_IDENTITY | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<IdentityShape>,
});

static void PreventGradientGradient(GradientContext& g) {
  g.Fail(TENON_UNIMPLEMENTED, "a gradient was asked for through a node that refuses it: ", g.String("message"));
}

TENON_OP(kPreventGradient) = DefineOp({
    .name = "PreventGradient",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: type; message: string = ''",
    .doc = "The input, unchanged; asking for its gradient is an error with the given message.",
    .properties = "view(input)",
    .traits = TENON_OP_IDENTITY,
    .shape = ShapeFunction<IdentityShape>,
    .gradient = GradientFunction<PreventGradientGradient>,
});

}  // namespace tenon::ops
