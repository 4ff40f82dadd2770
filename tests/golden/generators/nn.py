# SPDX-License-Identifier: Apache-2.0
"""Cases of the nn package."""
import numpy as np
import tensorflow as tf

from .draw import Case, op


@op("Relu", "Relu6", "Elu", "Softplus", "L2Loss")
def activation(d):
    return Case([d.tensor(d.dtype(), d.shape())])


@op("LeakyRelu")
def leaky(d):
    return Case([d.tensor(d.dtype(), d.shape())], {"alpha": d.pick([0.2, 0.0, 0.5, 1.0, -0.5, 2.0])})


@op("ReluGrad", "Relu6Grad", "EluGrad", "SoftplusGrad")
def gradient_of_activation(d):
    t, shape = d.dtype(), d.shape()
    # SoftplusGrad in half overflows in TensorFlow's exp(-x), ours is computed as float.
    special = 0 if d.op == "SoftplusGrad" and t == tf.float16 else 0.3
    return Case([d.tensor(t, shape, special=special), d.tensor(t, shape, special=special)])


@op("LeakyReluGrad")
def leaky_grad(d):
    t, shape = d.dtype(), d.shape()
    return Case([d.tensor(t, shape), d.tensor(t, shape)], {"alpha": d.pick([0.2, 0.0, 0.5, 1.0])})


@op("Softmax", "LogSoftmax")
def softmax(d):
    return Case([d.tensor(d.dtype(), d.shape(1, 4), special=0.1)])


@op("SoftmaxCrossEntropyWithLogits")
def cross_entropy(d):
    t, (rows, classes) = d.dtype(), d.shape(2, 2)
    labels = d.tensor(t, (1 if d.chance(0.2) else rows, classes), 0.01, 1)
    # Through its second output TensorFlow gives labels no gradient, and to labels for all rows one that is not summed.
    return Case(
        [d.tensor(t, (rows, classes), special=0.05), labels], gradients=len(labels) == rows, differentiated=(0,)
    )


