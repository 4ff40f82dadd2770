# SPDX-License-Identifier: Apache-2.0
"""Cases of the random package: the numbers that seeds give, in the first run and in those after it."""
import numpy as np
import tensorflow as tf

from .draw import Case, Program, op


def _seeds(d):
    """Not both 0, which stands for any."""
    seed = d.pick([0, 1, 7, 2**31 - 1, 2**40 + 3, -5])
    return {"seed": seed, "seed2": d.pick([1, 42, 2**33, -1]) if seed == 0 else d.pick([0, 1, 99])}


def _shape(d, t):
    dims = d.pick([[], [1], [3], [4], [5], [2, 3], [7, 5], [0, 3], [257], [31, 33], [1024]])
    return d.given(np.array(dims, t.as_numpy_dtype))


@op("RandomUniform", "RandomStandardNormal", "TruncatedNormal", count=40)
def reals(d):
    if d.chance(0.25):
        return _runs(d)
    types = d.types("dtype")
    return Case([_shape(d, types["T"])], {"dtype": types["dtype"], **_seeds(d)})


def _runs(d):
    """What a node draws in one run after another."""
    t, seeds = d.dtype("dtype"), _seeds(d)
    graph = tf.Graph()
    with graph.as_default():
        for name in ("a", "b"):
            getattr(tf.raw_ops, d.op)(
                shape=tf.constant(d.pick([[3], [5, 2], []]), tf.int32), dtype=t, **seeds, name=name
            )
    runs = [({}, d.pick([["a:0"], ["b:0"], ["a:0", "b:0"]]), []) for _ in range(4)]
    return Program(graph, runs, f"runs of {t.name}")


@op("RandomUniformInt")
def integers(d):
    types = d.types("Tout")
    low = d.int(-50, 50)
    high = low + d.pick([1, 2, 3, 10, 100, 0, -1]) if d.chance(0.3) else low + d.int(1, 1000)
    bounds = [d.given(np.array(one, types["Tout"].as_numpy_dtype)) for one in (low, high)]
    return Case([_shape(d, types["T"]), *bounds], _seeds(d))
