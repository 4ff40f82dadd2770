# SPDX-License-Identifier: Apache-2.0
"""Numbers as small integers with the range that they stand for."""
import numpy as np
import tensorflow as tf

from .inputs import case, cases

RANGE = [np.float32(-1), np.float32(1)]
for _mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
    case(
        f"QuantizeV2, {_mode}",
        lambda i: [i.matrix(), *RANGE],
        T=tf.qint8 if _mode == "SCALED" else tf.quint8,
        mode=_mode,
    )
    case(f"Dequantize, {_mode}", lambda i: [i.quantized(i.shape("matrix"), tf.quint8), *RANGE], mode=_mode)
case(
    "QuantizeV2, by channels",
    lambda i: [i.matrix(), np.full(i.shape("matrix")[1], -1, np.float32), np.full(i.shape("matrix")[1], 1, np.float32)],
    T=tf.qint8,
    mode="SCALED",
    axis=1,
)
cases("QuantizeAndDequantizeV2", lambda i: [i.matrix(), *RANGE], range_given=True)
case("QuantizeAndDequantizeV2, range found", lambda i: [i.matrix(), *RANGE])
cases("QuantizeAndDequantizeV4", lambda i: [i.matrix(), *RANGE], range_given=True)
cases("QuantizeAndDequantizeV3", lambda i: [i.matrix(), *RANGE, 8], range_given=True)
cases("QuantizeAndDequantizeV4Grad", lambda i: [i.matrix(), i.matrix(), *RANGE])
cases("FakeQuantWithMinMaxArgs", lambda i: [i.matrix()], min=-0.9, max=0.9)
cases("FakeQuantWithMinMaxArgsGradient", lambda i: [i.matrix(), i.matrix()], min=-0.9, max=0.9)
cases("FakeQuantWithMinMaxVars", lambda i: [i.matrix(), *RANGE])
cases("FakeQuantWithMinMaxVarsGradient", lambda i: [i.matrix(), i.matrix(), *RANGE])


def channels(i):
    many = i.shape("matrix")[1]
    return [i.floats((many,), -1, -0.5), i.floats((many,), 0.5, 1)]


cases("FakeQuantWithMinMaxVarsPerChannel", lambda i: [i.matrix(), *channels(i)])
cases("FakeQuantWithMinMaxVarsPerChannelGradient", lambda i: [i.matrix(), i.matrix(), *channels(i)])
cases("QuantizedRelu", lambda i: [i.quantized(i.shape("matrix")), *RANGE], out_type=tf.quint8)
cases(
    "QuantizedBiasAdd",
    lambda i: [i.quantized(i.shape("matrix")), i.quantized(i.shape("matrix")[1:]), *RANGE, *RANGE],
    out_type=tf.qint32,
)
cases(
    "QuantizedMatMul",
    lambda i: [i.quantized((i.pick(4, 96, 384),) * 2), i.quantized((i.pick(4, 96, 384),) * 2), *RANGE, *RANGE],
    Toutput=tf.qint32,
)
cases(
    "QuantizedConv2D",
    lambda i: [
        i.quantized(i.pick((1, 4, 4, 4), (1, 14, 14, 32), (2, 28, 28, 64))),
        i.quantized((3, 3, i.pick(4, 32, 64), i.pick(4, 32, 64))),
        *RANGE,
        *RANGE,
    ],
    out_type=tf.qint32,
    strides=[1, 1, 1, 1],
    padding="SAME",
)
cases(
    "QuantizedMaxPool",
    lambda i: [i.quantized(i.shape("picture")), *RANGE],
    ksize=[1, 2, 2, 1],
    strides=[1, 2, 2, 1],
    padding="VALID",
)
cases(
    "QuantizedConcat",
    lambda i: [
        np.int32(0),
        [i.quantized(i.shape("matrix")) for _ in range(2)],
        [np.float32(-1)] * 2,
        [np.float32(1)] * 2,
    ],
)
case(
    "QuantizedConcat, of other ranges",
    lambda i: [
        np.int32(0),
        [i.quantized(i.shape("matrix")) for _ in range(2)],
        [np.float32(-1), np.float32(-2)],
        [np.float32(1)] * 2,
    ],
)
cases("RequantizationRange", lambda i: [i.quantized(i.shape("matrix"), tf.qint32), *RANGE])
cases("QuantizeDownAndShrinkRange", lambda i: [i.quantized(i.shape("matrix"), tf.qint32), *RANGE], out_type=tf.quint8)
cases("Requantize", lambda i: [i.quantized(i.shape("matrix"), tf.qint32), *RANGE, *RANGE], out_type=tf.quint8)
