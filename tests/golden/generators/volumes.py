# SPDX-License-Identifier: Apache-2.0
"""Cases of windows over volumes, and of the convolution that is of either."""
import numpy as np
import tensorflow as tf

from .draw import Case, op
from .nn import Window


class Box:
    """A window that moves over volumes, with padding."""

    def __init__(self, d, fits=False):
        self.size = tuple(d.pick([1, 2, 2, 3]) for _ in range(3))
        # Where windows are smaller than their strides, TensorFlow begins inside of the volume; its gradients do not.
        self.strides = tuple(
            min(pair) for pair in zip(self.size, d.pick([(1, 1, 1), (1, 1, 1), (2, 2, 2), (1, 2, 1), (2, 1, 3)]))
        )
        self.padding = d.pick(["SAME", "VALID"])
        self.sides = tuple(side + d.int(0, 3) if fits or d.chance(0.97) else max(1, side - 1) for side in self.size)
        self.batch, self.depth = d.pick([0, 1, 1, 2]), d.pick([1, 2, 3, 5])

    def shape(self, sides, depth=None):
        return (self.batch, *sides, self.depth if depth is None else depth)

    def attrs(self, pool=False):
        found = {"strides": [1, *self.strides, 1], "padding": self.padding}
        if pool:
            found["ksize"] = [1, *self.size, 1]
        return found

    def output(self):
        spare = [side - (size if self.padding == "VALID" else 1) for side, size in zip(self.sides, self.size)]
        return tuple(max(0, s // stride + 1) for s, stride in zip(spare, self.strides))


@op("Conv3D", count=40)
def conv(d):
    t, b = d.dtype(), Box(d)
    return Case(
        [d.tensor(t, b.shape(b.sides), -2, 2), d.tensor(t, (*b.size, b.depth, d.pick([1, 2, 4])), -1, 1)],
        b.attrs(),
        gradients=lambda case: case.inputs[0].size > 0,
    )


@op("Conv3DBackpropInputV2", count=36)
def conv_input(d):
    types, b, out = d.types(), Box(d, fits=True), d.pick([1, 2, 4])
    t = types["T"]
    return Case(
        [
            d.ints(b.shape(b.sides), types["Tshape"]),
            d.tensor(t, (*b.size, b.depth, out), -1, 1),
            d.tensor(t, b.shape(b.output(), out), -1, 1),
        ],
        {**b.attrs(), "Tshape": types["Tshape"]},
        answered=lambda case: case.inputs[2].size > 0,
    )


@op("Conv3DBackpropFilterV2", count=36)
def conv_filter(d):
    t, b, out = d.dtype(), Box(d, fits=True), d.pick([1, 2, 4])
    return Case(
        [
            d.tensor(t, b.shape(b.sides), -1, 1),
            d.ints((*b.size, b.depth, out)),
            d.tensor(t, b.shape(b.output(), out), -1, 1),
        ],
        b.attrs(),
        answered=lambda case: case.inputs[0].size > 0,
    )


@op("Conv", count=40)
def any_conv(d):
    t = d.dtype()
    batch = tuple(d.int(1, 2) for _ in range(d.pick([0, 1, 1, 2, 3])))
    attrs = {"batch_dims": len(batch)} if len(batch) != 1 else {}
    out = d.pick([1, 2, 4])
    if d.chance(0.4) and t != tf.int32:
        b = Box(d)
        sides, depth, size = b.sides, b.depth, b.size
        attrs.update(b.attrs())
    else:
        w = Window(d, dilate=True, explicit=True)
        sides, depth, size = w.image, w.depth, w.size
        attrs.update({name: value for name, value in w.attrs().items() if name != "data_format"})
    # Of no pixels TensorFlow's result has one batch dim.
    return Case(
        [d.tensor(t, (*batch, *sides, depth), -2, 2), d.tensor(t, (*size, depth, out), -1, 1)],
        attrs,
        answered=lambda case: case.inputs[0].size > 0,
    )


def plain(d, t, shape, padding):
    """Numbers with infinities. Of NaN TensorFlow keeps some, and padding is larger than -infinity to it."""
    x = d.tensor(t, shape, special=0.15)
    wide = x.astype(np.float32)
    x[np.isnan(wide) | (np.isneginf(wide) & (padding == "SAME"))] = 0
    return x


@op("MaxPool3D", "AvgPool3D", count=30)
def pool(d):
    b = Box(d, fits=d.op == "AvgPool3D")
    return Case([plain(d, d.dtype(), b.shape(b.sides), b.padding)], b.attrs(pool=True))


@op("AvgPool3DGrad", count=26)
def avg_pool_grad(d):
    b = Box(d, fits=True)
    return Case([d.ints(b.shape(b.sides)), d.tensor(d.dtype(), b.shape(b.output()), -2, 2)], b.attrs(pool=True))


@op("MaxPool3DGrad", "MaxPool3DGradGrad", count=30)
def max_pool_grad(d):
    t, b = d.dtype(), Box(d)
    x = d.tensor(t, b.shape(b.sides), -9, 9)
    try:
        y = tf.nn.max_pool3d(tf.constant(x.astype(np.float32)), b.size, b.strides, b.padding).numpy().astype(x.dtype)
    except (ValueError, tf.errors.OpError):
        y = np.zeros(b.shape(b.output()), x.dtype)
    attrs = b.attrs(pool=True)
    if d.op == "MaxPool3DGrad":
        attrs.update(T=t, TInput=t)
    return Case([x, y, d.tensor(t, y.shape if d.op == "MaxPool3DGrad" else x.shape, -9, 9)], attrs, disturb=False)
