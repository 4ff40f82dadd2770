# SPDX-License-Identifier: Apache-2.0
"""Graphs as exports have them: gradients that TensorFlow made, also of gradients, within functions and conditionals;
branches by number."""

import numpy as np
import tensorflow as tf

from .draw import Program, op

raw = tf.raw_ops
v1 = tf.compat.v1


def _called(function, *arguments):
    """What the function gives in a call of it, as a tf.function has it; the call is a conditional's, of which both
    branches are that."""
    made = tf.function(function, autograph=False).get_concrete_function(
        *(tf.TensorSpec(one.shape, one.dtype) for one in arguments)
    )
    made.add_to_graph()
    return raw.If(
        cond=v1.placeholder(tf.bool, [], "either"),
        input=list(arguments),
        Tout=[output.dtype for output in made.outputs],
        then_branch=made,
        else_branch=made,
    )


@op("If", count=16)
def gradients(d):
    """Of products along axes (ListDiff finds the others), and of parts (ParallelDynamicStitch joins them)."""
    t, graph = d.pick([tf.float32, tf.float64]), tf.Graph()
    shape = d.shape(1, 3, empty=0.03, large=0)
    feeds = {"x:0": d.tensor(t, shape, -2, 2, special=0), "either:0": np.bool_(d.chance(0.5))}
    if feeds["x:0"].size and d.chance(0.4):
        feeds["x:0"].flat[0] = 0
    known = d.chance(0.5)
    with graph.as_default():
        x = v1.placeholder(t, shape if known else None, "x")
        if d.chance(0.5):
            axes = np.array([i for i in range(len(shape)) if d.chance(0.6)], np.int32) - (
                len(shape) if d.chance(0.3) else 0
            )
            keep = d.chance(0.3)

            def function(x):
                y = tf.reduce_prod(x, axes, keepdims=keep)
                return [y, *tf.gradients(y * y, x)]
            results = _called(function, x)
        else:
            depth, parts = d.int(1, len(shape)), d.int(1, 3)
            feeds["p:0"] = d.random.integers(0, parts + d.chance(0.1), shape[:depth]).astype(np.int32)

            def function(x, p):
                ys = tf.dynamic_partition(x, p, parts)
                return [*ys, *tf.gradients([y * float(i + 2) for i, y in enumerate(ys)], x)]
            # How many dims p has must be known to build the gradient of none of them.
            results = _called(function, x, v1.placeholder(tf.int32, shape[:depth] if known else None, "p"))
        names = [tf.identity(one, f"y{i}").name for i, one in enumerate(results)]
    return Program(graph, [(feeds, names, [])], f"{t.name} {shape}")


@op("StatelessIf", count=12)
def conditional(d):
    """Conditionals in conditionals, and gradients of their gradients: what a branch that was not taken would have kept
    is an optional of nothing."""
    t, graph = d.pick([tf.float32, tf.float64]), tf.Graph()
    count = d.int(1, 3)
    curves = [tf.square, tf.sin, lambda x: x * x * x, lambda x: x * 3.0, tf.identity]
    picked = [d.pick(curves) for _ in range(5)]
    nested, order = d.chance(0.6), d.int(1, 2)
    with graph.as_default():
        x, p, q = v1.placeholder(t, [count], "x"), v1.placeholder(tf.bool, [], "p"), v1.placeholder(tf.bool, [], "q")

        def taken():
            w = picked[0](x)
            if not nested:
                return tf.reduce_sum(picked[1](w) * x)
            return tf.cond(q, lambda: tf.reduce_sum(picked[2](w) * w), lambda: tf.reduce_sum(picked[3](w)))

        y = tf.cond(p, taken, lambda: tf.reduce_sum(picked[4](x) * x))
        results = [y]
        for _ in range(order):
            results += tf.gradients(results[-1], x, unconnected_gradients="zero")
        names = [tf.identity(one, f"y{i}").name for i, one in enumerate(results)]
    value = d.tensor(t, (count,), -1, 1, special=0)
    return Program(
        graph,
        [({"x:0": value, "p:0": np.bool_(a), "q:0": np.bool_(b)}, names, []) for a in (0, 1) for b in (0, 1)],
        f"{t.name} order {order}",
    )


@op("Case", "StatelessCase", count=8)
def branches(d):
    """Of one branch and of several; an index that is none of theirs takes the last, one that is no scalar is
    refused."""
    graph, number = tf.Graph(), d.int(1, 3)
    with graph.as_default():
        x, i = v1.placeholder(tf.float32, [2], "x"), v1.placeholder(tf.int32, None, "i")
        factors = [float(k + 2) for k in range(number)]
        made = [
            tf.function(lambda x, factor=factor: x * factor, autograph=False).get_concrete_function(tf.TensorSpec([2]))
            for factor in factors
        ]
        for one in made:
            one.add_to_graph()
        tf.identity(getattr(raw, d.op)(branch_index=i, input=[x], Tout=[tf.float32], branches=made)[0], "y")
    indices = [
        np.int32(d.int(-1, number)),
        np.int32(d.int(0, number - 1)),
        np.full(d.pick([(1,), (2,), (0,), (1, 1)]), d.int(0, 1), np.int32),
    ]
    value = d.tensor(tf.float32, (2,), -2, 2, special=0)
    return Program(graph, [({"x:0": value, "i:0": index}, ["y:0"], []) for index in indices], f"{number} branches")
