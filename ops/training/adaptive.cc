// SPDX-License-Identifier: Apache-2.0
// Steps whose size follows the gradients so far, each element its own: averages of squares, sums of them, the largest.
#include "apply.h"

namespace tenon::ops {
using namespace sdk;

TENON_OP(kApplyAdadelta) = DefineOp({
    .name = "ApplyAdadelta",
    .inputs = "var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(epsilon) == 0",
    .doc = "accum = rho * accum + (1 - rho) * grad^2; update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * "
           "grad; "
           "accum_update = rho * accum_update + (1 - rho) * update^2; var -= lr * update.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<3, 6>>,
});

TENON_OP(kResourceApplyAdadelta) = DefineOp({
    .name = "ResourceApplyAdadelta",
    .inputs = "var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(epsilon) == 0",
    .doc = "accum = rho * accum + (1 - rho) * grad^2; update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * "
           "grad; "
           "accum_update = rho * accum_update + (1 - rho) * update^2; var -= lr * update.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<3, 6>>,
});

TENON_OP(kSparseApplyAdadelta) = DefineOp({
    .name = "SparseApplyAdadelta",
    .inputs = "var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, grad: T, indices: Tindices",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(epsilon) == 0; rank(indices) == 1; dim(grad, 0) == "
                   "dim(indices, 0); element(indices) >= 0",
    .doc = "ApplyAdadelta for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<3, 6>>,
});

TENON_OP(kResourceSparseApplyAdadelta) = DefineOp({
    .name = "ResourceSparseApplyAdadelta",
    .inputs =
        "var: resource, accum: resource, accum_update: resource, lr: T, rho: T, epsilon: T, grad: T, indices: Tindices",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(epsilon) == 0; rank(indices) == 1; dim(grad, 0) == "
                   "dim(indices, 0); element(indices) >= 0",
    .doc = "ResourceApplyAdadelta for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<3, 6>>,
});

TENON_OP(kApplyAdagradV2) = DefineOp({
    .name = "ApplyAdagradV2",
    .inputs = "var: Ref(T), accum: Ref(T), lr: T, epsilon: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    .constraints = "rank(lr) == 0; rank(epsilon) == 0",
    .doc = "accum += grad * grad (if update_slots); var -= lr * grad / (sqrt(accum) + epsilon).",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<2, 4>>,
});

TENON_OP(kSparseApplyAdagradV2) = DefineOp({
    .name = "SparseApplyAdagradV2",
    .inputs = "var: Ref(T), accum: Ref(T), lr: T, epsilon: T, grad: T, indices: Tindices",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; update_slots: bool = true",
    .constraints =
        "rank(lr) == 0; rank(epsilon) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ApplyAdagradV2 for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<2, 4>>,
});

TENON_OP(kResourceSparseApplyAdagradV2) = DefineOp({
    .name = "ResourceSparseApplyAdagradV2",
    .inputs = "var: resource, accum: resource, lr: T, epsilon: T, grad: T, indices: Tindices",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; update_slots: bool = true",
    .constraints =
        "rank(lr) == 0; rank(epsilon) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ResourceApplyAdagradV2 for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<2, 4>>,
});

TENON_OP(kApplyCenteredRMSProp) = DefineOp({
    .name = "ApplyCenteredRMSProp",
    .inputs = "var: Ref(T), mg: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(momentum) == 0; rank(epsilon) == 0",
    .doc = "mg and ms are averages of grad and grad^2: mg += (grad - mg) * (1 - rho); ms += (grad * grad - ms) * (1 - "
           "rho); mom = "
           "momentum * mom + lr * grad / sqrt(ms - mg * mg + epsilon); var -= mom.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<4, 8>>,
});

TENON_OP(kResourceApplyCenteredRMSProp) = DefineOp({
    .name = "ResourceApplyCenteredRMSProp",
    .inputs =
        "var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(momentum) == 0; rank(epsilon) == 0",
    .doc = "mg and ms are averages of grad and grad^2: mg += (grad - mg) * (1 - rho); ms += (grad * grad - ms) * (1 - "
           "rho); mom = "
           "momentum * mom + lr * grad / sqrt(ms - mg * mg + epsilon); var -= mom.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<4, 8>>,
});

TENON_OP(kSparseApplyCenteredRMSProp) = DefineOp({
    .name = "SparseApplyCenteredRMSProp",
    .inputs = "var: Ref(T), mg: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T, "
              "indices: Tindices",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(momentum) == 0; rank(epsilon) == 0; rank(indices) == 1; "
                   "dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ApplyCenteredRMSProp for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<4, 8>>,
});

TENON_OP(kResourceSparseApplyCenteredRMSProp) = DefineOp({
    .name = "ResourceSparseApplyCenteredRMSProp",
    .inputs = "var: resource, mg: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: "
              "T, indices: Tindices",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(momentum) == 0; rank(epsilon) == 0; rank(indices) == 1; "
                   "dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ResourceApplyCenteredRMSProp for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<4, 8>>,
});

TENON_OP(kApplyAdaMax) = DefineOp({
    .name = "ApplyAdaMax",
    .inputs = "var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(beta1_power) == 0; rank(lr) == 0; rank(beta1) == 0; rank(beta2) == 0; rank(epsilon) == 0",
    .doc = "m += (grad - m) * (1 - beta1); v = max(beta2 * v, abs(grad)); var -= lr / (1 - beta1_power) * m / (v + "
           "epsilon).",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<3, 8>>,
});

TENON_OP(kResourceApplyAdaMax) = DefineOp({
    .name = "ResourceApplyAdaMax",
    .inputs = "var: resource, m: resource, v: resource, beta1_power: T, lr: T, beta1: T, beta2: T, epsilon: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(beta1_power) == 0; rank(lr) == 0; rank(beta1) == 0; rank(beta2) == 0; rank(epsilon) == 0",
    .doc = "m += (grad - m) * (1 - beta1); v = max(beta2 * v, abs(grad)); var -= lr / (1 - beta1_power) * m / (v + "
           "epsilon).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<3, 8>>,
});

TENON_OP(kResourceApplyAdamWithAmsgrad) = DefineOp({
    .name = "ResourceApplyAdamWithAmsgrad",
    .inputs = "var: resource, m: resource, v: resource, vhat: resource, beta1_power: T, beta2_power: T, lr: T, beta1: "
              "T, beta2: T, epsilon: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(beta1_power) == 0; rank(beta2_power) == 0; rank(lr) == 0; rank(beta1) == 0; rank(beta2) == 0; "
                   "rank(epsilon) == 0",
    .doc = "ResourceApplyAdam with the largest v so far under the root: vhat = max(vhat, v); var -= lr * sqrt(1 - "
           "beta2_power) / (1 "
           "- beta1_power) * m / (sqrt(vhat) + epsilon).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<4, 10>>,
});

}  // namespace tenon::ops
