// SPDX-License-Identifier: Apache-2.0
// Complex numbers and their parts.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ConjGradient(GradientContext& g) { g.SetDx(0, g.Conj(g.dy(0))); }
TENON_OP(kConj) = DefineOp({
    .name = "Conj",
    .inputs = "input: T",
    .outputs = "output: T",
    .attrs = "T: {complex64, complex128, variant} = complex64",
    .doc = "The complex conjugate.",
    .shape = ShapeFunction<SameShape>,
    .gradient = GradientFunction<ConjGradient>,
});

}  // namespace tenon::ops
