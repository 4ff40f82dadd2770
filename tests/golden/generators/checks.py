# SPDX-License-Identifier: Apache-2.0
"""Cases of packages control, io and state: what must hold of values, shapes and strings; variables' shapes."""
import tensorflow as tf

from .draw import Case, Variable, op


@op("EnsureShape")
def ensure_shape(d):
    t, shape = d.dtype(), d.shape()
    wanted = [None if d.chance(0.3) else dim + d.chance(0.1) for dim in shape] + ([2] if d.chance(0.05) else [])
    return Case([d.tensor(t, shape)], {"shape": tf.TensorShape(wanted)})


@op("StaticRegexFullMatch", count=40)
def regex(d):
    patterns = [
        "^s3://.*",
        ".*",
        "",
        "a|tensor",
        "(?i)A.*",
        "\\pL+",
        "^.$",
        "(?s).*",
        "[a-z]+",
        "a.",
        "[",
        "(",
        "a{2,3}",
        "(?P<n>a)b",
    ]
    return Case([d.tensor(tf.string, d.shape(0, 3))], {"pattern": d.turn(patterns)})


@op("VariableShape")
def variable_shape(d):
    t = d.pick([tf.float32, tf.int64, tf.bool, tf.half])
    return Case([Variable(d.tensor(t, d.shape()), unset=d.chance(0.05))], {"out_type": d.dtype("out_type")})
