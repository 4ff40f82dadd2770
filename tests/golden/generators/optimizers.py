# SPDX-License-Identifier: Apache-2.0
"""Cases of the training package: the other optimizers, dense and by rows."""
import numpy as np
import tensorflow as tf

from .draw import Case, op
from .state import variable
from .training import _positive, _scalar


def _rows(d, types, shape):
    return d.tensor(types["Tindices"], (d.int(0, 5),), 0, max(1, shape[0]) + (1 if d.chance(0.1) else 0))


def _common(d, **more):
    return {"use_locking": d.chance(0.5), **more}


@op("SparseApplyAdagrad")
def sparse_adagrad(d):
    types = d.types()
    t, shape = types["T"], d.shape(1, 3)
    indices = _rows(d, types, shape)
    return Case(
        [
            variable(d, t, shape),
            _positive(d, t, shape),
            _scalar(d, t, 0, 1),
            d.tensor(t, indices.shape + shape[1:], -3, 3),
            indices,
        ],
        _common(d, update_slots=d.chance(0.7)),
    )


@op("ResourceApplyAdagradV2")
def adagrad_v2(d):
    t, shape = d.dtype(), d.shape()
    return Case(
        [
            variable(d, t, shape),
            _positive(d, t, shape),
            _scalar(d, t, 0, 1),
            _scalar(d, t, 0.01, 0.1),
            d.tensor(t, shape, special=0.1),
        ],
        _common(d, update_slots=d.chance(0.7)),
    )


@op("ResourceApplyKerasMomentum")
def keras_momentum(d):
    t, shape = d.dtype(), d.shape()
    return Case(
        [
            variable(d, t, shape),
            variable(d, t, shape),
            _scalar(d, t, 0, 1),
            d.tensor(t, shape, special=0.1),
            _scalar(d, t, 0, 1),
        ],
        _common(d, use_nesterov=d.chance(0.5)),
    )


@op("ResourceSparseApplyKerasMomentum", "ResourceSparseApplyMomentum", "SparseApplyMomentum")
def sparse_momentum(d):
    types = d.types()
    t, shape = types["T"], d.shape(1, 3)
    indices = _rows(d, types, shape)
    return Case(
        [
            variable(d, t, shape),
            variable(d, t, shape),
            _scalar(d, t, 0, 1),
            d.tensor(t, indices.shape + shape[1:], -3, 3),
            indices,
            _scalar(d, t, 0, 1),
        ],
        _common(d, use_nesterov=d.chance(0.5)),
    )


@op("ApplyRMSProp", "ResourceApplyRMSProp")
def rms_prop(d):
    t, shape = d.dtype(), d.shape()
    rates = [_scalar(d, t, *one) for one in ((0, 0.5), (0.5, 0.99), (0, 0.9), (0.01, 0.2))]
    return Case(
        [variable(d, t, shape), _positive(d, t, shape), variable(d, t, shape), *rates, d.tensor(t, shape, special=0.1)],
        _common(d),
    )


@op("ResourceSparseApplyRMSProp", "SparseApplyRMSProp")
def sparse_rms_prop(d):
    types = d.types()
    t, shape = types["T"], d.shape(1, 3)
    indices = _rows(d, types, shape)
    rates = [_scalar(d, t, *one) for one in ((0, 0.5), (0.5, 0.99), (0, 0.9), (0.01, 0.2))]
    return Case(
        [
            variable(d, t, shape),
            _positive(d, t, shape),
            variable(d, t, shape),
            *rates,
            d.tensor(t, indices.shape + shape[1:], -3, 3),
            indices,
        ],
        _common(d),
    )


def _ftrl_rates(d, t):
    power = (
        _scalar(d, t, -1, 0) if d.chance(0.5) else d.given(d.tensor(t, (), 0, 1) * 0 - d.tensor(t, (), 0.5, 0.5000001))
    )
    return [_scalar(d, t, -0.1 if d.chance(0.1) else 0.1, 1), _scalar(d, t, 0, 0.5), _scalar(d, t, 0, 0.5), power]


def _weights(d, t, shape):
    """Of halves finite ones: TensorFlow rounds a difference of two powers to 0, which makes NaN of infinity."""
    weights = variable(d, t, shape)
    if t in (tf.half, tf.bfloat16):
        weights.value = np.where(
            np.isfinite(weights.value.astype(np.float32)), weights.value, weights.value.dtype.type(1)
        )
    return weights


@op("ApplyFtrl", "ResourceApplyFtrl")
def ftrl(d):
    t, shape = d.dtype(), d.shape()
    return Case(
        [
            _weights(d, t, shape),
            _positive(d, t, shape),
            variable(d, t, shape),
            d.tensor(t, shape, -3, 3),
            *_ftrl_rates(d, t),
        ],
        _common(d, multiply_linear_by_lr=d.chance(0.4)),
    )


@op("SparseApplyFtrl", "ResourceSparseApplyFtrl")
def sparse_ftrl(d):
    types = d.types()
    t, shape = types["T"], d.shape(1, 3)
    indices = _rows(d, types, shape)
    return Case(
        [
            _weights(d, t, shape),
            _positive(d, t, shape),
            variable(d, t, shape),
            d.tensor(t, indices.shape + shape[1:], -3, 3),
            indices,
            *_ftrl_rates(d, t),
        ],
        _common(d, multiply_linear_by_lr=d.chance(0.4)),
    )
