# SPDX-License-Identifier: Apache-2.0
"""Cases of the state package: rows and slices of variables, changed by index."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, op
from .rearranging import _indices, _policy
from .state import variable


def _divisors(d, updates, dtype):
    """TensorFlow's process dies of an integer of a reference that is divided by 0."""
    return (
        np.where(updates == 0, np.ones_like(updates), updates) if d.op.endswith("Div") and dtype.is_integer else updates
    )


@op(
    "ScatterMul",
    "ScatterDiv",
    "ScatterMin",
    "ScatterMax",
    "ResourceScatterMul",
    "ResourceScatterDiv",
    "ResourceScatterMin",
    "ResourceScatterMax",
)
def scatter(d):
    resource = d.op.startswith("Resource")
    types = d.types("dtype" if resource else "T")
    t = types["dtype" if resource else "T"]
    shape = d.shape(1, 3)
    indices = d.tensor(types["Tindices"], d.shape(0, 2), 0, max(1, shape[0]) + (1 if d.chance(0.1) else 0))
    updates = d.tensor(t, () if d.chance(0.2) else indices.shape + shape[1:], special=0.1)
    return Case(
        [variable(d, t, shape), indices, _divisors(d, updates, t)], {} if resource else {"use_locking": d.chance(0.5)}
    )


@op(
    "ScatterNdUpdate",
    "ScatterNdAdd",
    "ScatterNdSub",
    "ScatterNdMin",
    "ScatterNdMax",
    "ResourceScatterNdUpdate",
    "ResourceScatterNdAdd",
    "ResourceScatterNdSub",
    "ResourceScatterNdMin",
    "ResourceScatterNdMax",
)
def scatter_nd(d):
    t = d.dtype(among=registry.dtypes(d.op))
    types = d.pick([c for c in registry.combinations(d.op) if c["T"] == t])
    shape = d.shape(1, 4)
    indices, updates = _indices(d, types["Tindices"], shape, distinct=d.op.endswith("Update"))
    return Case(
        [variable(d, types["T"], shape), indices, d.tensor(types["T"], updates, special=0.1)],
        {"use_locking": d.chance(0.5), **_policy(d)},
    )
