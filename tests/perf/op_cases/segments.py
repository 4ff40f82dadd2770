# SPDX-License-Identifier: Apache-2.0
"""Rows summed by segment."""
import numpy as np

from .inputs import case, cases


def side(i, axis=0):
    return i.shape("matrix")[axis]


def ids(i, many, segments, dtype=np.int32):
    """In order, none left out that comes before another."""
    return i.read(np.sort(i.random.integers(0, segments, many)).astype(dtype))


def segments(i):
    return max(2, side(i) // 8)


cases(
    "SegmentSum SegmentMean SegmentMax SegmentMin SegmentProd",
    lambda i: [i.matrix(0.9, 1.1), ids(i, side(i), segments(i))],
)
cases(
    "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd",
    lambda i: [i.matrix(0.9, 1.1), i.ints((side(i),), 4), 4],
)
case(
    "UnsortedSegmentSum, single elements",
    lambda i: [i.floats((np.prod(i.shape("matrix")),)), i.ints((np.prod(i.shape("matrix")),), 1000), 1000],
)
case("UnsortedSegmentSum, many segments", lambda i: [i.matrix(), i.ints((side(i),), side(i)), side(i)])


def bags(i):
    """Rows of a table that are summed by segment: as many as the table has."""
    return [i.matrix(), i.ints((side(i),), side(i)), ids(i, side(i), segments(i))]


cases("SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN", bags)
cases(
    "SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments",
    lambda i: [*bags(i), segments(i)],
)


def gradients(i):
    return [i.floats((segments(i), side(i, 1))), i.ints((side(i),), side(i)), ids(i, side(i), segments(i)), side(i)]


cases("SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad", gradients)
cases("SparseSegmentSumGradV2 SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2", gradients)
