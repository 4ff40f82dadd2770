# SPDX-License-Identifier: Apache-2.0
"""Cases of ops that older graphs have, or that gradients and trackers of variables write: each is close to another one,
whose cases stand elsewhere."""

import numpy as np
import tensorflow as tf

from .draw import Case, Program, Variable, of_producer, op
from .packed import ragged_of
from .summary import tags

raw = tf.raw_ops


@op("RefIdentity", count=30)
def same_reference(d):
    value = d.tensor(d.dtype(), d.shape())
    return Case([Variable(value, unset=value.size > 0 and d.chance(0.1))])


@op("DisableCopyOnRead", count=6)
def reads_are_shared(d):
    """A variable that is read, told so, written and read again."""
    t, shape = d.pick([tf.float32, tf.int64, tf.string]), d.shape(large=0)
    graph = tf.Graph()
    with graph.as_default():
        handle = raw.VarHandleOp(dtype=t, shape=shape, name="v")
        given = tf.compat.v1.placeholder(t, shape, "x")
        assign = raw.AssignVariableOp(resource=handle, value=given, name="assign")
        raw.DisableCopyOnRead(resource=handle, name="told")
        raw.ReadVariableOp(resource=handle, dtype=t, name="read")
    first, then = ({"x:0": d.tensor(t, shape)}, [], [assign.name]), ({"x:0": d.tensor(t, shape)}, [], [assign.name])
    read, told = ({}, ["read:0"], []), ({}, [], ["told"])
    return Program(
        graph,
        [told, first, read, told, read, then, read] if d.chance(0.3) else [first, told, read, then, read],
        f"{t.name} {shape}",
    )


def old(d, producer, inputs, attrs, kinds, outputs, about):
    """In a graph of a producer that TensorFlow still gives these kernels."""
    graph = tf.Graph()
    with graph.as_default():
        tf.graph_util.import_graph_def(of_producer(d.op, producer, inputs, attrs, kinds), name="")
    return Program(
        graph, [({f"x{i}:0": value for i, value in enumerate(inputs)}, [f"y:{i}" for i in range(outputs)], [])], about
    )


@op("AudioSummary", count=20)
def audio(d):
    shape = (d.int(0, 4), d.int(0, 9)) + ((d.int(1, 3),) if d.chance(0.5) else ())
    values = d.tensor(tf.float32, shape, *(() if d.chance(0.3) else (-1.2, 1.2)))
    return old(
        d,
        14,
        [tags(d, ()), values],
        {"sample_rate": float(d.pick([8000, 44100, 1.7, 0.3])), "max_outputs": d.int(1, 3)},
        {},
        1,
        f"{shape}",
    )


@op("BatchNormWithGlobalNormalization", "BatchNormWithGlobalNormalizationGrad", count=24)
def global_normalization(d):
    t, (n, h, w, c) = d.turn([tf.float32, tf.float16]), (d.int(1, 3), d.int(1, 3), d.int(1, 3), d.int(1, 4))
    image, backward = (n, h, w, c), d.op.endswith("Grad")
    inputs = [
        d.tensor(t, image, -2, 2),
        d.tensor(t, (c,), -1, 1),
        d.tensor(t, (c,), 0.3, 2),
        d.tensor(t, (c,), -1, 1),
        d.tensor(t, image if backward else (c,), -1, 1),
    ]
    attrs = {"variance_epsilon": d.pick([1e-3, 0.1]), "scale_after_normalization": d.chance(0.5)}
    return old(d, 8, inputs, attrs, {"T": t}, 5 if backward else 1, f"{t.name} {image}")


@op("RaggedTensorToVariantGradient", count=20)
def ragged_gradient(d):
    """Rows as variants, put together to what they came from, or to more."""
    t, split_type = d.turn([tf.float32, tf.float64, tf.int32]), d.pick([tf.int32, tf.int64])
    with tf.Graph().as_default() as graph:
        splits, values = ragged_of(d, t, split_type, 1, d.int(1, 4))
        variants = raw.RaggedTensorToVariant(
            rt_nested_splits=[tf.constant(one) for one in splits],
            rt_dense_values=tf.constant(values, t),
            batched_input=True,
        )
        made = raw.RaggedTensorToVariantGradient(
            encoded_ragged_grad=variants,
            row_splits=tf.constant(splits[0]),
            dense_values_shape=tf.constant(np.array(values.shape, np.int32)),
            Tvalues=t,
        )
    return Program(graph, [({}, [made.name], [])], f"{t.name} {values.shape}")
