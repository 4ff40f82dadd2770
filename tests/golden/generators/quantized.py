# SPDX-License-Identifier: Apache-2.0
"""Cases of the quantized package: numbers made small integers and back, and arithmetic with these."""
import numpy as np
import tensorflow as tf

from .draw import Case, op
from .fake_quant import around, bounds

F = tf.float32
KINDS = (tf.quint8, tf.qint8, tf.quint16, tf.qint16, tf.qint32)


def _range(d, t=F):
    """Bounds of a tensor, 0 between them, as scalars."""
    low, high = -abs(d.random.normal()) * d.pick([0.1, 1, 30]), abs(d.random.normal()) * d.pick([0.1, 1, 30]) + 1e-3
    if d.chance(0.1):
        low = 0.0
    return np.asarray(low, t.as_numpy_dtype), np.asarray(high, t.as_numpy_dtype)


def _given_range(d, t=F):
    return [d.given(one) for one in _range(d, t)]


def _axis(d, shape):
    """-1, or an axis that there is; seldom one that there is not."""
    if not shape or d.chance(0.5):
        return -1
    return d.int(0, len(shape) - 1) if not d.chance(0.05) else d.pick([len(shape), -2])


def _along(d, shape, axis, t=F):
    """Bounds for an axis: scalars or vectors."""
    if not 0 <= axis < len(shape):
        return _range(d, t) if axis != len(shape) else (np.zeros(1, t.as_numpy_dtype), np.ones(1, t.as_numpy_dtype))
    pairs = [_range(d, t) for _ in range(shape[axis])]
    return (np.array([one[k] for one in pairs], t.as_numpy_dtype) for k in (0, 1))


def _spread(bound, shape, axis):
    """A bound for each place of an axis, as it broadcasts against a tensor of the shape."""
    return (
        bound if not 0 <= axis < len(shape) or bound.ndim == 0 else bound.reshape([-1] + [1] * (len(shape) - axis - 1))
    )


def _has_inferred_bounds(case):
    """Of an axis with one place TensorFlow infers vectors of bounds and gives scalars."""
    axis, shape = case.attrs["axis"], case.inputs[0].shape
    return not 0 <= axis < len(shape) or shape[axis] != 1


@op("QuantizeV2", count=60)
def quantize(d):
    t, shape = d.turn(KINDS), d.shape()
    axis = _axis(d, shape)
    low, high = _along(d, shape, axis)
    mode = d.pick(["MIN_COMBINED", "MIN_FIRST", "SCALED"])
    attrs = {"T": t, "axis": axis, "mode": mode, "narrow_range": d.chance(0.3)}
    if d.chance(0.4):
        attrs["round_mode"] = "HALF_TO_EVEN" if mode == "SCALED" or d.chance(0.1) else "HALF_AWAY_FROM_ZERO"
    if d.chance(0.3):
        attrs["ensure_minimum_range"] = d.pick([0.0, 0.1, 1.0])
    x = (
        around(d, shape, _spread(low, shape, axis), _spread(high, shape, axis))
        if d.chance(0.9) or not shape
        else d.tensor(F, shape, special=0)
    )
    x = np.nan_to_num(x, nan=0.5)
    if t == tf.qint32 and mode != "MIN_FIRST":  # of the largest numbers TensorFlow makes the least integer
        x = np.minimum(x, _spread(high, shape, axis) * np.float32(0.9))
    if d.chance(0.08):
        low, high = high, low
    return Case([x, d.given(low), d.given(high)], attrs, answered=_has_inferred_bounds)


@op("Dequantize", count=60)
def dequantize(d):
    t, shape = d.turn(KINDS), d.shape()
    axis = _axis(d, shape)
    low, high = _along(d, shape, axis)
    mode = d.pick(["MIN_COMBINED", "MIN_FIRST", "SCALED"])
    attrs = {"axis": axis, "mode": mode, "narrow_range": d.chance(0.3)}
    if d.chance(0.3):
        attrs["dtype"] = tf.bfloat16
        attrs["mode"] = "MIN_COMBINED" if d.chance(0.9) else mode
    return Case([d.quantized(t, shape), d.given(low), d.given(high)], attrs)


def _round_trip(d):
    """The type, input and its bounds, and the attributes that all versions have."""
    t, shape = d.dtype(), d.shape(1 if d.op.endswith("V3") and d.chance(0.95) else 0)
    axis = _axis(d, shape)
    low, high = _along(d, shape, axis, t)
    x = np.nan_to_num(
        around(d, shape, _spread(low, shape, axis), _spread(high, shape, axis)), nan=0.5, posinf=1e3, neginf=-1e3
    ).astype(t.as_numpy_dtype)
    if d.chance(0.05):
        low, high = high, low
    return [x, d.given(low), d.given(high)], {
        "axis": axis,
        "signed_input": d.chance(0.6),
        "range_given": d.chance(0.6),
        "narrow_range": d.chance(0.4),
    }


@op("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4", count=40)
def round_trip(d):
    inputs, attrs = _round_trip(d)
    attrs["num_bits"] = d.pick([8, d.int(1, 16), d.int(1, 30)]) if d.chance(0.95) else d.pick([0, 62, 63])
    if d.chance(0.5):
        attrs["round_mode"] = d.pick(["HALF_TO_EVEN", "HALF_UP"])
    return Case(inputs, attrs)


@op("QuantizeAndDequantizeV3", count=40)
def round_trip_by_tensor(d):
    inputs, attrs = _round_trip(d)
    bits = d.pick([8, d.int(1, 16), d.int(1, 30)]) if d.chance(0.95) else d.pick([0, -1, 62, 63])
    return Case([*inputs, d.given(np.int32(bits))], attrs)


