# SPDX-License-Identifier: Apache-2.0
"""Cases of sampled classes, to the bit, run by run where they are learned."""
import numpy as np
import tensorflow as tf

from .draw import Case, Program, op
from .random import _seeds

raw = tf.raw_ops


def _sampling(d):
    true_count, unique = d.int(1, 3), d.chance(0.5)
    sampled = d.int(1, 20)
    most = sampled + d.pick([0, 1, 10, 1000]) if unique else d.int(1, 500)
    return {"num_true": true_count, "num_sampled": sampled, "unique": unique, "range_max": most, **_seeds(d)}


@op("UniformCandidateSampler", count=40)
def sampler(d):
    attrs = _sampling(d)
    return Case([d.tensor(tf.int64, (d.int(0, 4), attrs["num_true"]), 0, attrs["range_max"])], attrs, disturb=False)


@op("AllCandidateSampler", count=20)
def all_classes(d):
    attrs = _sampling(d)
    attrs.pop("range_max")
    return Case([d.tensor(tf.int64, (d.int(0, 4), attrs["num_true"]), 0, attrs["num_sampled"])], attrs, disturb=False)


@op("FixedUnigramCandidateSampler", count=40)
def weighted(d):
    attrs = _sampling(d)
    attrs["num_reserved_ids"] = reserved = d.pick([0, 0, 1, 3])
    attrs["num_shards"], attrs["shard"] = shards = d.pick([(1, 0), (1, 0), (2, 0), (2, 1), (3, 1)])
    mine = len([word for word in range(reserved) if word % shards[0] == shards[1]])
    given = attrs["num_sampled"] + d.pick([0, 1, 10, 100])
    words = [word for word in range(reserved, reserved + given * shards[0] + 3)]
    words = words[
        : next(i for i in range(len(words) + 1) if sum(word % shards[0] == shards[1] for word in words[:i]) == given)
    ]
    attrs["unigrams"] = [float(np.float32(d.random.uniform(0.1, 9))) for _ in words]
    attrs["range_max"] = mine + given + (1 if d.chance(0.05) else 0)
    attrs["distortion"] = d.pick([1.0, 0.75, 0.5])
    return Case([d.tensor(tf.int64, (d.int(0, 4), attrs["num_true"]), 0, attrs["range_max"])], attrs, disturb=False)


@op("LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler", count=30)
def learned(d):
    """What was true in one run comes more often in the next."""
    attrs = _sampling(d)
    graph = tf.Graph()
    with graph.as_default():
        classes = tf.compat.v1.placeholder(tf.int64, [None, attrs["num_true"]], "classes")
        getattr(raw, d.op)(true_classes=classes, name="drawn", **attrs)
    feeds = [
        {"classes:0": d.tensor(tf.int64, (d.int(0, 6), attrs["num_true"]), 0, attrs["range_max"])}
        for _ in range(d.int(1, 4))
    ]
    return Program(graph, [(feed, ["drawn:0", "drawn:1", "drawn:2"], []) for feed in feeds], "runs")
