# SPDX-License-Identifier: Apache-2.0
"""Cases of the training package: steps whose size follows the gradients so far, or their signs; dense and by rows."""
from .draw import Case, op
from .optimizers import _common, _rows
from .state import variable
from .training import _positive, _rates


def _dense(d, low=0):
    t, shape = d.dtype(), d.shape(low)
    return t, shape, d.tensor(t, shape, special=0.1)


def _sparse(d):
    """The type, the variable's shape, the gradient of some rows, and which those are."""
    types = d.types()
    t, shape = types["T"], d.shape(1, 3)
    indices = _rows(d, types, shape)
    return t, shape, d.tensor(t, indices.shape + shape[1:], -3, 3), indices


@op("ApplyAdadelta", "ResourceApplyAdadelta")
def adadelta(d):
    t, shape, grad = _dense(d)
    return Case(
        [
            variable(d, t, shape),
            _positive(d, t, shape),
            _positive(d, t, shape),
            *_rates(d, t, (0, 1), (0.5, 0.99), (0.01, 0.2)),
            grad,
        ],
        _common(d),
    )


@op("SparseApplyAdadelta", "ResourceSparseApplyAdadelta")
def sparse_adadelta(d):
    t, shape, grad, indices = _sparse(d)
    return Case(
        [
            variable(d, t, shape),
            _positive(d, t, shape),
            _positive(d, t, shape),
            *_rates(d, t, (0, 1), (0.5, 0.99), (0.01, 0.2)),
            grad,
            indices,
        ],
        _common(d),
    )


@op("ApplyAdagradV2")
def adagrad_v2(d):
    t, shape, grad = _dense(d)
    return Case(
        [variable(d, t, shape), _positive(d, t, shape), *_rates(d, t, (0, 1), (0.01, 0.1)), grad],
        _common(d, update_slots=d.chance(0.7)),
    )


@op("SparseApplyAdagradV2", "ResourceSparseApplyAdagradV2")
def sparse_adagrad_v2(d):
    t, shape, grad, indices = _sparse(d)
    return Case(
        [variable(d, t, shape), _positive(d, t, shape), *_rates(d, t, (0, 1), (0.01, 0.1)), grad, indices],
        _common(d, update_slots=d.chance(0.7)),
    )


def _centered(d, t, shape):
    """var, mg, ms, mom and the rates: ms is larger than the square of mg, as an average of squares is."""
    mg, ms = variable(d, t, shape), variable(d, t, shape)
    mg.value, ms.value = d.tensor(t, shape, -0.5, 0.5), d.tensor(t, shape, 1, 3)
    return [
        variable(d, t, shape),
        mg,
        ms,
        variable(d, t, shape),
        *_rates(d, t, (0, 0.5), (0.5, 0.99), (0, 0.9), (0.01, 0.2)),
    ]


@op("ApplyCenteredRMSProp", "ResourceApplyCenteredRMSProp")
def centered(d):
    t, shape, grad = _dense(d)
    return Case([*_centered(d, t, shape), grad], _common(d))


@op("SparseApplyCenteredRMSProp", "ResourceSparseApplyCenteredRMSProp")
def sparse_centered(d):
    t, shape, grad, indices = _sparse(d)
    return Case([*_centered(d, t, shape), grad, indices], _common(d))


@op("ApplyAdaMax", "ResourceApplyAdaMax")
def ada_max(d):
    t, shape, grad = _dense(d)
    return Case([variable(d, t, shape), variable(d, t, shape), _positive(d, t, shape),
                 *_rates(d, t, (0.1, 0.9), (0, 0.1), (0.5, 0.95), (0.5, 0.95), (0.01, 0.1)), grad], _common(d))


@op("ResourceApplyAdamWithAmsgrad")
def amsgrad(d):
    t, shape, grad = _dense(d)
    return Case(
        [
            variable(d, t, shape),
            variable(d, t, shape),
            _positive(d, t, shape),
            _positive(d, t, shape),
            *_rates(d, t, (0.1, 0.9), (0.1, 0.9), (0, 0.1), (0.5, 0.95), (0.5, 0.95), (0.001, 0.1)),
            grad,
        ],
        _common(d),
    )


@op("ApplyAddSign", "ResourceApplyAddSign", "ApplyPowerSign", "ResourceApplyPowerSign")
def sign(d):
    t, shape, grad = _dense(d)
    return Case(
        [variable(d, t, shape), variable(d, t, shape), *_rates(d, t, (0, 0.5), (0.5, 1.5), (0, 1), (0.5, 0.95)), grad],
        _common(d),
    )
