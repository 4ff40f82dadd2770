// SPDX-License-Identifier: Apache-2.0
// Steps with penalties: l1 makes elements 0, l2 makes them small.
#include "apply.h"

namespace tenon::ops {
using namespace sdk;

TENON_OP(kApplyProximalGradientDescent) = DefineOp({
    .name = "ApplyProximalGradientDescent",
    .inputs = "var: Ref(T), alpha: T, l1: T, l2: T, delta: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(alpha) == 0; rank(l1) == 0; rank(l2) == 0",
    .doc = "v = var - alpha * delta; var = sign(v) * max(abs(v) - alpha * l1, 0) / (1 + alpha * l2).",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<1, 4>>,
});

TENON_OP(kResourceApplyProximalGradientDescent) = DefineOp({
    .name = "ResourceApplyProximalGradientDescent",
    .inputs = "var: resource, alpha: T, l1: T, l2: T, delta: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(alpha) == 0; rank(l1) == 0; rank(l2) == 0",
    .doc = "v = var - alpha * delta; var = sign(v) * max(abs(v) - alpha * l1, 0) / (1 + alpha * l2).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<1, 4>>,
});

TENON_OP(kSparseApplyProximalGradientDescent) = DefineOp({
    .name = "SparseApplyProximalGradientDescent",
    .inputs = "var: Ref(T), alpha: T, l1: T, l2: T, grad: T, indices: Tindices",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(alpha) == 0; rank(l1) == 0; rank(l2) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, "
                   "0); element(indices) >= 0",
    .doc = "ApplyProximalGradientDescent for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<1, 4>>,
});

TENON_OP(kResourceSparseApplyProximalGradientDescent) = DefineOp({
    .name = "ResourceSparseApplyProximalGradientDescent",
    .inputs = "var: resource, alpha: T, l1: T, l2: T, grad: T, indices: Tindices",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(alpha) == 0; rank(l1) == 0; rank(l2) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, "
                   "0); element(indices) >= 0",
    .doc = "ResourceApplyProximalGradientDescent for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<1, 4>>,
});

TENON_OP(kApplyProximalAdagrad) = DefineOp({
    .name = "ApplyProximalAdagrad",
    .inputs = "var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0",
    .doc = "accum += grad * grad; rate = lr / sqrt(accum); v = var - rate * grad; var = sign(v) * max(abs(v) - rate * "
           "l1, 0) / (1 + "
           "rate * l2). INVALID_ARGUMENT unless lr is positive and l1 and l2 are not negative.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<2, 5>>,
});

TENON_OP(kResourceApplyProximalAdagrad) = DefineOp({
    .name = "ResourceApplyProximalAdagrad",
    .inputs = "var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0",
    .doc = "accum += grad * grad; rate = lr / sqrt(accum); v = var - rate * grad; var = sign(v) * max(abs(v) - rate * "
           "l1, 0) / (1 + "
           "rate * l2). INVALID_ARGUMENT unless lr is positive and l1 and l2 are not negative.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<2, 5>>,
});

TENON_OP(kSparseApplyProximalAdagrad) = DefineOp({
    .name = "SparseApplyProximalAdagrad",
    .inputs = "var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T, indices: Tindices",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); "
                   "element(indices) >= 0",
    .doc = "ApplyProximalAdagrad for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<2, 5>>,
});

TENON_OP(kResourceSparseApplyProximalAdagrad) = DefineOp({
    .name = "ResourceSparseApplyProximalAdagrad",
    .inputs = "var: resource, accum: resource, lr: T, l1: T, l2: T, grad: T, indices: Tindices",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(indices) == 1; dim(grad, 0) == dim(indices, 0); "
                   "element(indices) >= 0",
    .doc = "ResourceApplyProximalAdagrad for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<2, 5>>,
});

TENON_OP(kApplyAdagradDA) = DefineOp({
    .name = "ApplyAdagradDA",
    .inputs = "var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: Ref(T), grad: T, lr: T, l1: T, "
              "l2: T, global_step: int64",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(global_step) == 0",
    .doc = "gradient_accumulator += grad; gradient_squared_accumulator += grad * grad; with g and gg the two: var = "
           "-sign(g) * lr * "
           "max(abs(g) - global_step * l1, 0) / (global_step * l2 * lr + sqrt(gg)).",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<3, 3>>,
});

