# SPDX-License-Identifier: Apache-2.0
"""Graphs: nodes, names, blocks, operators, gradients, and what is refused. Covers A15."""

import subprocess
import threading
from xml.etree import ElementTree

import numpy
import pytest
from conftest import BUILD

import tenon


@pytest.mark.skipif(BUILD is None, reason="the program beside it is of the build tree: TENON_BUILD_DIR is not set")
def test_the_bytes_are_those_of_the_same_graph_in_cpp_and_in_c():
    graph = tenon.Graph()
    with graph:
        x = tenon.placeholder("float32", [None, 3], name="x")
        with graph.scope("layer"), graph.device("CPU:0"):
            w = tenon.constant([1.0, 2, 3, 4, 5, 6])
            y = tenon.ops.MatMul(x, tenon.ops.Reshape(w, [3, 2]), transpose_b=False, name="product")
        with graph.control_dependencies([y]):
            tenon.ops.Sum(y, 0, keep_dims=True)
        tenon.grad(y, x)

        @tenon.function("float32")
        def twice(v):
            return v + v

        twice(y)
    for language in ("cc", "c"):
        want = subprocess.run(
            [BUILD / "tests" / "bin" / f"python_same_graph_{language}"], capture_output=True, check=True
        ).stdout
        assert len(want) > 500
        assert graph.graph_def() == want, language


def test_graphs_are_read_and_written(graph, tmp_path):
    x = tenon.placeholder("float32", [None], name="x")
    tenon.ops.Square(x, name="y")
    again = tenon.Graph.from_graph_def(graph.graph_def())
    assert again.graph_def() == graph.graph_def()
    assert (
        "y" in again
        and "z" not in again
        and again["y"].op.type == "Square"
        and again.operation("y").inputs == [again["x"]]
    )
    tenon.save(graph, tmp_path / "graph.pb")
    model = tenon.load(tmp_path / "graph.pb")
    assert model.form == "GraphDef" and model.run("y", {"x": [3.0]}).tolist() == [9]
    with pytest.raises(tenon.FailedPreconditionError, match="without signatures"):
        model(x=1)
    with pytest.raises(tenon.AlreadyExistsError):
        again.import_graph_def(graph.graph_def())
    with pytest.raises(tenon.Error):
        again.import_graph_def(b"no graph")
    assert again.node_count == graph.node_count


def test_blocks(graph):
    with graph.scope("a"):
        with tenon.scope("b"), tenon.device("CPU:0"):
            inner = tenon.ops.Neg(1.0, name="c")
        with tenon.control_dependencies([inner]):
            after = tenon.ops.NoOp(name="after")
    assert inner.name == "a/b/c" and inner.op.device.endswith("CPU:0") and after.name == "a/after"
    block = graph.scope("once")
    with block:
        with pytest.raises(tenon.FailedPreconditionError):
            block.__enter__()
    assert tenon.constant(1).name == "Const"


def test_control_dependencies_order_a_step(graph):
    counter = tenon.train.Model(graph).counter("n")
    add = tenon.ops.AssignAddVariableOp(counter.handle, 1)
    with tenon.control_dependencies([add]):
        after = tenon.ops.ReadVariableOp(counter.handle, dtype="int64")
    session = tenon.Session(graph)
    session.run(counter.initial)
    assert [int(session.run(after)) for _ in range(3)] == [1, 2, 3]