@op("QuantizeAndDequantizeV4Grad", count=30)
def round_trip_gradient(d):
    """Without its own gradient, for which TensorFlow takes the wrong inputs."""
    inputs, attrs = _round_trip(d)
    return Case([d.tensor(d.dtype(), inputs[0].shape, special=0), *inputs], {"axis": attrs["axis"]}, gradients=False)


# Arithmetic.
@op("QuantizedRelu")
def relu(d):
    t = d.turn((tf.quint8, tf.qint32))
    return Case([d.quantized(t, d.shape()), *_given_range(d)], {"out_type": t})


@op("QuantizedReshape")
def reshape(d):
    t, shape = d.turn((tf.quint8, tf.qint32)), d.shape(empty=0)
    count = int(np.prod(shape, dtype=np.int64))
    wanted = d.pick([[-1], [count], [1, -1], [count, 1, 1], list(shape[::-1])])
    return Case([d.quantized(t, shape), d.ints(wanted, d.pick([tf.int32, tf.int64])), *_given_range(d)])


@op("QuantizedBiasAdd")
def bias_add(d):
    t, shape = d.turn((tf.quint8, tf.qint8)), d.shape(2, 4)
    return Case(
        [d.quantized(t, shape), d.quantized(t, shape[-1:]), *_given_range(d), *_given_range(d)], {"out_type": tf.qint32}
    )


@op("QuantizedMatMul", count=40)
def matmul(d):
    m, n, k = (d.int(1, 40 if d.chance(0.2) else 6) for _ in range(3))
    turn = [d.chance(0.4) for _ in range(2)]
    a, b = ((k, m) if turn[0] else (m, k)), ((n, k) if turn[1] else (k, n))
    ranges = [*_given_range(d), *_given_range(d)]
    if d.chance(0.05):
        ranges[0], ranges[1] = ranges[1], ranges[0]
    return Case(
        [d.quantized(tf.quint8, a), d.quantized(tf.quint8, b), *ranges],
        {"transpose_a": turn[0], "transpose_b": turn[1], "Toutput": tf.qint32},
    )


@op("QuantizedConv2D", count=40)
def conv2d(d):
    channels, stride = d.int(1, 4), d.pick([1, 1, 2, 3])
    image, window = [d.int(1, 8) for _ in range(2)], [d.int(1, 3) for _ in range(2)]
    padding = d.pick(["SAME", "VALID"])
    if padding == "VALID" and not d.chance(0.05):
        image = [max(one, other) for one, other in zip(image, window)]
    strides = [1, stride, stride, 1] if d.chance(0.95) else d.pick([[1, 1, 2, 1], [2, 1, 1, 1], [1, 1, 1, 2]])
    attrs = {"out_type": tf.qint32, "strides": strides, "padding": padding}
    if d.chance(0.05):
        attrs["dilations"] = [1, 2, 2, 1]
    return Case(
        [
            d.quantized(tf.quint8, (d.int(1, 2), *image, channels)),
            d.quantized(tf.quint8, (*window, channels, d.int(1, 5))),
            *_given_range(d),
            *_given_range(d),
        ],
        attrs,
    )


@op("QuantizedMaxPool", count=40)
def max_pool(d):
    t = d.turn((tf.quint8, tf.qint8))
    window, stride = [d.int(1, 3) for _ in range(2)], [d.int(1, 3) for _ in range(2)]
    shape = (d.int(1, 2), d.int(3, 7), d.int(3, 7), d.int(1, 4))
    return Case(
        [d.quantized(t, shape), *_given_range(d)],
        {"ksize": [1, *window, 1], "strides": [1, *stride, 1], "padding": d.pick(["SAME", "VALID"])},
    )


@op("QuantizedConcat", count=40)
def concat(d):
    t, shape, count = d.turn((tf.quint8, tf.qint32)), list(d.shape(1, 4)), d.int(2, 4)
    axis = d.int(0, len(shape) - 1)
    parts, ranges, same = [], [], _range(d) if d.chance(0.3) else None
    for _ in range(count):
        shape[axis] = d.int(1, 4)
        parts.append(d.quantized(t, tuple(shape)))
        ranges.append(same or _range(d))
    return Case(
        [
            d.given(np.int32(axis if d.chance(0.9) else axis - len(shape))),
            parts,
            [one[0] for one in ranges],
            [one[1] for one in ranges],
        ],
        answered=lambda case: all(part.size for part in case.inputs[1]),
    )  # behind an empty one TensorFlow takes the wrong ranges


# Narrower.
def _sums(d):
    """Sums of products: often far from the ends of 32 bits."""
    limit = d.pick([100, 100_000, 2**31 - 1])
    return d.quantized(tf.qint32, d.shape(), -limit, limit)


@op("RequantizationRange")
def used_range(d):
    return Case([_sums(d), *_given_range(d)])


@op("QuantizeDownAndShrinkRange", count=40)
def shrink(d):
    return Case([_sums(d), *_given_range(d)], {"out_type": tf.quint8})


@op("Requantize", count=40)
def requantize(d):
    wanted = _given_range(d)
    if d.chance(0.08):
        wanted = [d.given(np.float32(one)) for one in d.pick([(0.5, 1), (-2, -1), (-1, -2), (0, 0)])]
    return Case([_sums(d), *_given_range(d), *wanted], {"out_type": d.turn((tf.quint8, tf.qint8))})
