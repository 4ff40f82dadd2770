# SPDX-License-Identifier: Apache-2.0
"""Cases of fused ops, which TensorFlow's optimizer writes into frozen graphs."""
import tensorflow as tf

from .draw import Case, op
from .nn import Window

ACTIVATIONS = [[], [], ["Relu"], ["Relu6"], ["Elu"], ["LeakyRelu"]]


def _normalization(d, t, channels):
    return [
        d.tensor(t, (channels,), -1, 1),
        d.tensor(t, (channels,), -1, 1),
        d.tensor(t, (channels,), -1, 1),
        d.tensor(t, (channels,), 0.1, 2),
    ]


@op("_FusedConv2D", count=60)
def conv(d):
    t, w = d.dtype(among=[tf.float32, tf.float64]), Window(d, dilate=True, explicit=True)
    out = d.pick([1, 2, 4, 6])
    normal = d.chance(0.4)
    args = _normalization(d, t, out) if normal else [d.tensor(t, (out,), -1, 1)]
    attrs = w.attrs() | {
        "fused_ops": ["FusedBatchNorm" if normal else "BiasAdd"] + d.pick(ACTIVATIONS),
        "num_args": len(args),
        "num_host_args": 0,
        "leakyrelu_alpha": d.pick([0.2, 0.5]),
        "epsilon": d.pick([1e-4, 1e-2]),
    }
    if d.chance(0.05):
        attrs["fused_ops"] = d.pick([["Relu", "BiasAdd"], ["Nothing"], ["BiasAdd", "BiasAdd"]])
    # Of arguments that do not fit TensorFlow reads what lies beyond them.
    return Case(
        [d.tensor(t, w.shape(w.image), -2, 2), d.tensor(t, (*w.size, w.depth, out), -1, 1), args, []],
        attrs,
        disturb=False,
    )


@op("_FusedMatMul", count=60)
def matmul(d):
    t = d.dtype()
    m, k, n = d.int(1, 9), d.int(1, 9), d.int(1, 9)
    turn_a, turn_b = d.chance(0.3), d.chance(0.3)
    a, b = ((k, m) if turn_a else (m, k)), ((n, k) if turn_b else (k, n))
    attrs = {"transpose_a": turn_a, "transpose_b": turn_b, "leakyrelu_alpha": d.pick([0.2, 0.5]),
             "fused_ops": ["BiasAdd"] + d.pick(ACTIVATIONS + [["Tanh"], ["Sigmoid"]])}
    return Case([d.tensor(t, a, -2, 2), d.tensor(t, b, -1, 1), [d.tensor(t, (n,), -1, 1)]], attrs)
