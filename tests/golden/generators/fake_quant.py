# SPDX-License-Identifier: Apache-2.0
"""Cases of the quantized package: quantization as training simulates it."""
import numpy as np
import tensorflow as tf

from .draw import Case, op

F = tf.float32


def _bits(d):
    """The numbers of bits that there are, and seldom one more or less."""
    return {
        "num_bits": d.pick([8, 8, d.int(2, 16), d.int(2, 16), d.pick([1, 17])] if d.chance(0.2) else [8, d.int(2, 16)]),
        "narrow_range": d.chance(0.4),
    }


def bounds(d, shape=()):
    """A lower and an upper one, 0 between them or not; seldom both 0, or equal, or the wrong way round."""
    low, high = -np.abs(d.tensor(F, shape, special=0.02)), np.abs(d.tensor(F, shape, special=0.02))
    low, high = np.where(np.isfinite(low), low, np.float32(-1)), np.where(np.isfinite(high), high, np.float32(1))
    if d.chance(0.15):
        move = d.tensor(F, shape, -3, 3)
        low, high = low + move, high + move
    zero = d.random.random(shape) < (0.3 if d.chance(0.2) else 0)
    return np.asarray(np.where(zero, 0, low), np.float32), np.asarray(np.where(zero, 0, high), np.float32)


def around(d, shape, low, high):
    """Numbers within the bounds and a little outside, some of them halves of a step."""
    spread = np.maximum(np.abs(high - low), 1e-3)
    x = d.random.uniform(-0.2, 1.2, shape) * spread + low
    if d.chance(0.3):
        x = low + np.round(d.random.uniform(0, 510, shape)) / 510 * spread
    if d.chance(0.1) and x.size:
        x = np.where(d.random.random(shape) < 0.2, d.pick([np.inf, -np.inf, np.nan, 0.0, -0.0]), x)
    return np.asarray(x, np.float32)


def _args(d):
    low, high = (float(x) for x in bounds(d))
    if not d.chance(0.1) and not low < high:
        low, high = -6.0, 6.0
    return low, high, {"min": low, "max": high, **_bits(d)} if d.chance(0.8) else {}


@op("FakeQuantWithMinMaxArgs", count=40)
def args(d):
    low, high, attrs = _args(d)
    return Case([around(d, d.shape(), low, high)], attrs)


@op("FakeQuantWithMinMaxArgsGradient", count=30)
def args_gradient(d):
    low, high, attrs = _args(d)
    x = around(d, d.shape(), low, high)
    return Case([d.tensor(F, x.shape, special=0.05), x], attrs)


@op("FakeQuantWithMinMaxVars", count=40)
def variables(d):
    low, high = bounds(d)
    return Case([around(d, d.shape(), low, high), d.given(low), d.given(high)], _bits(d))


@op("FakeQuantWithMinMaxVarsGradient", count=30)
def variables_gradient(d):
    low, high = bounds(d)
    x = around(d, d.shape(), low, high)
    return Case([d.tensor(F, x.shape, special=0), x, d.given(low), d.given(high)], _bits(d))


@op("FakeQuantWithMinMaxVarsPerChannel", count=40)
def channels(d):
    shape = d.shape(1, 4)
    low, high = bounds(d, shape[-1:])
    return Case([around(d, shape, low, high), d.given(low), d.given(high)], _bits(d))


@op("FakeQuantWithMinMaxVarsPerChannelGradient", count=30)
def channels_gradient(d):
    shape = d.shape(1, 4)
    low, high = bounds(d, shape[-1:])
    return Case([d.tensor(F, shape, special=0), around(d, shape, low, high), d.given(low), d.given(high)], _bits(d))
