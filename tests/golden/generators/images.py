# SPDX-License-Identifier: Apache-2.0
"""Cases of the nn package: batch normalisation, depthwise convolution, response normalisation, resizing."""
import numpy as np
import tensorflow as tf

from .draw import Case, Program, op


def _image(d, low=1):
    return tuple(d.int(low, 6) for _ in range(3))


def _layout(d):
    """A shape, its data_format, and the channels."""
    formats = ["NHWC", "NCHW"] + (["NDHWC", "NCDHW"] if d.op.endswith("V3") else [])
    data_format = d.pick(formats)
    channels = d.int(1, 5)
    inner = [d.int(1, 4) for _ in range(len(data_format) - 2)]
    shape = [d.int(1, 3), channels, *inner] if data_format[1] == "C" else [d.int(1, 3), *inner, channels]
    return tuple(shape), data_format, channels


@op("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(d):
    t = d.dtype()
    shape, data_format, channels = _layout(d)
    training = d.chance(0.6)
    attrs = {"data_format": data_format, "is_training": training, "epsilon": d.pick([1e-4, 0.01, 1.0])}
    if training and d.chance(0.4):
        attrs["exponential_avg_factor"] = d.pick([0.0, 0.1, 0.5, 0.9])
    u = tf.float32
    averages = (0,) if training and "exponential_avg_factor" not in attrs and d.chance(0.5) else (channels,)
    x = d.tensor(t, shape, special=0.03 if training else 0.1)
    vectors = [
        d.tensor(u, (channels,), -2, 2),
        d.tensor(u, (channels,), -2, 2),
        d.tensor(u, averages, -1, 1),
        d.tensor(u, averages, 0.1, 2),
    ]
    if not training:
        return _inference(d, [x, *vectors], attrs)
    # Of no elements TensorFlow leaves the batch's mean and variance uninitialised.
    return Case([x, *vectors], attrs, differentiated=(0,), answered=lambda case: case.inputs[0].size > 0)


def _inference(d, values, attrs):
    """TensorFlow leaves the outputs for the gradient uninitialised: only the others are asked."""
    names = ("x", "scale", "offset", "mean", "variance")
    with tf.Graph().as_default() as graph:
        inputs = {
            name: tf.compat.v1.placeholder(value.dtype, value.shape, name=name) for name, value in zip(names, values)
        }
        getattr(tf.raw_ops, d.op)(**inputs, **attrs, name="node")
    feeds = {f"{name}:0": value for name, value in zip(names, values)}
    return Program(
        graph,
        [(feeds, ["node:0", "node:1", "node:2"], [])],
        f"{d.op} in inference",
        (["node"], ["x", "scale", "offset"]),
    )


@op("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def batch_norm_grad(d):
    t = d.dtype()
    shape, data_format, channels = _layout(d)
    vectors = [
        d.tensor(tf.float32, (channels,), -2, 2),
        d.tensor(tf.float32, (channels,), -1, 1),
        d.tensor(tf.float32, (channels,), 0.1, 2),
    ]
    if d.op.endswith("V3"):
        vectors.append(np.float32(0))
    return Case(
        [d.tensor(t, shape, -2, 2), d.tensor(t, shape, -2, 2), *vectors],
        {"data_format": data_format, "is_training": d.chance(0.5), "epsilon": d.pick([0.01, 1.0])},
        differentiated=(0, 1, 2),
    )


def _depthwise(d):
    height, width, channels = _image(d)
    f = (d.int(1, 3), d.int(1, 3), channels, d.int(1, 3))
    stride = d.int(1, 3)
    padding = d.pick(["SAME", "VALID", "EXPLICIT"])
    attrs = {"strides": [1, stride, stride, 1], "padding": padding}
    pads = [0] * 8
    if padding == "EXPLICIT":
        pads[2:6] = [d.int(0, 2) for _ in range(4)]
        attrs["explicit_paddings"] = pads
    out = []
    for i, size in enumerate((height, width)):
        padded = size + pads[2 + 2 * i] + pads[3 + 2 * i]
        out.append(-(-size // stride) if padding == "SAME" else max(0, (padded - f[i]) // stride + 1))
    batch = d.int(1, 3)
    return (batch, height, width, channels), f, (batch, *out, channels * f[3]), attrs


def _some(case):
    """Whether nothing is empty: where there is nothing to add up, TensorFlow leaves the gradients uninitialised."""
    values = [getattr(one, "value", one) for one in case.inputs]
    return all(value.size and (value.dtype != np.int32 or value.all()) for value in values)


def _written(case):
    """The same of a gradient itself, which is whole where it has no elements either."""
    return _some(case) or any(
        not value.all() for value in (getattr(one, "value", one) for one in case.inputs[:2]) if value.dtype == np.int32
    )


@op("DepthwiseConv2dNative")
def depthwise(d):
    t = d.dtype()
    x, f, _, attrs = _depthwise(d)
    return Case([d.tensor(t, x, special=0.05), d.tensor(t, f, special=0)], attrs, gradients=_some)


@op("DepthwiseConv2dNativeBackpropInput")
def depthwise_input(d):
    t = d.dtype()
    x, f, y, attrs = _depthwise(d)
    # TensorFlow's gradient of the filter multiplies the padding's zeros too, which makes NaN of what is not finite;
    # ours leaves the padding out.
    return Case([d.ints(x), d.tensor(t, f, special=0), d.tensor(t, y, special=0.05)], attrs, answered=_written,
                gradients=lambda case: _some(case) and bool(np.isfinite(case.inputs[2].astype(np.float32)).all()))


@op("DepthwiseConv2dNativeBackpropFilter")
def depthwise_filter(d):
    t = d.dtype()
    x, f, y, attrs = _depthwise(d)
    return Case(
        [d.tensor(t, x, special=0.05), d.ints(f), d.tensor(t, y, special=0)], attrs, answered=_written, gradients=_some
    )


def _lrn(d):
    return {
        "depth_radius": d.int(0, 5),
        "bias": d.pick([1.0, 2.0]),
        "alpha": d.pick([1.0, 0.1, 1e-4]),
        "beta": d.pick([0.5, 0.75, 1.0]),
    }


@op("LRN")
def lrn(d):
    return Case([d.tensor(d.dtype(), (d.int(0, 2), *_image(d)), -3, 3)], _lrn(d))


@op("LRNGrad")
def lrn_grad(d):
    t, shape = d.dtype(), (d.int(1, 2), *_image(d))
    return Case([d.tensor(t, shape, -3, 3), d.tensor(t, shape, -3, 3), d.tensor(t, shape, -1, 1)], _lrn(d))


def _sampling(d):
    return d.pick([{}, {"align_corners": True}, {"half_pixel_centers": True}])


@op("ResizeBilinear", "ResizeNearestNeighbor")
def resize(d):
    shape = (d.int(0, 2), *_image(d))
    return Case([d.tensor(d.dtype(), shape, -100, 100), d.ints([d.int(1, 9), d.int(1, 9)])], _sampling(d))


@op("ResizeBilinearGrad")
def resize_bilinear_grad(d):
    t = d.dtype()
    batch, channels = d.int(1, 2), d.int(1, 3)
    dy, x = (batch, d.int(1, 8), d.int(1, 8), channels), (batch, d.int(1, 6), d.int(1, 6), channels)
    return Case([d.tensor(tf.float32, dy, -2, 2), d.tensor(t, x, -2, 2)], _sampling(d))


@op("ResizeNearestNeighborGrad")
def resize_nearest_grad(d):
    return Case(
        [d.tensor(d.dtype(), (d.int(1, 2), *_image(d)), -5, 5), d.ints([d.int(1, 6), d.int(1, 6)])], _sampling(d)
    )
