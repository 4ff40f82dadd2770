# SPDX-License-Identifier: Apache-2.0
"""Writes control_flow.pb, a GraphDef with conditionals and loops over functions, tensor_array.pb, one with frames and
tensor arrays, and tensor_list.pb, the same in functional loops, and call_forms.pb, gradients of functions, calls on
devices, conditions that are no bool; and beside each what TensorFlow computes with it.

Run where TensorFlow 2.21 is installed: python3 make_control_flow.py

Each case is a function of x [3], w [3], n (int32) and gives y_CASE, a double scalar. The steps feed several n (turns,
sides); for each the value and the gradients by x and w are kept.
"""

import json
import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import function
from tensorflow.python.ops import functional_ops

HERE = pathlib.Path(__file__).parent
TURNS = (-1, 0, 1, 2, 3, 7)


def loop(x, w, n):
    """w is given back as it came; a constant stands in the body."""
    return tf.while_loop(lambda i, v, u: i < n, lambda i, v, u: (i + 1, tf.tanh(v * u + 0.5), u), (0, x, w))[1]


def loop_that_grows(x, w, n):
    total = tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, tf.concat([v, tf.sin(w)], 0)), (0, x),
                          shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])))[1]
    return total * tf.cast(tf.range(tf.size(total)), tf.float64)


def nested_loops(x, w, n):
    def turn(i, v):
        inner = tf.while_loop(lambda j, u: j < i + 1, lambda j, u: (j + 1, u * w + x), (0, v))[1]
        return i + 1, 0.1 * inner

    return tf.while_loop(lambda i, v: i < n, turn, (0, x))[1]


def condition(x, w, n):
    return tf.cond(n > 1, lambda: x * x * w, lambda: tf.exp(w))


def case(x, w, n):
    return tf.switch_case(n, [lambda: x, lambda: x * w, lambda: x * w * w, lambda: tf.zeros_like(x) + 2.0])


def condition_in_a_loop(x, w, n):
    def turn(i, v):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: v * w, lambda: tf.sin(v) + x)

    return tf.while_loop(lambda i, v: i < n, turn, (0, x))[1]


def loop_in_a_condition(x, w, n):
    return tf.cond(n > 1, lambda: loop(x, w, n), lambda: nested_loops(w, x, 2))


@tf.function
def step(v, w):
    return tf.where(v > 0.3, v * w, v - 1.0)


def calls_in_a_loop(x, w, n):
    return tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, step(v, w) + step(v, x)), (0, x))[1]


def two_results(x, w, n):
    first, second = tf.cond(n > 0, lambda: (x * w, tf.reduce_sum(x)), lambda: (w, tf.constant(3.0, tf.float64)))
    return first * second


def state(x, w, n):
    """The order of effects decides the value."""
    variable = tf.compat.v1.get_variable("variable", dtype=tf.float64, initializer=np.float64(1), use_resource=True)
    with tf.control_dependencies([variable.assign(1.0)]):
        begin = tf.identity(n)

    def turn(i):
        with tf.control_dependencies([variable.assign(variable * 2.0)]):
            add = tf.cond(tf.equal(i, 1), lambda: variable.assign_add(0.5), lambda: variable.read_value())
        with tf.control_dependencies([add]):
            return tf.identity(i) + 1

    end = tf.while_loop(lambda i: i < begin, turn, (tf.zeros_like(begin),))
    with tf.control_dependencies([tf.identity(end)]):
        return variable.read_value() + 0 * x * w


def array(size, **more):
    return tf.TensorArray(tf.float64, size, **more)


def scan(x, w, n):
    """Reads one array and writes another, as an unrolled network does; what was carried is written."""
    steps = array(3).unstack(x)

    def turn(i, state, out):
        state = tf.tanh(state * steps.read(i) + w)
        return i + 1, state, out.write(i, state * w)

    out = tf.while_loop(lambda i, *_: i < 3, turn, (0, w, array(3)))[2]
    return out.stack()


def reads_twice(x, w, n):
    both = array(3, clear_after_read=False).unstack(x * w)
    return tf.while_loop(
        lambda i, v: i < n, lambda i, v: (i + 1, v + both.read(i % 3) * both.read((i + 1) % 3)), (0, x)
    )[1]


def grows(x, w, n):
    end = tf.while_loop(
        lambda i, a: i < n + 2,
        lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float64) + w)),
        (0, array(0, dynamic_size=True)),
    )[1]
    return end.stack()


def rows_and_parts(x, w, n):
    parts = array(2, infer_shape=False).split(tf.stack([x, w, x * w]), [2, 1])
    turned = array(2, infer_shape=False).write(0, tf.sin(parts.read(1))).write(1, parts.read(0) * 2.0)
    return turned.concat()


def picks(x, w, n):
    rows = array(3, element_shape=[3], clear_after_read=False).scatter([2, 0, 1], tf.stack([x, w, x * w]))
    return rows.gather([1, 1, 2]) * tf.cast(tf.shape(rows.stack())[0], tf.float64)


@function.Defun(tf.float64, tf.float64)
def smooth(v, u):
    return tf.tanh(v * u) * u, tf.sin(v) - tf.reduce_sum(v * v)


@function.Defun(tf.float64, tf.float64)
def its_gradient(v, dy):
    """Not what calculus says, so that one sees who is asked."""
    return dy * tf.cos(v) + 3.0


@function.Defun(tf.float64, grad_func=its_gradient)
def with_a_gradient(v):
    return tf.sin(v)


def function_gradient(x, w, n):
    return tf.add_n(functional_ops.symbolic_gradient([x, w, w, x * x], [tf.float64] * 2, smooth))


