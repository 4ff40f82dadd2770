# SPDX-License-Identifier: Apache-2.0
"""Cases of random numbers of many distributions, with seeds, keys or a state in a variable: to the bit where no
logarithm is between."""

import numpy as np
import tensorflow as tf

from .draw import Case, Program, op
from .random import _seeds, _shape

raw = tf.raw_ops


def _seed(d, t):
    return d.given(np.array([d.pick([0, 1, -7, 2**31 - 1]), d.pick([0, 5, -1])], np.int64).astype(t.as_numpy_dtype))


def _bounds(d, t):
    low = d.int(-50, 50)
    high = low + d.pick([1, 2, 3, 10, 100, 0, -1]) if d.chance(0.2) else low + d.int(1, 1000)
    return [d.given(np.array(one, t.as_numpy_dtype)) for one in (low, high)]


@op("StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformFullInt", count=30)
def seeded(d):
    types = d.types("dtype")
    seed = (
        types["Tseed"] if types["Tseed"] in (tf.int32, tf.int64) else tf.int64
    )  # TensorFlow refuses others, unless nothing is drawn
    return Case([_shape(d, types["T"]), _seed(d, seed)], {"dtype": types["dtype"], "Tseed": seed})


@op("StatelessRandomUniformInt", count=30)
def seeded_between(d):
    types = d.types("dtype")
    return Case([_shape(d, types["T"]), _seed(d, types["Tseed"]), *_bounds(d, types["dtype"])])


def _keyed(d, bad=0.05):
    key = np.array([d.int(0, 2**60)], np.uint64)
    counter = np.array([d.pick([0, 1, 2**63, 2**64 - 1]), d.int(0, 2**60)], np.uint64)
    return [d.given(key), d.given(counter), d.given(np.int32(d.pick([1, 1, 3]) if d.chance(1 - bad) else 2))]


@op("StatelessRandomUniformIntV2", "StatelessRandomUniformFullIntV2", count=30)
def keyed(d):
    types = d.types("dtype")
    between = d.op.endswith("IntV2") and "Full" not in d.op
    more = _bounds(d, types["dtype"]) if between else []
    return Case([_shape(d, types["Tshape"]), *_keyed(d), *more], {} if between else {"dtype": types["dtype"]})


@op("StatelessRandomGetKeyCounterAlg", count=20)
def key_counter(d):
    return Case([d.tensor(d.dtype("Tseed"), (2,))])


@op("StatelessRandomGetAlg", count=1)
def algorithm(d):
    return Case([])


@op("StatelessShuffle", count=40)
def shuffle(d):
    t = d.pick([tf.float32, tf.float64, tf.int32, tf.int64, tf.bool, tf.half, tf.uint8, tf.complex64, tf.string])
    return Case([d.tensor(t, d.shape(0, 3)), *_keyed(d, 0)], disturb=False)


STATEFUL = {
    "StatefulUniform": [tf.half, tf.bfloat16, tf.float32, tf.float64],
    "StatefulUniformInt": [tf.int32, tf.int64],
    "StatefulUniformFullInt": [tf.int32, tf.int64, tf.uint32, tf.uint64],
}


@op(
    "StatefulUniform",
    "StatefulStandardNormalV2",
    "StatefulTruncatedNormal",
    "StatefulUniformInt",
    "StatefulUniformFullInt",
    "RngSkip",
    "RngReadAndSkip",
    count=26,
)
def stateful(d):
    """The state and what is drawn, in the first run and in those after it."""
    state = np.array(
        [d.pick([0, 5, -3, 2**62]), d.pick([0, -1, 7]), d.int(-(2**60), 2**60)] + [9] * d.pick([0, 0, 1]), np.int64
    )
    alg = d.pick([1, 1, 3]) if d.chance(0.95) else 2
    graph = tf.Graph()
    with graph.as_default():
        handle = raw.VarHandleOp(dtype=tf.int64, shape=[len(state)], shared_name="state")
        raw.AssignVariableOp(resource=handle, value=state, name="assign")
        raw.ReadVariableOp(resource=handle, dtype=tf.int64, name="read")
        delta = d.pick([0, 1, 10, 2**40])
        raw.RngSkip(
            resource=handle, algorithm=np.int64(alg), delta=np.int64(delta if d.chance(0.9) else -delta), name="skip"
        )
        raw.RngReadAndSkip(resource=handle, alg=np.int32(alg), delta=np.uint64(delta), name="both")
        name = d.op if not d.op.startswith("Rng") else d.pick(sorted(STATEFUL))
        t = d.turn(STATEFUL.get(name, STATEFUL["StatefulUniform"]))
        more = {}
        if name == "StatefulUniformInt":
            low = d.int(-50, 50)
            more = {
                "minval": tf.constant(low, t),
                "maxval": tf.constant(low + (d.int(1, 1000) if d.chance(0.95) else 0), t),
            }
        else:
            more = {"dtype": t}
        shape = d.pick([[], [1], [3], [2, 3], [7, 5], [257]])
        getattr(raw, name)(
            resource=handle,
            algorithm=np.int64(alg),
            shape=tf.constant(shape, d.pick([tf.int32, tf.int64])),
            name="drawn",
            **more,
        )
    runs = [({}, [], ["assign"])]
    for _ in range(d.int(2, 6)):
        step = d.pick(["drawn", "drawn", "skip", "both", "read"])
        runs.append(({}, [] if step == "skip" else [step + ":0"], [step] if step == "skip" else []))
    return Program(graph, runs, f"{name} of {t.name}")


