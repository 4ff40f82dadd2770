# SPDX-License-Identifier: Apache-2.0
"""Random numbers of many distributions, orders, sampled classes."""
import numpy as np
import tensorflow as tf

from .inputs import case, cases

SEEDS = {"seed": 1, "seed2": 2}


def shape(i):
    return list(i.shape("matrix"))


def fewer(i):
    return list(i.shape("slow"))


cases("RandomUniform RandomStandardNormal TruncatedNormal", lambda i: [shape(i)], dtype=tf.float32, **SEEDS)
case("RandomUniform, double; RandomStandardNormal, double", lambda i: [shape(i)], dtype=tf.float64, **SEEDS)
cases("RandomUniformInt", lambda i: [shape(i), 0, 1000], **SEEDS)
cases("RandomGamma", lambda i: [np.zeros(0, np.int32), i.slow(0.5, 9)], **SEEDS)
case("RandomGamma, many of each", lambda i: [[i.pick(4, 1024, 16384)], i.floats((4,), 0.5, 9)], **SEEDS)
cases("RandomPoissonV2", lambda i: [np.zeros(0, np.int32), i.slow(0.5, 20)], dtype=tf.int64, **SEEDS)
case(
    "RandomPoissonV2, many of each",
    lambda i: [[i.pick(4, 1024, 16384)], i.floats((4,), 0.5, 20)],
    dtype=tf.int64,
    **SEEDS
)
cases(
    "ParameterizedTruncatedNormal",
    lambda i: [
        fewer(i),
        i.floats(fewer(i)[:1]),
        i.floats(fewer(i)[:1], 0.5, 1),
        i.floats(fewer(i)[:1], -3, -2),
        i.floats(fewer(i)[:1], 2, 3),
    ],
    **SEEDS
)
cases(
    "Multinomial",
    lambda i: [i.floats(i.pick((2, 4), (32, 64), (64, 1024))), i.pick(4, 64, 256)],
    output_dtype=tf.int64,
    **SEEDS
)
cases("RandomShuffle", lambda i: [i.matrix()], **SEEDS)
case("RandomShuffle, of a vector", lambda i: [i.floats((np.prod(fewer(i)),))], **SEEDS)


def seed(i):
    return i.read(np.array([3, 5], np.int64))


STATELESS = {"dtype": tf.float32}
cases(
    "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal", lambda i: [shape(i), seed(i)], **STATELESS
)
cases("StatelessRandomUniformInt", lambda i: [shape(i), seed(i), 0, 1000])
cases("StatelessRandomUniformFullInt", lambda i: [shape(i), seed(i)], dtype=tf.int32)
cases("StatelessRandomBinomial", lambda i: [fewer(i), seed(i), i.slow(5, 40), i.slow(0.1, 0.9)], dtype=tf.float32)
cases(
    "StatelessMultinomial",
    lambda i: [i.floats(i.pick((2, 4), (32, 64), (64, 1024))), i.pick(4, 64, 256), seed(i)],
    output_dtype=tf.int64,
)


def key(i):
    return [i.read(np.array([7], np.uint64)), i.read(np.array([1, 2], np.uint64)), np.int32(1)]


cases(
    "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2",
    lambda i: [shape(i), *key(i)],
    **STATELESS
)
cases("StatelessRandomUniformIntV2", lambda i: [shape(i), *key(i), 0, 1000])
cases("StatelessRandomUniformFullIntV2", lambda i: [shape(i), *key(i)], dtype=tf.int32)
cases("StatelessShuffle", lambda i: [i.matrix(), *key(i)])
cases("StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg", lambda i: [seed(i)])


def state(i):
    return i.handle(np.array([1, 2, 3], np.int64))


cases(
    "StatefulUniform StatefulStandardNormalV2 StatefulTruncatedNormal",
    lambda i: [state(i), np.int64(1), np.array(shape(i), np.int64)],
    dtype=tf.float32,
)
cases("StatefulUniformFullInt", lambda i: [state(i), np.int64(1), np.array(shape(i), np.int64)], dtype=tf.int64)
cases(
    "StatefulUniformInt", lambda i: [state(i), np.int64(1), np.array(shape(i), np.int64), np.int64(0), np.int64(1000)]
)
cases("RngReadAndSkip", lambda i: [state(i), np.int32(1), i.read(np.array(5, np.uint64))])
cases("RngSkip", lambda i: [state(i), np.int64(1), i.read(np.array(5, np.int64))])

# Sampled classes.
SAMPLED = {
    "num_true": 1,
    "num_sampled": lambda i: i.pick(4, 64, 1024),
    "unique": True,
    "range_max": lambda i: i.pick(16, 1024, 65536),
    **SEEDS,
}


def classes(i):
    return [i.ints((i.pick(2, 64, 512), 1), i.pick(16, 1024, 65536), dtype=np.int64)]


cases(
    "UniformCandidateSampler LogUniformCandidateSampler LearnedUnigramCandidateSampler ThreadUnsafeUnigramCandidateSampler",
    classes,
    **SAMPLED
)
case(
    "UniformCandidateSampler, with repeats; LogUniformCandidateSampler, with repeats",
    classes,
    **{**SAMPLED, "unique": False}
)
cases(
    "FixedUnigramCandidateSampler",
    classes,
    unigrams=lambda i: [1.0 / (1 + one) for one in range(i.pick(16, 1024, 65536))],
    **SAMPLED
)
cases("AllCandidateSampler", classes, num_true=1, num_sampled=lambda i: i.pick(16, 1024, 65536), unique=True, **SEEDS)
cases(
    "ComputeAccidentalHits",
    lambda i: [
        i.ints((i.pick(2, 64, 512), 1), i.pick(16, 1024, 65536), dtype=np.int64),
        i.ints((i.pick(4, 64, 1024),), i.pick(16, 1024, 65536), dtype=np.int64),
    ],
    num_true=1,
)
