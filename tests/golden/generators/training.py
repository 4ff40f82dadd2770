# SPDX-License-Identifier: Apache-2.0
"""Cases of the training package: one optimizer step, variables before and after."""


from .draw import Case, op
from .state import variable


def _scalar(d, t, low, high):
    return d.given(d.tensor(t, (), low, high))


def _rates(d, t, *ranges):
    return [_scalar(d, t, *one) for one in ranges]


@op("ApplyGradientDescent", "ResourceApplyGradientDescent")
def descent(d):
    t, shape = d.dtype(), d.shape()
    return Case(
        [variable(d, t, shape), _scalar(d, t, 0, 1), d.tensor(t, shape, special=0.1)], {"use_locking": d.chance(0.5)}
    )


@op("ApplyMomentum", "ResourceApplyMomentum")
def momentum(d):
    t, shape = d.dtype(), d.shape()
    return Case(
        [
            variable(d, t, shape),
            variable(d, t, shape),
            _scalar(d, t, 0, 1),
            d.tensor(t, shape, special=0.1),
            _scalar(d, t, 0, 1),
        ],
        {"use_locking": d.chance(0.5), "use_nesterov": d.chance(0.5)},
    )


def _positive(d, t, shape):
    slot = variable(d, t, shape)
    slot.value = d.tensor(t, shape, 0.1, 3)
    return slot


@op("ApplyAdagrad", "ResourceApplyAdagrad")
def adagrad(d):
    t, shape = d.dtype(), d.shape()
    return Case([variable(d, t, shape), _positive(d, t, shape), _scalar(d, t, 0, 1), d.tensor(t, shape, special=0.1)],
                {"use_locking": d.chance(0.5), "update_slots": d.chance(0.7)})


@op("ResourceSparseApplyAdagrad")
def sparse_adagrad(d):
    types = d.types()
    t, shape = types["T"], d.shape(1, 3)
    indices = d.tensor(types["Tindices"], (d.int(0, 5),), 0, max(1, shape[0]) + (1 if d.chance(0.1) else 0))
    return Case(
        [
            variable(d, t, shape),
            _positive(d, t, shape),
            _scalar(d, t, 0, 1),
            d.tensor(t, indices.shape + shape[1:], -3, 3),
            indices,
        ],
        {"use_locking": d.chance(0.5), "update_slots": d.chance(0.7)},
    )


@op("ApplyAdam", "ResourceApplyAdam")
def adam(d):
    t, shape = d.dtype(), d.shape()
    rates = _rates(d, t, (0.1, 0.9), (0.1, 0.9), (0, 0.1), (0.5, 0.95), (0.5, 0.95), (0.001, 0.1))
    return Case(
        [variable(d, t, shape), variable(d, t, shape), _positive(d, t, shape), *rates, d.tensor(t, shape, special=0.1)],
        {"use_locking": d.chance(0.5), "use_nesterov": d.chance(0.5)},
    )