def function_gradient_in_a_loop(x, w, n):
    return tf.while_loop(
        lambda i, v: i < n,
        lambda i, v: (i + 1, functional_ops.symbolic_gradient([v, w, x, w], [tf.float64] * 2, smooth)[0]),
        (0, x),
    )[1]


def named_function_gradient(x, w, n):
    return functional_ops.symbolic_gradient([with_a_gradient(x), w], [tf.float64], with_a_gradient)[0]


def remote(x, w, n):
    return functional_ops.remote_call(
        target="/job:localhost/replica:0/task:0/device:CPU:0", args=[x, w], Tout=[tf.float64] * 2, f=smooth
    )[0]


def number_as_condition(x, w, n):
    first = tf.raw_ops.If(cond=n, input=[x, w], Tout=[tf.float64], then_branch=product, else_branch=difference)[0]
    second = tf.raw_ops.If(
        cond=tf.gather(tf.constant(["", "a", "yes"]), tf.clip_by_value(n, 0, 2)),
        input=[x, w],
        Tout=[tf.float64],
        then_branch=product,
        else_branch=difference,
    )[0]
    left = tf.raw_ops.While(input=[tf.maximum(n, 0), x], cond=goes_on, body=turn_down)[1]
    return first + 2.0 * second + 3.0 * left


@function.Defun(tf.float64, tf.float64)
def product(v, u):
    return v * u


@function.Defun(tf.float64, tf.float64)
def difference(v, u):
    return v - u


@function.Defun(tf.int32, tf.float64)
def goes_on(i, v):
    return i


@function.Defun(tf.int32, tf.float64)
def turn_down(i, v):
    return i - 1, v * 0.5


def switch_of_many(x, w, n):
    outputs = (
        tf.compat.v1.get_default_graph()
        .create_op(
            "_SwitchN",
            [x * w, n],
            [tf.float64] * 3,
            name="switch_of_many",
            attrs={"num_outs": attr_value_pb2.AttrValue(i=3), "T": attr_value_pb2.AttrValue(type=2)},
        )
        .outputs
    )
    return tf.raw_ops.Merge(inputs=[outputs[0] * 2.0, outputs[1] * 3.0, outputs[2] * 5.0])[0]


CASES = (
    loop,
    loop_that_grows,
    nested_loops,
    condition,
    case,
    condition_in_a_loop,
    loop_in_a_condition,
    calls_in_a_loop,
    two_results,
    state,
)
ARRAY_CASES = (scan, reads_twice, grows, rows_and_parts, picks)
CALL_CASES = (
    function_gradient,
    function_gradient_in_a_loop,
    named_function_gradient,
    remote,
    number_as_condition,
    switch_of_many,
)


def make(file, cases, expected_ops, differentiable=True):
    rng = np.random.default_rng(11)
    values = {"x": rng.normal(size=3), "w": rng.normal(size=3)}
    graph = tf.Graph()
    with graph.as_default():
        x, w = (tf.compat.v1.placeholder(tf.float64, [3], name) for name in values)
        n = tf.compat.v1.placeholder(tf.int32, [], "n")
        ys = {each.__name__: tf.reduce_sum(each(x, w, n), name="y_" + each.__name__) for each in cases}
        initialize = tf.compat.v1.global_variables_initializer()
        graph_def = graph.as_graph_def()  # before the gradients
        gradients = {
            name: tf.gradients(y, [x, w], unconnected_gradients="zero") if differentiable else []
            for name, y in ys.items()
        }
        steps = []
        with tf.compat.v1.Session(graph=graph) as session:
            session.run(initialize)
            for turns in TURNS:
                feeds = {x: values["x"], w: values["w"], n: turns}
                found = {}
                for name, y in ys.items():  # each alone: they share a variable
                    got = session.run([y] + gradients[name], feeds)
                    found[name] = {"y": float(got[0])}
                    if differentiable:
                        found[name]["gradients"] = {"x": got[1].tolist(), "w": got[2].tolist()}
                steps.append({"n": turns, "found": found})
    ops = {node.op for node in graph_def.node} | {
        node.op for function in graph_def.library.function for node in function.node_def
    }
    for wanted in expected_ops:
        assert wanted in ops, f"there is no {wanted} among {sorted(ops)}"
    (HERE / f"{file}.pb").write_bytes(graph_def.SerializeToString(deterministic=True))
    (HERE / f"{file}.json").write_text(json.dumps({"feeds": {name: value.tolist() for name, value in values.items()},
                                                  "initialize": initialize.name, "steps": steps}, indent=1) + "\n")


def main():
    tf.compat.v1.enable_control_flow_v2()
    make("control_flow", CASES, ("While", "StatelessWhile", "If", "StatelessIf", "StatelessCase", "PartitionedCall"))
    make(
        "tensor_list",
        ARRAY_CASES,
        ("TensorListReserve", "TensorListFromTensor", "TensorListStack", "TensorListGetItem", "TensorListSetItem"),
    )
    make("call_forms", CALL_CASES, ("SymbolicGradient", "RemoteCall", "If", "While", "_SwitchN"), differentiable=False)
    tf.compat.v1.disable_control_flow_v2()
    make(
        "tensor_array",
        ARRAY_CASES,
        (
            "Enter",
            "TensorArrayV3",
            "TensorArrayReadV3",
            "TensorArrayWriteV3",
            "TensorArrayGatherV3",
            "TensorArrayScatterV3",
            "TensorArrayConcatV3",
            "TensorArraySplitV3",
            "TensorArraySizeV3",
        ),
    )


if __name__ == "__main__":
    main()
