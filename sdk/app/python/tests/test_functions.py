# SPDX-License-Identifier: Apache-2.0
"""Functions, conditionals, loops and maps, what they capture, and gradients through them. Covers A15, K5, L9, Q1."""

import gc
import weakref

import numpy
import pytest

import tenon
from tenon import ops


def test_a_function_is_defined_once_and_called_often(graph, run):
    @tenon.function
    def layer(x, w):
        """A layer."""
        return ops.Tanh(ops.MatMul(x, w))

    x = tenon.placeholder("float32", [2, 2], name="x")
    w = tenon.constant(numpy.eye(2), "float32")
    y = layer(layer(x, w), w)
    assert [function["name"] for function in graph.functions()] == ["layer"] and graph.functions()[0][
        "description"
    ] == "A layer."
    value = numpy.array([[0.1, 0.2], [0.3, 0.4]], numpy.float32)
    numpy.testing.assert_allclose(run(y, {x: value}), numpy.tanh(numpy.tanh(value)), rtol=1e-5)
    assert layer(tenon.constant(numpy.eye(2)), numpy.eye(2)).dtype == "float64"  # of other types: another one
    assert [function["name"] for function in graph.functions()] == ["layer", "layer_1"]


def test_functions_capture_give_lists_and_have_effects(graph):
    scale = tenon.placeholder("float32", [], name="scale")
    counter = tenon.train.Model(graph).counter("calls")

    @tenon.function("float32", name="scaled")
    def scaled(x):
        return [x * scale, x + 1.0, ops.AssignAddVariableOp(counter.handle, 1)]

    outer = tenon.function("float32", name="outer")(lambda x: scaled(x)[0] + scale)
    a, b = scaled(tenon.constant(3.0))
    c = outer(tenon.constant(1.0))
    session = tenon.Session(graph)
    session.run(counter.initial)
    assert [float(v) for v in session.run([a, b, c], {scale: 10.0})] == [30, 4, 20]
    assert session.run(counter.value) == 2


def test_functions_as_attributes_and_with_gradients_of_their_own(graph, run):
    @tenon.function("float32", "float32", name="by_hand")
    def by_hand(x, dy):
        return dy * 100.0

    @tenon.function("float32", name="square", gradient=by_hand)
    def square(x):
        return x * x

    x = tenon.placeholder("float32", [], name="x")
    called = ops.PartitionedCall([x], f=square, Tout=["float32"])[0]
    y = square(x)
    gradient = tenon.grad(y, x)[0]
    assert [float(v) for v in run([called, gradient], {x: 3.0})] == [9, 100]
    with pytest.raises(tenon.InvalidArgumentError, match="types of its arguments"):
        ops.PartitionedCall([x], f=tenon.function(lambda v: v), Tout=["float32"])
    with pytest.raises(tenon.InvalidArgumentError, match="takes float32"):
        square(tenon.constant(1))


def test_gradients_of_ops_and_of_nodes_under_a_block(graph, run):
    @tenon.function("float32", "float32", name="hundred")
    def hundred(x, dy):
        return dy * 100.0

    graph.register_gradient("MyTanh", hundred)
    x = tenon.placeholder("float32", [], name="x")
    with graph.override_gradient("Tanh", "MyTanh"):
        inside = ops.Tanh(x)
        looped = tenon.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, ops.Tanh(v)), (tenon.constant(0), x))[1]
        branched = tenon.cond(x > 0.0, lambda: ops.Tanh(x), lambda: x)
    outside = ops.Tanh(x)
    slopes = run([tenon.grad(y, x)[0] for y in (inside, looped, branched, outside)], {x: 2.0})
    assert [float(slope) for slope in slopes[:3]] == [100, 100 * 100, 100] and abs(float(slopes[3]) - 0.0706508) < 1e-6
    graph.register_gradient("Tanh", hundred)
    assert float(run(tenon.grad(ops.Tanh(x), x)[0], {x: 2.0})) == 100
    with pytest.raises(tenon.NotFoundError, match="nobody"):
        graph.register_gradient("Exp", "nobody")
    with pytest.raises(tenon.UnimplementedError, match="CustomGradient-3"):
        tenon.grad(graph.add_node("Tanh", [x], {"_gradient_op_type": "CustomGradient-3"}).outputs[0], x)


def test_gradients_ask_for_the_devices_of_their_nodes(graph):
    x = tenon.placeholder("float32", [], name="x")
    with tenon.device("CPU:0"):
        y = ops.Exp(x)
    before = graph.node_count
    with tenon.device("/job:worker"):
        tenon.grad(ops.Tanh(y), x)
    devices = {operation.device for operation in graph.operations[before + 1:]}
    assert devices == {"CPU:0", "/job:worker"}



