# SPDX-License-Identifier: Apache-2.0
"""Cases of the state package: rows and slices of variables."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, op
from .state import variable


@op("ResourceScatterSub", "ResourceScatterUpdate", "ScatterUpdate")
def scatter(d):
    attr = "dtype" if d.op.startswith("Resource") else "T"
    t = d.dtype(attr, among=registry.dtypes(d.op, attr))
    shape = d.shape(1, 3)
    indices = d.tensor(d.pick([tf.int32, tf.int64]), d.shape(0, 2), 0, max(1, shape[0]) + (1 if d.chance(0.1) else 0))
    updates = d.tensor(t, () if d.chance(0.2) else indices.shape + shape[1:], special=0.1)
    return Case([variable(d, t, shape), indices, updates], {"use_locking": d.chance(0.5)} if attr == "T" else {})


@op("ResourceGatherNd")
def gather_nd(d):
    t = d.dtype("dtype", among=registry.dtypes(d.op, "dtype"))
    shape = d.shape(1, 3, empty=0)
    depth = d.int(1, len(shape))
    rows = d.shape(1, 2, empty=0.05, large=0)
    indices = np.stack([d.random.integers(0, dim, rows) for dim in shape[:depth]], -1) if rows else np.zeros((0, depth))
    if indices.size and d.chance(0.1):
        indices.flat[0] = d.pick([-1, 100])
    return Case([variable(d, t, shape), indices.astype(d.pick([np.int32, np.int64]))], {"dtype": t})