@op("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(d):
    types = d.types()
    rows, classes = d.shape(2, 2)
    labels = d.tensor(types["Tlabels"], (rows,), 0, max(1, classes) + (1 if d.chance(0.1) else 0))
    return Case([d.tensor(types["T"], (rows, classes), special=0.05), labels])


@op("BiasAdd")
def bias_add(d):
    attrs = {"data_format": "NCHW"} if d.chance(0.4) else {}
    shape = d.shape(2, 5)
    channels = shape[1 if attrs else -1]
    t = d.dtype()
    return Case([d.tensor(t, shape), d.tensor(t, (channels,))], attrs)


@op("BiasAddGrad")
def bias_add_grad(d):
    attrs = {"data_format": "NCHW"} if d.chance(0.4) else {}
    return Case([d.tensor(d.dtype(), d.shape(2, 5), special=0.1)], attrs)


@op("InTopKV2")
def in_top_k(d):
    t = d.dtype()
    rows, classes = d.int(0, 6), d.int(1, 6)
    targets = d.tensor(t, (rows,), -1 if d.chance(0.2) else 0, classes + (1 if d.chance(0.2) else 0))
    predictions = np.round(d.tensor(tf.float32, (rows, classes), special=0.2) * 2) / 2
    return Case([predictions.astype(np.float32), targets, d.given(np.array(d.int(0, 4), t.as_numpy_dtype))])


class Window:
    """A window that moves over images, with padding: sizes and attributes of convolutions and pools."""

    def __init__(self, d, dilate=False, explicit=False, formats=("NHWC",), fits=False):
        self.format = d.pick(formats)
        self.size = (d.pick([1, 1, 2, 3, 3, 5]), d.pick([1, 2, 3, 3]))
        self.strides = d.pick([(1, 1), (1, 1), (2, 2), (1, 2), (3, 3)])
        self.dilations = d.pick([(1, 1), (2, 2), (1, 2)]) if dilate and d.chance(0.25) else (1, 1)
        self.padding = d.pick(["SAME", "VALID", "EXPLICIT"] if explicit else ["SAME", "VALID"])
        self.explicit = [d.int(0, 2) for _ in range(4)]
        extent = [(size - 1) * dilation + 1 for size, dilation in zip(self.size, self.dilations)]
        self.image = tuple(side + d.int(0, 6) if fits or d.chance(0.95) else max(1, side - 1) for side in extent)
        self.batch, self.depth = d.pick([0, 1, 1, 2, 3]), d.pick([1, 2, 3, 4, 8])

    def shape(self, sides, depth=None):
        depth = self.depth if depth is None else depth
        return (self.batch, *sides, depth) if self.format == "NHWC" else (self.batch, depth, *sides)

    def four(self, pair):
        return [1, *pair, 1] if self.format == "NHWC" else [1, 1, *pair]

    def attrs(self, pool=False):
        found = {"strides": self.four(self.strides), "padding": self.padding, "data_format": self.format}
        if pool:
            found["ksize"] = self.four(self.size)
        if self.padding == "EXPLICIT":
            pads = self.explicit
            found["explicit_paddings"] = [0, 0, *pads, 0, 0] if self.format == "NHWC" else [0, 0, 0, 0, *pads]
        if self.dilations != (1, 1):
            found["dilations"] = self.four(self.dilations)
        return found

    def output(self):
        """The sides of what comes out; at least 0."""
        sides = []
        for i in range(2):
            extent = (self.size[i] - 1) * self.dilations[i] + 1
            whole = self.image[i] + (sum(self.explicit[2 * i: 2 * i + 2]) if self.padding == "EXPLICIT" else 0)
            spare = whole - extent if self.padding != "SAME" else whole - 1
            sides.append(max(0, spare // self.strides[i] + 1))
        return tuple(sides)


@op("Conv2D", count=60)
def conv(d):
    t, w = d.dtype(), Window(d, dilate=True, explicit=True)
    out, groups = d.pick([1, 2, 4, 6]), 2 if d.chance(0.1) else 1
    x = d.tensor(t, w.shape(w.image, w.depth * groups), -2, 2)
    # Of an image without pixels TensorFlow leaves the filter's gradient uninitialised.
    return Case(
        [x, d.tensor(t, (*w.size, w.depth, out * groups), -1, 1)],
        w.attrs(),
        gradients=lambda case: case.inputs[0].size > 0,
    )


@op("Conv2DBackpropInput", count=40)
def conv_input(d):
    t, w = d.dtype(), Window(d, dilate=True, explicit=True)
    out = d.pick([1, 2, 4, 6])
    return Case(
        [
            d.ints(w.shape(w.image)),
            d.tensor(t, (*w.size, w.depth, out), -1, 1),
            d.tensor(t, w.shape(w.output(), out), -1, 1),
        ],
        w.attrs(),
    )


@op("Conv2DBackpropFilter", count=40)
def conv_filter(d):
    t, w = d.dtype(), Window(d, dilate=True, explicit=True)
    out = d.pick([1, 2, 4, 6])
    return Case(
        [
            d.tensor(t, w.shape(w.image), -1, 1),
            d.ints((*w.size, w.depth, out)),
            d.tensor(t, w.shape(w.output(), out), -1, 1),
        ],
        w.attrs(),
        answered=lambda case: case.inputs[0].size > 0,
    )


@op("MaxPool", "AvgPool", count=45)
def pool(d):
    # The gradient of an average over a window larger than the image is divided by too many cells in TensorFlow.
    w = Window(d, explicit=d.op == "MaxPool", fits=d.op == "AvgPool")
    x = d.tensor(d.dtype(), w.shape(w.image), special=0.1)
    return Case(
        [x], w.attrs(pool=True), gradients=not np.isnan(x.astype(np.float64)).any()
    )  # of NaN any may be the largest


@op("AvgPoolGrad", count=30)
def avg_pool_grad(d):
    w = Window(d, fits=True)
    return Case([d.ints(w.shape(w.image)), d.tensor(d.dtype(), w.shape(w.output()), -2, 2)], w.attrs(pool=True))


@op("MaxPoolGrad", "MaxPoolGradGrad", count=40)
def max_pool_grad(d):
    t, w = d.dtype(), Window(d, explicit=d.op == "MaxPoolGrad")
    x = d.tensor(t, w.shape(w.image), -9, 9)
    attrs = w.attrs(pool=True)
    if w.padding == "EXPLICIT":
        pads = attrs["explicit_paddings"]
        pads = [pads[2 * i: 2 * i + 2] for i in range(4)]
    else:
        pads = w.padding
    try:
        y = (
            tf.nn.max_pool2d(tf.constant(x.astype(np.float64), tf.float64), w.size, w.strides, pads)
            .numpy()
            .astype(x.dtype)
        )
    except (ValueError, tf.errors.OpError):
        y = d.tensor(t, w.shape(w.output()), -9, 9)
    return Case([x, y, d.tensor(t, y.shape if d.op == "MaxPoolGrad" else x.shape, -9, 9)], attrs, disturb=False)
