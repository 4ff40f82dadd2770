# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers: their inputs follow from the names of their arguments."""
import numpy as np
from tensorflow.python.framework import op_def_registry

from .inputs import case

NAMES = (
    "AdaMax Adadelta Adagrad AdagradDA AdagradV2 Adam AddSign CenteredRMSProp Ftrl FtrlV2 GradientDescent Momentum PowerSign ProximalAdagrad "
    "ProximalGradientDescent RMSProp AdamWithAmsgrad KerasMomentum"
).split()
# Steps so small that a million of them leave the variables what they are.
RATES = {
    "lr": 1e-9,
    "alpha": 1e-9,
    "rho": 0.9,
    "epsilon": 1e-7,
    "momentum": 0.9,
    "beta1": 0.9,
    "beta2": 0.99,
    "beta1_power": 0.9,
    "beta2_power": 0.99,
    "beta": 0.9,
    "l1": 0.01,
    "l2": 0.01,
    "l2_shrinkage": 0.01,
    "lr_power": -0.5,
    "logbase": 1.0,
    "sign_decay": 0.5,
}


def inputs(i, name, by_rows):
    shape = i.shape("matrix")
    some = (shape[0] // 2, *shape[1:]) if by_rows else shape
    given = []
    for argument in op_def_registry.get(name).input_arg:
        if argument.name in ("grad", "delta"):
            given.append(i.floats(some))
        elif argument.name == "indices":
            given.append(i.read(i.rows(some[0], shape[0]).astype(np.int32)))
        elif argument.name == "global_step":
            given.append(np.int64(5))
        elif argument.name in RATES:
            given.append(np.float32(RATES[argument.name]))
        else:  # the variable and what the optimizer keeps
            values = i.reals(shape, -0.3, 0.3) if argument.name == "mg" else i.reals(shape, 0.5, 2)
            given.append(i.reference(values) if argument.is_ref else i.handle(values))
    return given


for _kind in ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"):
    for _name in NAMES:
        _op = _kind + _name
        if op_def_registry.get(_op):
            case(_op, lambda i, op=_op: inputs(i, op, "Sparse" in op))
