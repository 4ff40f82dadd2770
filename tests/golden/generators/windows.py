# SPDX-License-Identifier: Apache-2.0
"""Cases of windows over images that nn.py has not: poolings with places, or with windows that are inputs or drawn,
dilation; and the largest of rows."""

import numpy as np
import tensorflow as tf

from .draw import Case, op
from .nn import Window


def pooled(x, w, dtype):
    """What MaxPool makes of x, or zeros of the shape where TensorFlow refuses."""
    try:
        return (
            tf.nn.max_pool2d(tf.constant(x.astype(np.float64), tf.float64), w.size, w.strides, w.padding)
            .numpy()
            .astype(x.dtype)
        )
    except (ValueError, tf.errors.OpError):
        return np.zeros(w.shape(w.output()), x.dtype)


def window_inputs(d, w):
    return [d.ints(w.four(w.size)), d.ints(w.four(w.strides))]


@op("MaxPoolV2", count=40)
def pool_v2(d):
    w = Window(d)
    x = d.tensor(d.dtype(), w.shape(w.image), special=0.1)
    return Case([x, *window_inputs(d, w)], {"padding": w.padding}, gradients=not np.isnan(x.astype(np.float64)).any())


@op("MaxPoolGradV2", "MaxPoolGradGradV2", count=36)
def pool_grad_v2(d):
    t, w = d.dtype(), Window(d)
    x = d.tensor(t, w.shape(w.image), -9, 9)
    y = pooled(x, w, t)
    gradient = d.tensor(t, y.shape if d.op == "MaxPoolGradV2" else x.shape, -9, 9)
    return Case([x, y, gradient, *window_inputs(d, w)], {"padding": w.padding}, disturb=False,
                answered=y.size > 0)  # else TensorFlow gives memory that it never wrote


@op("MaxPoolWithArgmax", count=40)
def pool_with_argmax(d):
    w, types = Window(d), d.types()
    x = d.tensor(types["T"], w.shape(w.image), special=0.1)
    attrs = {name: value for name, value in w.attrs(pool=True).items() if name != "data_format"}
    return Case([x], {**attrs, "Targmax": types["Targmax"], "include_batch_in_index": d.chance(0.5)})


@op("MaxPoolGradWithArgmax", count=40)
def pool_grad_with_argmax(d):
    w, t, in_batch = Window(d), d.dtype(), d.chance(0.5)
    x = d.tensor(t, w.shape(w.image), -9, 9)
    image = int(np.prod(x.shape[1:]))
    shape = w.shape(w.output())
    places = d.random.integers(0, max(1, image), shape)
    if in_batch:
        places += np.arange(shape[0]).reshape(-1, 1, 1, 1) * image
    attrs = {name: value for name, value in w.attrs(pool=True).items() if name != "data_format"}
    # A place outside of the image ends TensorFlow's process.
    return Case(
        [x, d.tensor(t, shape, -9, 9), places.astype(np.int64)],
        {**attrs, "include_batch_in_index": in_batch},
        disturb=False,
    )


@op("Dilation2D", count=40)
def dilation(d):
    t, w = d.dtype(), Window(d, dilate=True)
    attrs = {"strides": w.four(w.strides), "rates": w.four(w.dilations), "padding": w.padding}
    return Case(
        [d.tensor(t, w.shape(w.image), special=0.1), d.tensor(t, (*w.size, w.depth), -5, 5)],
        attrs,
        gradients=lambda case: case.inputs[0].size > 0 and not np.isnan(case.inputs[0].astype(np.float64)).any(),
    )


@op("Dilation2DBackpropInput", "Dilation2DBackpropFilter", count=36)
def dilation_grad(d):
    t, w = d.dtype(), Window(d, dilate=True)
    attrs = {"strides": w.four(w.strides), "rates": w.four(w.dilations), "padding": w.padding}
    return Case(
        [
            d.tensor(t, w.shape(w.image), -9, 9),
            d.tensor(t, (*w.size, w.depth), -5, 5),
            d.tensor(t, w.shape(w.output()), -9, 9),
        ],
        attrs,
    )


def _ratios(d):
    return [
        1.0,
        d.pick([1.0, 1.3, 1.44, 1.73, 2.0, 2.6, 0.5 if d.chance(0.1) else 3.0]),
        d.pick([1.0, 1.25, 1.5, 2.3]),
        1.0,
    ]


@op("FractionalMaxPool", "FractionalAvgPool", count=30)
def fractional_pool(d):
    t = d.dtype()
    shape = (d.int(1, 2), d.int(1, 12), d.int(1, 9), d.int(1, 3))
    attrs = {
        "pooling_ratio": _ratios(d),
        "pseudo_random": d.chance(0.5),
        "overlapping": d.chance(0.5),
        "deterministic": True,
        "seed": d.int(1, 1000),
        "seed2": d.int(0, 3),
    }
    return Case([d.tensor(t, shape, special=0.1 if d.op == "FractionalMaxPool" else 0)], attrs,
                gradients=lambda case: not np.isnan(case.inputs[0].astype(np.float64)).any())


def _cuts(d, size):
    """Where the regions of a direction begin, and where the last one ends."""
    return np.array(
        [0, *sorted(d.random.choice(np.arange(1, size), d.int(0, min(size - 1, 3)), replace=False)), size], np.int64
    )


@op("FractionalMaxPoolGrad", "FractionalAvgPoolGrad", count=30)
def fractional_pool_grad(d):
    t, overlapping = d.dtype(), d.chance(0.5)
    batch, height, width, depth = d.int(1, 2), d.int(1, 7), d.int(1, 6), d.int(1, 3)
    rows, columns = _cuts(d, height), _cuts(d, width)
    more = 1 if overlapping else 0
    x = d.tensor(t, (batch, height, width, depth), -9, 9)
    y = np.array(
        [
            [x[:, r : s + more, a : b + more].max((1, 2)) for a, b in zip(columns, columns[1:])]
            for r, s in zip(rows, rows[1:])
        ]
    ).transpose(2, 0, 1, 3)
    dy = d.tensor(t, y.shape, -9, 9)
    if d.op == "FractionalMaxPoolGrad":
        return Case([x, y, dy, rows, columns], {"overlapping": overlapping}, disturb=False)
    return Case([d.ints(x.shape, tf.int64), dy, rows, columns], {"overlapping": overlapping}, disturb=False)


@op("ApproxTopK", count=25)
def approx_top_k(d):
    shape = d.shape(1, 3, empty=0)
    # On the CPU TensorFlow has the largest along the last dim alone.
    return Case([d.tensor(d.dtype(among=(tf.float16, tf.bfloat16, tf.float32)), shape, -5, 5)],
                {"k": d.int(0, shape[-1] + (1 if d.chance(0.1) else 0)), "aggregate_to_topk": d.chance(0.5)})
