# SPDX-License-Identifier: Apache-2.0
"""Cases of the math package: rows by segment, besides their plain sums."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, op


def rows(d, t, shape):
    """Means and products of whole numbers stay whole numbers that the type holds."""
    if t in registry.INTEGERS:
        return d.tensor(t, shape, 0 if t.is_unsigned else -3, 4)
    x = d.tensor(t, shape, 0.5, 1.5) if "Prod" in d.op and d.chance(0.6) else d.tensor(t, shape, special=0.1)
    return np.where(
        np.isfinite(x), x, x.dtype.type(2)
    )  # which of NaN and numbers is the largest TensorFlow leaves to chance


@op("SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd")
def sorted_segments(d):
    types = d.types()
    shape = d.shape(1, 3)
    ids = np.sort(d.tensor(types["Tindices"], shape[:1], 0, d.pick([1, 3, 6])))
    if d.chance(0.1):
        ids = ids[::-1].copy()
    return Case([rows(d, types["T"], shape), ids])


@op("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd")
def unsorted_segments(d):
    types = d.types()
    shape = d.shape(0, 3)
    count = d.pick([0, 1, 3, 6])
    ids = d.tensor(types["Tindices"], shape[:d.int(0, len(shape))], -1, max(1, count) + (1 if d.chance(0.1) else 0))
    return Case([rows(d, types["T"], shape), ids, d.given(np.array(count, types["Tnumsegments"].as_numpy_dtype))])


@op("SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments", "SparseSegmentSumWithNumSegments")
def numbered_segments(d):
    types = d.types()
    shape = d.shape(1, 3, empty=0.02)
    n = d.pick([0, 1, 3, 7])
    count = d.pick([0, 1, 4, 6])
    indices = d.tensor(types["Tidx"], (n,), 0, max(1, shape[0]) + (1 if d.chance(0.05) else 0))
    ids = np.sort(d.tensor(types["Tsegmentids"], (n,), 0, max(1, count) + (1 if d.chance(0.1) else 0)))
    return Case(
        [
            d.tensor(types["T"], shape, special=0.1),
            indices,
            ids,
            d.given(np.array(count, types["Tnumsegments"].as_numpy_dtype)),
        ],
        {"sparse_gradient": d.chance(0.3)},
        gradients=lambda case: case.inputs[1].size > 0,
    )  # of no rows TensorFlow's gradient is what the memory held
