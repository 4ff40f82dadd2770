// SPDX-License-Identifier: Apache-2.0
// Steps that are longer where the gradient and its average have one sign.
#include "apply.h"

namespace tenon::ops {
using namespace sdk;

TENON_OP(kApplyAddSign) = DefineOp({
    .name = "ApplyAddSign",
    .inputs = "var: Ref(T), m: Ref(T), lr: T, alpha: T, sign_decay: T, beta: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(alpha) == 0; rank(sign_decay) == 0; rank(beta) == 0",
    .doc = "m = beta * m + (1 - beta) * grad; var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<2, 6>>,
});

TENON_OP(kResourceApplyAddSign) = DefineOp({
    .name = "ResourceApplyAddSign",
    .inputs = "var: resource, m: resource, lr: T, alpha: T, sign_decay: T, beta: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(alpha) == 0; rank(sign_decay) == 0; rank(beta) == 0",
    .doc = "m = beta * m + (1 - beta) * grad; var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<2, 6>>,
});

TENON_OP(kApplyPowerSign) = DefineOp({
    .name = "ApplyPowerSign",
    .inputs = "var: Ref(T), m: Ref(T), lr: T, logbase: T, sign_decay: T, beta: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(logbase) == 0; rank(sign_decay) == 0; rank(beta) == 0",
    .doc = "m = beta * m + (1 - beta) * grad; var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<2, 6>>,
});

TENON_OP(kResourceApplyPowerSign) = DefineOp({
    .name = "ResourceApplyPowerSign",
    .inputs = "var: resource, m: resource, lr: T, logbase: T, sign_decay: T, beta: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(logbase) == 0; rank(sign_decay) == 0; rank(beta) == 0",
    .doc = "m = beta * m + (1 - beta) * grad; var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<2, 6>>,
});

}  // namespace tenon::ops
