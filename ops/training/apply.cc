// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer on a variable, in two forms: Apply... on reference variables, and ResourceApply...
// on handles. The variable and its slots are changed together; all have the gradient's shape.
#include "apply.h"

namespace tenon::ops {
using namespace sdk;

TENON_OP(kApplyGradientDescent) = DefineOp({
    .name = "ApplyGradientDescent",
    .inputs = "var: Ref(T), alpha: T, delta: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(alpha) == 0",
    .doc = "var -= alpha * delta.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<1, 2>>,
});

TENON_OP(kResourceApplyGradientDescent) = DefineOp({
    .name = "ResourceApplyGradientDescent",
    .inputs = "var: resource, alpha: T, delta: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(alpha) == 0",
    .doc = "var -= alpha * delta.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<1, 2>>,
});

TENON_OP(kApplyMomentum) = DefineOp({
    .name = "ApplyMomentum",
    .inputs = "var: Ref(T), accum: Ref(T), lr: T, grad: T, momentum: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    .constraints = "rank(lr) == 0; rank(momentum) == 0",
    .doc = "accum = momentum * accum + grad; var -= lr * accum (with Nesterov: lr * (grad + momentum * accum)).",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<2, 3>>,
});

TENON_OP(kResourceApplyMomentum) = DefineOp({
    .name = "ResourceApplyMomentum",
    .inputs = "var: resource, accum: resource, lr: T, grad: T, momentum: T",
    .attrs = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    .constraints = "rank(lr) == 0; rank(momentum) == 0",
    .doc = "accum = momentum * accum + grad; var -= lr * accum (with Nesterov: lr * (grad + momentum * accum)).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<2, 3>>,
});

TENON_OP(kApplyAdam) = DefineOp({
    .name = "ApplyAdam",
    .inputs = "var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, "
              "epsilon: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    .constraints = "rank(beta1_power) == 0; rank(beta2_power) == 0; rank(lr) == 0; rank(beta1) == 0; "
                   "rank(beta2) == 0; rank(epsilon) == 0",
    .doc = "m += (grad - m) * (1 - beta1); v += (grad * grad - v) * (1 - beta2); "
           "var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon).",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<3, 9>>,
});

TENON_OP(kResourceApplyAdam) = DefineOp({
    .name = "ResourceApplyAdam",
    .inputs = "var: resource, m: resource, v: resource, beta1_power: T, beta2_power: T, lr: T, beta1: T, beta2: T, "
              "epsilon: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    .constraints = "rank(beta1_power) == 0; rank(beta2_power) == 0; rank(lr) == 0; rank(beta1) == 0; "
                   "rank(beta2) == 0; rank(epsilon) == 0",
    .doc = "m += (grad - m) * (1 - beta1); v += (grad * grad - v) * (1 - beta2); "
           "var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<3, 9>>,
});

TENON_OP(kApplyAdagrad) = DefineOp({
    .name = "ApplyAdagrad",
    .inputs = "var: Ref(T), accum: Ref(T), lr: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    .constraints = "rank(lr) == 0",
    .doc = "accum += grad * grad (if update_slots); var -= lr * grad / sqrt(accum).",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<2, 3>>,
});

TENON_OP(kResourceApplyAdagrad) = DefineOp({
    .name = "ResourceApplyAdagrad",
    .inputs = "var: resource, accum: resource, lr: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    .constraints = "rank(lr) == 0",
    .doc = "accum += grad * grad (if update_slots); var -= lr * grad / sqrt(accum).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<2, 3>>,
});

TENON_OP(kResourceSparseApplyAdagrad) = DefineOp({
    .name = "ResourceSparseApplyAdagrad",
    .inputs = "var: resource, accum: resource, lr: T, grad: T, indices: Tindices",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; update_slots: bool = true",
    .constraints = "rank(lr) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ResourceApplyAdagrad for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<2, 3>>,
});

TENON_OP(kSparseApplyAdagrad) = DefineOp({
    .name = "SparseApplyAdagrad",
    .inputs = "var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; update_slots: bool = true",
    .constraints = "rank(lr) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ApplyAdagrad for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<2, 3>>,
});

TENON_OP(kResourceApplyAdagradV2) = DefineOp({
    .name = "ResourceApplyAdagradV2",
    .inputs = "var: resource, accum: resource, lr: T, epsilon: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false; update_slots: bool = true",
    .constraints = "rank(lr) == 0; rank(epsilon) == 0",
    .doc = "accum += grad * grad (if update_slots); var -= lr * grad / (sqrt(accum) + epsilon).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<2, 4>>,
});

TENON_OP(kSparseApplyMomentum) = DefineOp({
    .name = "SparseApplyMomentum",
    .inputs = "var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices, momentum: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; use_nesterov: bool = false",
    .constraints = "rank(lr) == 0; rank(momentum) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); "
                   "element(indices) >= 0",
    .doc = "ApplyMomentum for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<2, 3>>,
});

TENON_OP(kResourceSparseApplyMomentum) = DefineOp({
    .name = "ResourceSparseApplyMomentum",
    .inputs = "var: resource, accum: resource, lr: T, grad: T, indices: Tindices, momentum: T",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; use_nesterov: bool = false",
    .constraints = "rank(lr) == 0; rank(momentum) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); "
                   "element(indices) >= 0",
    .doc = "ResourceApplyMomentum for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<2, 3>>,
});

TENON_OP(kResourceApplyKerasMomentum) = DefineOp({
    .name = "ResourceApplyKerasMomentum",
    .inputs = "var: resource, accum: resource, lr: T, grad: T, momentum: T",
    .attrs = "T: numbertype; use_locking: bool = false; use_nesterov: bool = false",
    .constraints = "rank(lr) == 0; rank(momentum) == 0",
    .doc = "accum = momentum * accum - lr * grad; var += accum (with Nesterov: momentum * accum - lr * grad).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<2, 3>>,
});

TENON_OP(kResourceSparseApplyKerasMomentum) = DefineOp({
    .name = "ResourceSparseApplyKerasMomentum",
    .inputs = "var: resource, accum: resource, lr: T, grad: T, indices: Tindices, momentum: T",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; use_nesterov: bool = false",
    .constraints = "rank(lr) == 0; rank(momentum) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); "
                   "element(indices) >= 0",
    .doc = "ResourceApplyKerasMomentum for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<2, 3>>,
});

TENON_OP(kApplyRMSProp) = DefineOp({
    .name = "ApplyRMSProp",
    .inputs = "var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(momentum) == 0; rank(epsilon) == 0",
    .doc = "ms += (grad * grad - ms) * (1 - rho); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<3, 7>>,
});

TENON_OP(kResourceApplyRMSProp) = DefineOp({
    .name = "ResourceApplyRMSProp",
    .inputs = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(momentum) == 0; rank(epsilon) == 0",
    .doc = "ms += (grad * grad - ms) * (1 - rho); mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<3, 7>>,
});

TENON_OP(kSparseApplyRMSProp) = DefineOp({
    .name = "SparseApplyRMSProp",
    .inputs =
        "var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: Tindices",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(momentum) == 0; rank(epsilon) == 0; rank(indices) == 1; "
                   "dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ApplyRMSProp for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<3, 7>>,
});

TENON_OP(kResourceSparseApplyRMSProp) = DefineOp({
    .name = "ResourceSparseApplyRMSProp",
    .inputs = "var: resource, ms: resource, mom: resource, lr: T, rho: T, momentum: T, epsilon: T, grad: T, indices: "
              "Tindices",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(rho) == 0; rank(momentum) == 0; rank(epsilon) == 0; rank(indices) == 1; "
                   "dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ResourceApplyRMSProp for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<3, 7>>,
});

TENON_OP(kApplyFtrl) = DefineOp({
    .name = "ApplyFtrl",
    .inputs = "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, lr_power: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(lr_power) == 0",
    .doc = "Follow the regularized leader: var from the sums of gradients (linear) and of their squares (accum), with "
           "L1 and L2 penalties.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<3, 3>>,
});

TENON_OP(kSparseApplyFtrl) = DefineOp({
    .name = "SparseApplyFtrl",
    .inputs =
        "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, indices: Tindices, lr: T, l1: T, l2: T, lr_power: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(lr_power) == 0; rank(indices) == 1; "
                   "dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ApplyFtrl for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<3, 3>>,
});

TENON_OP(kResourceApplyFtrl) = DefineOp({
    .name = "ResourceApplyFtrl",
    .inputs = "var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: T, lr_power: T",
    .attrs = "T: numbertype; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(lr_power) == 0",
    .doc = "Follow the regularized leader: var from the sums of gradients (linear) and of their squares (accum), with "
           "L1 and L2 penalties.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<3, 3>>,
});

TENON_OP(kResourceSparseApplyFtrl) = DefineOp({
    .name = "ResourceSparseApplyFtrl",
    .inputs = "var: resource, accum: resource, linear: resource, grad: T, indices: Tindices, lr: T, l1: T, l2: T, "
              "lr_power: T",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(lr_power) == 0; rank(indices) == 1; "
                   "dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ResourceApplyFtrl for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<3, 3>>,
});

}  // namespace tenon::ops