def test_cond(graph, run):
    x = tenon.placeholder("float32", [], name="x")
    y = tenon.cond(x > 0, lambda: x * 2.0, lambda: [ops.Neg(x)][0])
    z = tenon.cond(x > 0, lambda v: (v, 1), lambda v: (v * 3.0, 2), [x])
    assert run([y, *z], {x: 2.0}) == [4, 2, 1] and run([y, *z], {x: -2.0}) == [2, -6, 2]
    assert run(tenon.grad(y, x)[0], {x: 5.0}) == 2
    with pytest.raises(tenon.InvalidArgumentError, match="same types"):
        tenon.cond(x > 0, lambda: 1, lambda: 1.0)
    taken = tenon.cond(x > 0, lambda: ops.Assert(False, ["true side"]), lambda: ops.Assert(True, ["false side"]))
    assert run(taken, {x: -1.0}) is None
    with pytest.raises(tenon.InvalidArgumentError, match="true side"):
        run(taken, {x: 1.0})


def test_while_loop(graph, run):
    n = tenon.placeholder("int32", [], name="n")
    step = tenon.placeholder("float32", [], name="step")
    i, total = tenon.while_loop(lambda i, t: i < n, lambda i, t: (i + 1, t + step), (0, tenon.constant(0.0)))
    assert [float(v) for v in run([i, total], {n: 5, step: 0.5})] == [5, 2.5]
    single = tenon.while_loop(lambda v: v < 100.0, lambda v: v * 2.0, tenon.constant(1.0))
    assert run(single) == 128
    gradient = tenon.grad(total, step)[0]
    assert run(gradient, {n: 7, step: 1.0}) == 7


def test_a_loops_shapes_may_change(graph, run):
    x = tenon.while_loop(lambda v: ops.Size(v) < 10, lambda v: ops.ConcatV2([v, v], 0), tenon.constant([1.0]))
    assert x.shape == (None,) and run(x).shape == (16,)


def test_loops_within_loops_and_functions(graph, run):
    @tenon.function("int32")
    def triangle(n):
        def outer(i, total):
            inner = tenon.while_loop(lambda j: j < i, lambda j: j + 1, 0)
            return i + 1, total + inner

        return tenon.while_loop(lambda i, t: i < n, outer, (0, 0))[1]

    assert run(triangle(tenon.constant(5))) == 10


def test_map(graph, run):
    x = tenon.placeholder("float32", [None, 2], name="x")
    w = tenon.constant([1.0, 10.0])
    y = tenon.map(lambda row: ops.Sum(row * w, 0), x)
    assert run(y, {x: [[1, 2], [3, 4]]}).tolist() == [21, 43] and run(y, {x: numpy.zeros((0, 2))}).shape == (0,)
    both = tenon.map(lambda a, b: (a + b, a * b), [tenon.constant([1.0, 2]), tenon.constant([3.0, 4])])
    assert isinstance(both, tuple) and [v.tolist() for v in run(both)] == [(4, 6) and [4, 6], [3, 8]]
    assert run(tenon.grad(y, w)[0], {x: [[1, 2], [3, 4]]}).tolist() == [4, 6]
    uneven = tenon.map(lambda a, b: a + b, [tenon.placeholder("float32", [None], name="a"), tenon.constant([3.0, 4])])
    with pytest.raises(tenon.InvalidArgumentError, match="differently many"):
        run(uneven, {"a": [1.0]})


def test_a_body_that_fails_leaves_the_graph_usable(graph, run):
    x = tenon.placeholder("float32", [2], name="x")

    def broken(v):
        return ops.MatMul(v, v)

    with pytest.raises(tenon.InvalidArgumentError):
        tenon.function(broken)(x)
    with pytest.raises(ZeroDivisionError):
        tenon.while_loop(lambda v: v[0] < 1.0, lambda v: 1 / 0, x)
    with pytest.raises(tenon.InvalidArgumentError, match="gives 2 values for 1"):
        tenon.while_loop(lambda v: v[0] < 1.0, lambda v: (v, v), x)
    with pytest.raises(tenon.InvalidArgumentError, match="bool"):
        tenon.while_loop(lambda v: v, lambda v: v, tenon.constant(1.0))
    with pytest.raises(tenon.FailedPreconditionError, match="while the body"):
        tenon.function(lambda v: graph.add_node("Neg", [x]).outputs[0])(x)
    assert run(x + 1, {x: [1, 2]}).tolist() == [2, 3]


def test_graphs_go_whatever_circles_they_stand_in():
    graph = tenon.Graph()
    with graph:
        x = tenon.placeholder("float32", [], name="x")

        @tenon.function
        def through(v):
            return v * x

        y = tenon.while_loop(lambda v: v < 9.0, lambda v: v + through(x), through(x))
        graph.kept = (x, y, x.op, graph.scope("s"), tenon.train.Model(graph))
    gone = weakref.ref(graph)
    del graph, x, y, through
    gc.collect()
    assert gone() is None


def test_gradients_are_added_after_a_step(graph):
    x = tenon.constant(1.0)
    y = tenon.while_loop(lambda v: v < 9.0, lambda v: v * 2.0, x)
    session = tenon.Session(graph)
    session.run(y)
    gradient = tenon.grad(y, x)[0]
    assert session.run(gradient) == 16
    assert session.run(y) == 16
    assert tenon.Session(graph).run(gradient) == 16