@op("Multinomial", "StatelessMultinomial", count=36)
def multinomial(d):
    types = d.types("T")
    logits = d.tensor(types["T"], (d.int(0, 4), d.int(1, 7) if d.chance(0.97) else 0), special=0.1)
    inputs = [logits, d.given(np.array(d.int(0, 9) if d.chance(0.97) else -1, np.int32))]
    attrs = {"output_dtype": types["output_dtype"]}
    if d.op == "Multinomial":
        return Case(inputs, {**attrs, **_seeds(d)})
    return Case([*inputs, _seed(d, types["Tseed"])], attrs)


@op("StatelessRandomBinomial", count=60)
def binomial(d):
    while True:
        types = d.types("dtype")
        if types["T"].is_floating:
            break
        d.number += 1
    batch, counts, probs = d.shape(0, 2, empty=0, large=0), (), ()
    counts = tuple(1 if d.chance(0.2) else dim for dim in batch)[d.int(0, len(batch)) if d.chance(0.3) else 0:]
    probs = tuple(1 if d.chance(0.2) else dim for dim in batch)[d.int(0, len(batch)) if d.chance(0.3) else 0:]
    full = np.broadcast_shapes(counts, probs)
    shape = d.shape(0, 2, large=0) + (full if d.chance(0.96) else full + (2,))
    t = types["T"].as_numpy_dtype
    much = d.pick([3, 40, 1000])
    values = [
        d.random.integers(-1, much, counts).astype(t),
        np.round(d.random.uniform(-0.05, 1.05, probs), 3).astype(t),
    ]
    return Case(
        [d.given(np.array(shape, types["S"].as_numpy_dtype)), _seed(d, types["Tseed"]), *values],
        {"dtype": types["dtype"]},
        disturb=False,
    )


@op("RandomGamma", count=40)
def gamma(d):
    while True:
        types = d.types("T")
        if types["T"] != tf.bfloat16:
            break
        d.number += 1
    alpha = d.tensor(types["T"], d.shape(0, 2, large=0), 0.1, d.pick([1, 3, 40]))
    if d.chance(0.3):
        alpha = np.round(alpha) + np.asarray(1, alpha.dtype)
    return Case(
        [d.ints(d.shape(0, 2, large=0), types["S"]), alpha], _seeds(d), gradients=types["T"] != tf.half, disturb=False
    )


@op("RandomPoissonV2", count=60)
def poisson(d):
    types = d.types("dtype")
    rate = d.tensor(types["R"], d.shape(0, 2, large=0), 0, d.pick([2, 9, 12, 60, 1000]))
    return Case(
        [d.ints(d.shape(0, 2, large=0), types["S"]), rate], {"dtype": types["dtype"], **_seeds(d)}, disturb=False
    )


@op("ParameterizedTruncatedNormal", count=60)
def truncated(d):
    types = d.types("dtype")
    t = types["dtype"].as_numpy_dtype
    shape = (d.int(1, 4),) + d.shape(0, 2, large=0.2)
    rows = lambda low, high: np.round(
        d.random.uniform(low, high, () if d.chance(0.5) else (1,) if d.chance(0.2) else (shape[0],)), 2
    )
    means, deviations, low = rows(-2, 2), rows(0.2, 3), rows(-4, 3)
    # Bounds of one kind and length: what is below the mean, around it and beyond it.
    high = np.asarray(low + np.round(d.random.uniform(0.1, d.pick([0.5, 2, 9])), 2))
    if d.chance(0.2):
        high = np.full_like(high, np.inf)
    elif d.chance(0.2):
        low = np.full_like(low, -np.inf)
    if d.chance(0.05):
        deviations = -deviations
    return Case(
        [
            d.given(np.array(shape, types["T"].as_numpy_dtype)),
            *(np.asarray(one).astype(t) for one in (means, deviations, low, high)),
        ],
        _seeds(d),
        disturb=False,
    )
