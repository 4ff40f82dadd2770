# SPDX-License-Identifier: Apache-2.0
"""Cases of the control package: values that pass through, branches, loops in frames, calls of functions."""
import numpy as np
import tensorflow as tf

from . import registry
from .draw import Case, Program, op

raw = tf.raw_ops


@op("Identity", "StopGradient", "PreventGradient")
def same(d):
    return Case([d.tensor(d.pick(registry.PLAIN), d.shape())], {"message": "none"} if d.op == "PreventGradient" else {})


@op("IdentityN")
def several(d):
    return Case([[d.tensor(d.pick(registry.PLAIN), d.shape()) for _ in range(d.int(1, 4))]])


@op("ToBool")
def truth(d):
    value = d.tensor(d.dtype(), d.shape(0, 2) if d.chance(0.3) else ())
    if value.dtype != object and value.shape == () and d.chance(0.4):
        value = value * 0
    return Case([value])


@op("PlaceholderWithDefault")
def default(d):
    value = d.tensor(d.pick(registry.PLAIN), d.shape())
    shape = [None if d.chance(0.3) else dim for dim in value.shape]
    if shape and d.chance(0.1):
        shape[0] = value.shape[0] + 1
    return Case([d.given(value)], {"shape": None if d.chance(0.3) else shape})


@op("Const")
def constant(d):
    value = d.tensor(d.turn(registry.PLAIN), d.shape())
    return Case([], {"value": value, "dtype": tf.string if value.dtype == object else tf.as_dtype(value.dtype)})


def _number(d, dtype, shape, name):
    return tf.compat.v1.placeholder(dtype, None if d.chance(0.2) else shape, name), d.tensor(dtype, shape, -2, 2)


@op("Switch", "RefSwitch", "Merge", "RefMerge")
def branch(d):
    """One side of a switch is computed, and merged again; which one is fed."""
    t, shape = d.pick([tf.float64, tf.float32, tf.int32]), d.shape(large=0)
    graph = tf.Graph()
    runs = []
    with graph.as_default():
        p = tf.compat.v1.placeholder(tf.bool, [], "p")
        x, value = _number(d, t, shape, "x")
        if d.op.startswith("Ref"):
            ref = raw.VariableV2(shape=shape, dtype=t, name="v")
            runs.append(({"x:0": value}, [], [raw.Assign(ref=ref, value=x, name="assign").op.name]))
            no, yes = raw.RefSwitch(data=ref, pred=p, name="switch")
            no, yes = raw.AssignAdd(ref=no, value=x, name="less"), raw.AssignSub(ref=yes, value=x * 3, name="more")
            merged, index = raw.RefMerge(inputs=[no, yes], name="merge")
            tf.identity(ref, "after")
        else:
            no, yes = raw.Switch(data=x, pred=p, name="switch")
            merged, index = raw.Merge(inputs=[tf.square(no, "less"), tf.add(yes, yes, "more")], name="merge")
        tf.identity(merged, "y"), tf.identity(index, "which")
    fetches = d.pick([["y:0", "which:0"], ["y:0"], ["which:0"]])
    for _ in range(3):
        runs.append(({"x:0": value, "p:0": np.bool_(d.chance(0.5))}, fetches, []))
        if d.op.startswith("Ref"):
            runs.append(({}, ["after:0"], []))
    floating = t.is_floating and not d.op.startswith("Ref") and "y:0" in fetches
    return Program(graph, runs, f"{t.name} {shape}", (["y"], ["x"]) if floating else None)


@op("Enter", "Exit", "NextIteration", "LoopCond", count=12)
def loop(d):
    """A while loop of frames: x times w, so many times; with the gradient in half of the cases."""
    t, size = d.pick([tf.float64, tf.float32]), d.int(1, 3)
    deep = d.chance(0.3)
    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.disable_control_flow_v2()
        limit = tf.compat.v1.placeholder(tf.int32, [], "limit")
        x = tf.compat.v1.placeholder(t, [size], "x")
        w = tf.compat.v1.placeholder(t, [size], "w")
        parallel = d.pick([1, 10])

        def body(i, value):
            if deep:
                value = tf.while_loop(
                    lambda j, _: j < i, lambda j, v: (j + 1, tf.sin(v)), [0, value], parallel_iterations=parallel
                )[1]
            return i + 1, tf.where(value > 1, value / 2, value * w) if d.number % 2 else tf.tanh(value * w)

        count, y = tf.while_loop(lambda i, _: i < limit, body, [0, x], parallel_iterations=parallel)
        tf.identity(count, "count"), tf.identity(y, "y")
    runs = []
    for _ in range(3):
        feeds = {
            "limit:0": np.int32(d.int(0, 5)),
            "x:0": d.tensor(t, (size,), -2, 2),
            "w:0": d.tensor(t, (size,), -2, 2),
        }
        runs.append((feeds, ["count:0", "y:0"], []))
    return Program(
        graph,
        runs,
        f"{'a loop in a loop' if deep else 'a loop'} of {t.name}",
        (["y"], ["x", "w"]) if d.chance(0.6) else None,
    )


@op("PartitionedCall", "StatefulPartitionedCall")
def call(d):
    """A function that calls another, each twice."""
    t, shape = d.pick([tf.float64, tf.float32]), (d.int(1, 3), 2)
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(t, shape, "x")
        w = tf.compat.v1.placeholder(t, [2], "w")
        state = d.op.startswith("Stateful")

        @tf.function
        def inner(a, b):
            if state:
                raw.VarIsInitializedOp(resource=raw.VarHandleOp(dtype=t, shape=[], shared_name="v"))
            return tf.sin(a) * b, a + b

        @tf.function
        def outer(a, b):
            first, second = inner(a, b)
            return inner(first, second)[0] + tf.reduce_sum(second)

        values = [outer(x, w), outer(x + 1, w)]
        tf.identity(values[0] * values[1], "y")
    feeds = {"x:0": d.tensor(t, shape, -2, 2), "w:0": d.tensor(t, (2,), -2, 2)}
    return Program(graph, [(feeds, ["y:0"], [])], f"functions of {t.name}", (["y"], ["x", "w"]))