def test_operators_are_numpys(graph, run):
    a, b = numpy.array([[7.0, -2], [3, 4]], numpy.float32), numpy.array([[2.0, 3], [-1, 5]], numpy.float32)
    x, y = tenon.constant(a), tenon.constant(b)
    cases = [
        (x + y, a + b),
        (x - 1, a - 1),
        (1 - x, 1 - a),
        (x * b, a * b),
        (a * y, a * b),
        (x / y, a / b),
        (2 / y, 2 / b),
        (x // y, a // b),
        (x % y, a % b),
        (x @ y, a @ b),
        (x**2, a**2),
        (-x, -a),
        (abs(x), abs(a)),
        (x < y, a < b),
        (x >= 3, a >= 3),
        (3 < x, a > 3),
        ((x < y) & (x > 0), (a < b) & (a > 0)),
        (~(x < y), ~(a < b)),
        ((x < y) | (x > 0), (a < b) | (a > 0)),
        (a @ y, a @ b),
    ]
    got = run([output for output, _ in cases])
    for value, (output, want) in zip(got, cases):
        numpy.testing.assert_allclose(value, want, rtol=1e-6, err_msg=output.name)
        assert value.dtype == want.dtype
    i = numpy.array([7, -7], numpy.int32)
    k = tenon.constant(i)
    for value, want in zip(run([k / 2, k // 2, k % 3, k * 3]), [i / 2, i // 2, i % 3, i * 3]):
        numpy.testing.assert_array_equal(value, want)
        assert value.dtype == want.dtype


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        slice(1, None),
        slice(None, None, -1),
        (0, slice(None)),
        (Ellipsis, 1),
        (None, 1, Ellipsis),
        (slice(0, 2), None, 1, slice(1, 3)),
        (slice(None, -1), Ellipsis, slice(None, None, 2)),
    ],
)
def test_indexing_is_numpys(graph, run, key):
    array = numpy.arange(24).reshape(2, 3, 4)
    numpy.testing.assert_array_equal(run(tenon.constant(array)[key]), array[key])


def test_what_an_output_is_not(graph):
    x = tenon.placeholder("bool", [], name="x")
    with pytest.raises(TypeError, match="cond"):
        if x:
            pass
    with pytest.raises(TypeError, match="Unpack"):
        list(x)
    with pytest.raises(TypeError, match="indexed"):
        x["a"]
    assert x == graph["x"] and x != x.op and hash(x) == hash(graph["x"]) and {x: 1}[graph["x"]] == 1


def test_gradients(graph, run):
    x = tenon.placeholder("float32", [None], name="x")
    y = tenon.ops.Sum(x * x * 3.0, 0)
    assert run(tenon.grad(y, x)[0], {x: [1.0, 2]}).tolist() == [6, 12]
    assert tenon.grad(y, tenon.constant(1.0)) == [None]
    assert run(tenon.grad([y], [x], [10.0])[0], {x: [1.0]}).tolist() == [60]
    table = tenon.constant(numpy.ones((4, 2)), "float32")
    rows = tenon.grad(tenon.ops.GatherV2(table, [1, 3], 0), table)[0]
    assert run(rows if not isinstance(rows, tenon.Slices) else rows.indices).shape in ((2,), (4, 2))
    with pytest.raises(tenon.InvalidArgumentError):
        tenon.grad([], [x])
    with pytest.raises(tenon.InvalidArgumentError, match="another graph"), tenon.Graph():
        tenon.grad(y, x)
    assert run(y, {x: [1.0]}) == 3


def test_other_graphs_outputs_are_refused_by_name(graph):
    other = tenon.Graph()
    with other:
        stranger = tenon.placeholder("float32", [], name="stranger")
    with pytest.raises(tenon.InvalidArgumentError, match="'stranger' belongs to another graph"):
        tenon.ops.Neg(stranger)


def test_many_threads_build_one_graph():
    graph = tenon.Graph()

    def build(number):
        with graph:
            for i in range(50):
                tenon.constant(float(i), name=f"t{number}")

    threads = [threading.Thread(target=build, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert graph.node_count == 400


def test_repr(graph):
    x = tenon.placeholder("float32", [None, 3], name="x")
    y = tenon.ops.Neg(x, name="y")
    assert repr(x) == "<tenon.Output 'x' float32[?,3]>" and repr(y.op) == "<tenon.Operation 'y' Neg(x) -> float32[?,3]>"
    assert repr(graph) == "<tenon.Graph of 2 nodes: x, y>"
    assert "Session of" in repr(tenon.Session(graph)) and "tenon.Callable (x: float32) -> y" in repr(
        tenon.Session(graph).prepare(y, [x])
    )
    assert x.shape == (None, 3) and tenon.placeholder("int32").shape is None and y.op.attr("T") == "float32"


def test_a_small_graph_has_a_picture():
    with tenon.Graph() as graph:
        assert graph._repr_svg_() is None
        x = tenon.placeholder("float32", [None, 3], name="x")
        y = tenon.ops.Relu(x @ numpy.ones((3, 2)) + 1.0, name="answer")
        with graph.device("CPU:0"):
            tenon.ops.Sum(y, 0, name="a_name_of_more_letters_than_a_picture_has_room_for")
        svg = graph._repr_svg_()
        root = ElementTree.fromstring(svg)
        space = "{http://www.w3.org/2000/svg}"
        tops = {
            node.find(space + "title").text.split(":")[0]: float(node.find(space + "rect").get("y"))
            for node in root.iter(space + "g")
        }
        assert (
            len(tops) == graph.node_count
            and tops["x"] < tops["answer"] < tops["a_name_of_more_letters_than_a_picture_has_room_for"]
        )
        assert len(root.findall(space + "path")) == sum(len(operation.inputs) for operation in graph.operations)
        assert "on CPU:0" in svg and float(root.get("width")) < 600
        for _ in range(60):
            y = y + 1.0
        assert graph._repr_svg_() is None
    with tenon.Graph() as ordered:
        first = tenon.constant(1.0, name="first").op
        with ordered.control_dependencies([first]):
            last = tenon.ops.NoOp(name="last")
        assert last.control_inputs == [first] and first.control_inputs == []
        assert ordered._repr_svg_().count('stroke-dasharray="4 3"') == 1
    with tenon.Graph() as loop:
        tenon.while_loop(lambda i: i < 3, lambda i: i + 1, tenon.constant(0))
        assert ElementTree.fromstring(loop._repr_svg_()) is not None
