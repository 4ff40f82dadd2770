# SPDX-License-Identifier: Apache-2.0
"""Cases of the random package: numbers without a state, orders and sampled classes, to the bit."""
import numpy as np
import tensorflow as tf

from .draw import Case, op
from .random import _seeds, _shape


@op("StatelessRandomUniform", count=40)
def stateless(d):
    types = d.types("dtype")
    seed = np.array([d.pick([0, 1, -7, 2**31 - 1]), d.pick([0, 5, -1])], types["Tseed"].as_numpy_dtype)
    return Case([_shape(d, types["T"]), d.given(seed)], {"dtype": types["dtype"]})


@op("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2", count=40)
def keyed(d):
    types = d.types("dtype")
    key = np.array([d.int(0, 2**60)], np.uint64)
    counter = np.array([d.pick([0, 1, 2**63, 2**64 - 1]), d.int(0, 2**60)], np.uint64)
    return Case(
        [_shape(d, types["Tshape"]), d.given(key), d.given(counter), d.given(np.int32(d.pick([1, 1, 3])))],
        {"dtype": types["dtype"]},
    )


@op("StatelessRandomGetKeyCounter")
def key_counter(d):
    t = d.dtype("Tseed")
    return Case([d.tensor(t, (2,))])


@op("RandomShuffle", count=50)
def shuffle(d):
    t = d.pick([tf.float32, tf.float64, tf.int32, tf.int64, tf.bool, tf.half, tf.uint8, tf.complex64, tf.string])
    return Case([d.tensor(t, d.shape(0, 3))], _seeds(d))


@op("LogUniformCandidateSampler", count=40)
def sampler(d):
    true_count, unique = d.int(1, 3), d.chance(0.5)
    sampled = d.int(1, 20)
    most = sampled + d.pick([0, 1, 10, 1000]) if unique else d.int(1, 500)
    classes = d.tensor(tf.int64, (d.int(0, 4), true_count), 0, most)
    return Case(
        [classes], {"num_true": true_count, "num_sampled": sampled, "unique": unique, "range_max": most, **_seeds(d)}
    )


@op("ComputeAccidentalHits")
def hits(d):
    true_count = d.int(1, 3)
    most = d.int(1, 12)
    return Case(
        [d.tensor(tf.int64, (d.int(0, 5), true_count), 0, most), d.tensor(tf.int64, (d.int(0, 8),), 0, most)],
        {"num_true": true_count},
    )
