# SPDX-License-Identifier: Apache-2.0
"""Pictures through layers: convolutions, poolings, normalisations, resizing."""
import numpy as np
import tensorflow as tf

from .inputs import case, cases

CONV = {"strides": [1, 1, 1, 1], "padding": "SAME"}
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}


def filters(i, window, channels=None):
    depth = i.shape("picture")[3]
    return i.floats((window, window, depth, channels or depth))


def halved(i):
    n, h, w, c = i.shape("picture")
    return i.floats((n, h // 2, w // 2, c))


case("Conv2D, 3x3; Conv, 3x3", lambda i: [i.picture(), filters(i, 3)], **CONV)
case("Conv2D, 1x1", lambda i: [i.picture(), filters(i, 1)], **CONV)
case("Conv2D, 3x3, stride 2", lambda i: [i.picture(), filters(i, 3)], strides=[1, 2, 2, 1], padding="SAME")
case("Conv2D, 3x3, dilated", lambda i: [i.picture(), filters(i, 3)], dilations=[1, 2, 2, 1], **CONV)
case(
    "Conv2D, 7x7, of 3 channels",
    lambda i: [
        i.floats(i.pick((1, 8, 8, 3), (1, 56, 56, 3), (4, 112, 112, 3))),
        i.floats((7, 7, 3, i.pick(4, 32, 64))),
    ],
    strides=[1, 2, 2, 1],
    padding="SAME",
)
cases("Conv2DBackpropInput", lambda i: [list(i.shape("picture")), filters(i, 3), i.picture()], **CONV)
cases("Conv2DBackpropFilter", lambda i: [i.picture(), [3, 3] + [i.shape("picture")[3]] * 2, i.picture()], **CONV)
cases("DepthwiseConv2dNative", lambda i: [i.picture(), filters(i, 3, 1)], **CONV)
cases("DepthwiseConv2dNativeBackpropInput", lambda i: [list(i.shape("picture")), filters(i, 3, 1), i.picture()], **CONV)
cases(
    "DepthwiseConv2dNativeBackpropFilter",
    lambda i: [i.picture(), [3, 3, i.shape("picture")[3], 1], i.picture()],
    **CONV
)

# Poolings.
cases("MaxPool AvgPool", lambda i: [i.picture()], **POOL)
case(
    "MaxPool, 3x3, stride 1; AvgPool, 3x3, stride 1",
    lambda i: [i.picture()],
    ksize=[1, 3, 3, 1],
    strides=[1, 1, 1, 1],
    padding="SAME",
)
cases("MaxPoolV2", lambda i: [i.picture(), [1, 2, 2, 1], [1, 2, 2, 1]], padding="VALID")
cases("MaxPoolGrad", lambda i: [i.picture(), halved(i), halved(i)], **POOL)
cases("MaxPoolGradV2", lambda i: [i.picture(), halved(i), halved(i), [1, 2, 2, 1], [1, 2, 2, 1]], padding="VALID")
cases("MaxPoolGradGrad", lambda i: [i.picture(), halved(i), i.picture()], **POOL)
cases("MaxPoolGradGradV2", lambda i: [i.picture(), halved(i), i.picture(), [1, 2, 2, 1], [1, 2, 2, 1]], padding="VALID")
cases("AvgPoolGrad", lambda i: [list(i.shape("picture")), halved(i)], **POOL)
cases("MaxPoolWithArgmax", lambda i: [i.picture()], **POOL)


def places(i):
    """Where in each window the largest stood: its first pixel."""
    n, h, w, c = i.shape("picture")
    at = (
        (np.arange(0, h // 2)[:, None, None] * 2 * w + np.arange(0, w // 2)[None, :, None] * 2) * c + np.arange(c)
    ).astype(np.int64)
    return i.read(np.broadcast_to(at, (n, h // 2, w // 2, c)).copy())


cases("MaxPoolGradWithArgmax", lambda i: [i.picture(), halved(i), places(i)], **POOL)
FRACTION = {"pooling_ratio": [1.0, 1.5, 1.5, 1.0], "deterministic": True, "seed": 3, "seed2": 4}
cases("FractionalMaxPool FractionalAvgPool", lambda i: [i.picture()], **FRACTION)


def rows(i, axis):
    side = i.shape("picture")[axis]
    return i.read(np.arange(0, side + 1, 2).astype(np.int64))


def pooled(i):
    """A picture and the largest of each four of its pixels."""
    n, h, w, c = i.shape("picture")
    x = i.reals((n, h, w, c))
    return [i.read(x), i.read(x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4)))]


cases("FractionalMaxPoolGrad", lambda i: [*pooled(i), halved(i), rows(i, 1), rows(i, 2)])
cases("FractionalAvgPoolGrad", lambda i: [np.array(i.shape("picture"), np.int64), halved(i), rows(i, 1), rows(i, 2)])

# Dilation.
DILATION = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}


def window(i):
    return i.floats((3, 3, i.shape("picture")[3]))


cases("Dilation2D", lambda i: [i.picture(), window(i)], **DILATION)
cases("Dilation2DBackpropFilter Dilation2DBackpropInput", lambda i: [i.picture(), window(i), i.picture()], **DILATION)

# Normalisations.


def channels(i, low=-1.0, high=1.0):
    return i.floats(i.shape("picture")[3:], low, high)


case(
    "FusedBatchNormV3, training",
    lambda i: [i.picture(), channels(i), channels(i), tf.zeros([0]), tf.zeros([0])],
    is_training=True,
)
case(
    "FusedBatchNorm, training; FusedBatchNormV2, training",
    lambda i: [i.picture(), channels(i), channels(i), tf.zeros([0]), tf.zeros([0])],
    is_training=True,
)
case(
    "FusedBatchNormV3, inference; FusedBatchNorm, inference",
    lambda i: [i.picture(), channels(i), channels(i), channels(i), channels(i, 0.5, 1)],
    is_training=False,
)
cases(
    "FusedBatchNormGrad FusedBatchNormGradV2",
    lambda i: [i.picture(), i.picture(), channels(i), channels(i), channels(i, 0.5, 1)],
)
cases(
    "FusedBatchNormGradV3",
    lambda i: [i.picture(), i.picture(), channels(i), channels(i), channels(i, 0.5, 1), channels(i)],
)
case(
    "FusedBatchNormGradV3, inference",
    lambda i: [i.picture(), i.picture(), channels(i), channels(i), channels(i, 0.5, 1), channels(i)],
    is_training=False,
)
cases("LRN", lambda i: [i.picture()])
cases("LRNGrad", lambda i: [i.picture(), i.picture(), i.picture()])


def doubled(i):
    return [2 * d for d in i.shape("picture")[1:3]]


# Resizing.
cases("ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea", lambda i: [i.picture(), doubled(i)])
case("ResizeBilinear, to half; ResizeArea, to half", lambda i: [i.picture(), [d // 2 for d in i.shape("picture")[1:3]]])
case(
    "ResizeBilinear, of 3 channels; ResizeNearestNeighbor, of 3 channels; ResizeBicubic, of 3 channels",
    lambda i: [
        i.floats(i.pick((1, 8, 8, 3), (1, 64, 64, 3), (4, 256, 256, 3))),
        i.pick([12, 12], [96, 96], [300, 300]),
    ],
)
cases("ResizeBilinearGrad ResizeBicubicGrad", lambda i: [i.picture(), halved(i)])
cases("ResizeNearestNeighborGrad", lambda i: [i.picture(), [d // 2 for d in i.shape("picture")[1:3]]])
cases(
    "ScaleAndTranslate",
    lambda i: [i.picture(), doubled(i), i.read(np.array([2, 2], np.float32)), i.read(np.array([0.5, 0.5], np.float32))],
)
cases(
    "ScaleAndTranslateGrad",
    lambda i: [i.picture(), halved(i), i.read(np.array([2, 2], np.float32)), i.read(np.array([0.5, 0.5], np.float32))],
)
