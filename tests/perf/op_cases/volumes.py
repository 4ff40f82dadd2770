# SPDX-License-Identifier: Apache-2.0
"""Volumes through layers."""
import numpy as np

from .inputs import case, cases

CONV = {"strides": [1] * 5, "padding": "SAME"}
POOL = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}


def small(i):
    return i.pick((1, 4, 4, 4, 4), (1, 8, 16, 16, 16), (1, 16, 28, 28, 32))


def filters(i):
    depth = small(i)[4]
    return i.floats((3, 3, 3, depth, depth))


def halved(i):
    n, *sides, c = i.shape("volume")
    return i.floats((n, *(side // 2 for side in sides), c))


cases("Conv3D", lambda i: [i.floats(small(i)), filters(i)], **CONV)
case("Conv3D, stride 2", lambda i: [i.floats(small(i)), filters(i)], strides=[1, 2, 2, 2, 1], padding="SAME")
cases("Conv3DBackpropInputV2", lambda i: [list(small(i)), filters(i), i.floats(small(i))], **CONV)
cases(
    "Conv3DBackpropFilterV2", lambda i: [i.floats(small(i)), [3, 3, 3] + [small(i)[4]] * 2, i.floats(small(i))], **CONV
)
cases("MaxPool3D AvgPool3D", lambda i: [i.volume()], **POOL)
case(
    "MaxPool3D, 3x3x3, stride 1; AvgPool3D, 3x3x3, stride 1",
    lambda i: [i.volume()],
    ksize=[1, 3, 3, 3, 1],
    strides=[1] * 5,
    padding="SAME",
)
cases("MaxPool3DGrad", lambda i: [i.volume(), halved(i), halved(i)], **POOL)
cases("MaxPool3DGradGrad", lambda i: [i.volume(), halved(i), i.volume()], **POOL)
cases("AvgPool3DGrad", lambda i: [np.array(i.shape("volume"), np.int32), halved(i)], **POOL)