TENON_OP(kResourceApplyAdagradDA) = DefineOp({
    .name = "ResourceApplyAdagradDA",
    .inputs = "var: resource, gradient_accumulator: resource, gradient_squared_accumulator: resource, grad: T, lr: T, "
              "l1: T, l2: T, global_step: int64",
    .attrs = "T: numbertype; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(global_step) == 0",
    .doc = "gradient_accumulator += grad; gradient_squared_accumulator += grad * grad; with g and gg the two: var = "
           "-sign(g) * lr * "
           "max(abs(g) - global_step * l1, 0) / (global_step * l2 * lr + sqrt(gg)).",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<3, 3>>,
});

TENON_OP(kSparseApplyAdagradDA) = DefineOp({
    .name = "SparseApplyAdagradDA",
    .inputs = "var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: Ref(T), grad: T, indices: "
              "Tindices, lr: T, l1: T, l2: T, global_step: int64",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(global_step) == 0; rank(indices) == 1; dim(grad, "
                   "0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ApplyAdagradDA for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<3, 3>>,
});

TENON_OP(kResourceSparseApplyAdagradDA) = DefineOp({
    .name = "ResourceSparseApplyAdagradDA",
    .inputs = "var: resource, gradient_accumulator: resource, gradient_squared_accumulator: resource, grad: T, "
              "indices: Tindices, lr: "
              "T, l1: T, l2: T, global_step: int64",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(global_step) == 0; rank(indices) == 1; dim(grad, "
                   "0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ResourceApplyAdagradDA for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<3, 3>>,
});

TENON_OP(kApplyFtrlV2) = DefineOp({
    .name = "ApplyFtrlV2",
    .inputs = "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(l2_shrinkage) == 0; rank(lr_power) == 0",
    .doc = "ApplyFtrl with grad + 2 * l2_shrinkage * var in place of grad in linear.",
    .traits = kByReference,
    .shape = ShapeFunction<ApplyShape<3, 3>>,
});

TENON_OP(kResourceApplyFtrlV2) = DefineOp({
    .name = "ResourceApplyFtrlV2",
    .inputs =
        "var: resource, accum: resource, linear: resource, grad: T, lr: T, l1: T, l2: T, l2_shrinkage: T, lr_power: T",
    .attrs = "T: numbertype; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(l2_shrinkage) == 0; rank(lr_power) == 0",
    .doc = "ApplyFtrl with grad + 2 * l2_shrinkage * var in place of grad in linear.",
    .traits = kByHandle,
    .shape = ShapeFunction<ApplyShape<3, 3>>,
});

TENON_OP(kSparseApplyFtrlV2) = DefineOp({
    .name = "SparseApplyFtrlV2",
    .inputs = "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, indices: Tindices, lr: T, l1: T, l2: T, "
              "l2_shrinkage: T, lr_power: T",
    .outputs = "out: Ref(T)",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(l2_shrinkage) == 0; rank(lr_power) == 0; "
                   "rank(indices) == 1; "
                   "dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ApplyFtrlV2 for the rows that indices name, one after the other.",
    .traits = kByReference,
    .shape = ShapeFunction<SparseApplyShape<3, 3>>,
});

TENON_OP(kResourceSparseApplyFtrlV2) = DefineOp({
    .name = "ResourceSparseApplyFtrlV2",
    .inputs = "var: resource, accum: resource, linear: resource, grad: T, indices: Tindices, lr: T, l1: T, l2: T, "
              "l2_shrinkage: T, lr_power: T",
    .attrs = "T: numbertype; Tindices: {int32, int64}; use_locking: bool = false; multiply_linear_by_lr: bool = false",
    .constraints = "rank(lr) == 0; rank(l1) == 0; rank(l2) == 0; rank(l2_shrinkage) == 0; rank(lr_power) == 0; "
                   "rank(indices) == 1; "
                   "dim(grad, 0) == dim(indices, 0); element(indices) >= 0",
    .doc = "ResourceApplyFtrlV2 for the rows that indices name, one after the other.",
    .traits = kByHandle,
    .shape = ShapeFunction<SparseApplyShape<3, 3>>,
});

}  // namespace tenon::ops
