# SPDX-License-Identifier: Apache-2.0
"""Cases of the training package: steps with penalties, dense and by rows."""
import numpy as np

from .adaptive import _dense, _sparse
from .draw import Case, op
from .optimizers import _common, _ftrl_rates, _weights
from .state import variable
from .training import _positive, _rates, _scalar


def _penalty(d, t):
    """Often none; seldom below 0, which some of the ops refuse."""
    if d.chance(0.3):
        return d.given(d.tensor(t, (), 0, 1) * 0)
    return _scalar(d, t, -0.5 if d.chance(0.1) else 0.05, 0.6)


@op("ApplyProximalGradientDescent", "ResourceApplyProximalGradientDescent")
def descent(d):
    t, shape, grad = _dense(d)
    return Case([variable(d, t, shape), _scalar(d, t, 0, 1), _penalty(d, t), _penalty(d, t), grad], _common(d))


@op("SparseApplyProximalGradientDescent", "ResourceSparseApplyProximalGradientDescent")
def sparse_descent(d):
    t, shape, grad, indices = _sparse(d)
    return Case([variable(d, t, shape), _scalar(d, t, 0, 1), _penalty(d, t), _penalty(d, t), grad, indices], _common(d))


def _rate(d, t):
    return _scalar(d, t, -0.1 if d.chance(0.1) else 0.1, 1)


@op("ApplyProximalAdagrad", "ResourceApplyProximalAdagrad")
def adagrad(d):
    t, shape, grad = _dense(d)
    return Case(
        [variable(d, t, shape), _positive(d, t, shape), _rate(d, t), _penalty(d, t), _penalty(d, t), grad], _common(d)
    )


@op("SparseApplyProximalAdagrad", "ResourceSparseApplyProximalAdagrad")
def sparse_adagrad(d):
    t, shape, grad, indices = _sparse(d)
    return Case(
        [variable(d, t, shape), _positive(d, t, shape), _rate(d, t), _penalty(d, t), _penalty(d, t), grad, indices],
        _common(d),
    )


def _dual(d, t, steps):
    return [_scalar(d, t, 0.1, 1), _penalty(d, t), _scalar(d, t, 0, 0.5), d.given(np.int64(steps))]


@op("ApplyAdagradDA", "ResourceApplyAdagradDA")
def dual_averaging(d):
    t, shape, grad = _dense(d)
    return Case(
        [variable(d, t, shape), variable(d, t, shape), _positive(d, t, shape), grad, *_dual(d, t, d.int(0, 9))],
        _common(d),
    )


@op("SparseApplyAdagradDA", "ResourceSparseApplyAdagradDA")
def sparse_dual_averaging(d):
    """Steps are counted from 1: of others TensorFlow has one formula for rows of one element and one for longer
    rows."""
    t, shape, grad, indices = _sparse(d)
    scalars = _dual(d, t, d.int(1, 9))
    case = Case(
        [variable(d, t, shape), variable(d, t, shape), _positive(d, t, shape), grad, indices, *scalars],
        _common(d),
        disturb=False,
    )
    if d.chance(0.06):
        case.inputs[3] = grad[..., None]
    elif d.chance(0.06):
        case.inputs[d.int(5, 7)] = d.tensor(t, (2,), 0.1, 1)
    return case


def _shrinkage(d, t):
    rate, l1, l2, power = _ftrl_rates(d, t)
    return [rate, l1, l2, _scalar(d, t, -0.2 if d.chance(0.1) else 0, 0.4), power]


@op("ApplyFtrlV2", "ResourceApplyFtrlV2")
def ftrl(d):
    t, shape = d.dtype(), d.shape()
    return Case(
        [
            _weights(d, t, shape),
            _positive(d, t, shape),
            variable(d, t, shape),
            d.tensor(t, shape, -3, 3),
            *_shrinkage(d, t),
        ],
        _common(d, multiply_linear_by_lr=d.chance(0.4)),
    )


@op("SparseApplyFtrlV2", "ResourceSparseApplyFtrlV2")
def sparse_ftrl(d):
    t, shape, grad, indices = _sparse(d)
    return Case(
        [_weights(d, t, shape), _positive(d, t, shape), variable(d, t, shape), grad, indices, *_shrinkage(d, t)],
        _common(d, multiply_linear_by_lr=d.chance(0.4)),
    )
