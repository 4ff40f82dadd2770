# SPDX-License-Identifier: Apache-2.0
"""tenon.ops: a function for every op, a stranger's too."""

import inspect
import pydoc

import numpy
import pytest

import tenon
from tenon.op_definition import OpDefinition
from tenon.ops import snake_case


def test_every_op_has_a_function_with_its_own_parameters():
    names = dir(tenon.ops)
    for op in tenon.default_runtime().ops():
        if not op.name.isidentifier():
            continue
        function = getattr(tenon.ops, op.name)
        parameters = list(inspect.signature(function).parameters)
        assert len(parameters) >= len(op.inputs) + 1 and op.name in names and snake_case(op.name) in names
        assert op.signature_text in function.__doc__


def test_both_names_are_one_function():
    assert (
        tenon.ops.MatMul is tenon.ops.mat_mul
        and tenon.ops.Conv2D is tenon.ops.conv2d
        and tenon.ops.AddV2 is tenon.ops.add_v2
    )
    assert tenon.ops.BatchMatMulV2 is tenon.ops.batch_mat_mul_v2
    from tenon.ops import Relu

    assert Relu is tenon.ops.relu


def test_help_shows_signature_and_text():
    text = pydoc.render_doc(tenon.ops.MatMul, renderer=pydoc.plaintext)
    for part in ("MatMul(a", "transpose_a", "= False", "The product of two matrices", "tenon.ops.math"):
        assert part in text


def test_slips_are_named(graph):
    x = tenon.placeholder("float32", [2, 2], name="x")
    with pytest.raises(AttributeError, match="did you mean 'MatMul'"):
        tenon.ops.MatMull
    with pytest.raises(AttributeError, match="'mat_mul'"):
        tenon.ops.matmul_
    with pytest.raises(TypeError, match="did you mean 'transpose_b'"):
        tenon.ops.MatMul(x, x, transpose=True)
    with pytest.raises(TypeError, match=r"misses 'b'.*MatMul\(a: T, b: T\)"):
        tenon.ops.MatMul(x)
    with pytest.raises(TypeError, match="takes 6 arguments"):
        tenon.ops.MatMul(x, x, 1, 2, 3, 4, 5)
    with pytest.raises(tenon.InvalidArgumentError, match="a list of values"):
        tenon.ops.ConcatV2(x, 0)
    with pytest.raises(tenon.InvalidArgumentError, match="padding|'WIDE'"):
        tenon.ops.MaxPool(tenon.placeholder("float32", [1, 4, 4, 1]), [1, 2, 2, 1], [1, 2, 2, 1], "WIDE")
    with pytest.raises(tenon.InvalidArgumentError, match="resource"):
        tenon.ops.ReadVariableOp(3, dtype="float32")


def test_constants_take_the_type_of_the_other_inputs(graph, run):
    for dtype in ("float64", "float16", "int8", "complex64", "bfloat16"):
        x = tenon.placeholder(dtype, [None], name=f"x_{dtype}")
        for y in (tenon.ops.AddV2(x, 1), tenon.ops.AddV2(1, x), tenon.ops.AddV2(x, [1, 2])):
            assert y.dtype == dtype
    x = tenon.placeholder("float32", [2], name="x")
    assert tenon.ops.AddV2(x, numpy.ones(2)).dtype == "float32"  # float64 by itself
    with pytest.raises(tenon.InvalidArgumentError, match="input 'y'"):
        tenon.ops.AddV2(tenon.placeholder("int32", [2]), 1.5)
    assert tenon.ops.AddV2(1, 2.5).dtype == "float32" and tenon.ops.AddV2(1, 2).dtype == "int32"
    assert tenon.ops.AddV2(numpy.float64(1), 2).dtype == "float64"
    assert tenon.ops.Range(0, 3, 1).dtype == "int32" and tenon.ops.Sum([1.0, 2], 0).dtype == "float32"
    assert tenon.ops.Sqrt(4).dtype == "float32"  # the least of what it takes
    assert tenon.ops.AddV2(1, 2, T="int64").dtype == "int64"


def test_results_are_what_the_definition_says(graph, run):
    x = tenon.constant([[3.0, 1.0, 2.0]])
    parts = tenon.ops.Split(1, x, 3)
    assert isinstance(parts, list) and [float(v[0, 0]) for v in run(parts)] == [3, 1, 2]
    top = tenon.ops.TopKV2(x, 2)
    assert (
        top._fields == ("values", "indices")
        and run(top.values).tolist() == [[3, 2]]
        and run(list(top))[1].tolist() == [[0, 2]]
    )
    assert isinstance(tenon.ops.NoOp(), tenon.Operation)
    assert run(tenon.ops.ConcatV2([x, [[9.0]]], 1)).tolist() == [[3, 1, 2, 9]]
    assert run(tenon.ops.Pack([1, 2, 3])).tolist() == [1, 2, 3]
    both = tenon.ops.IdentityN([x, 1, "a"])
    assert [v.dtype.name for v in both] == ["float32", "int32", "string"]


def test_definitions_are_read():
    op = OpDefinition(
        "Vendor>Op",
        "vendor",
        "x: T, n: K * Ref(T), rest: Tlist, k: int32",
        "y: T",
        "T: {float, realnumbertype} = float; K: int >= 2; Tlist: list(type) >= 1; s: {'A;', 'B=,'} = 'B=,'; "
        "l: list(int) = [1, 2]; h: shape = [2, ?]; u: shape = unknown; e: list(string) = []; f: func",
        "",
        False,
        False,
    )
    assert [(a.name, a.type_attr, a.number_attr, a.type_list_attr, a.dtype) for a in op.inputs] == [
        ("x", "T", "", "", ""), ("n", "T", "K", "", ""), ("rest", "", "", "Tlist", ""), ("k", "", "", "", "int32")]
    values = {attr.name: attr.default for attr in op.attrs}
    assert (values["T"], values["s"], values["l"], values["h"], values["u"], values["e"]) == (
        "float",
        "B=,",
        [1, 2],
        (2, None),
        None,
        [],
    )
    assert (
        op.attr("s").allowed == ["A;", "B=,"]
        and op.attr("f").kind == "func"
        and op.attr("K").kind == "int"
        and op.inferred == {"T", "K", "Tlist"}
    )


def test_a_strangers_plugin_shows_up(cube):
    with pytest.raises(AttributeError):
        tenon.ops.Example_Cube
    runtime = tenon.Runtime(plugins=[cube])
    name = next(op.name for op in runtime.ops() if "ube" in op.name)
    attribute = name.replace(">", "_")
    assert any(report.path == str(cube) and report.outcome == "loaded" for report in runtime.reports())
    assert attribute in dir(tenon.ops) and snake_case(name) in dir(tenon.ops)
    with tenon.Graph(runtime) as graph:
        x = tenon.placeholder("float32", [None], name="x")
        y = getattr(tenon.ops, snake_case(name))(x)
        gradient = tenon.grad(y, x)[0]
    assert [v.tolist() for v in tenon.Session(graph).run([y, gradient], {x: [2.0, 3.0]})] == [[8, 27], [12, 27]]


def test_plugins_that_cannot_be_loaded(tmp_path):
    with pytest.raises(tenon.Error) as caught:
        tenon.Runtime(plugins=[tmp_path / "missing.so"])
    assert "missing.so" in str(caught.value)


def test_runtimes_tell_what_they_have():
    runtime = tenon.default_runtime()
    assert any(device.type == "CPU" for device in runtime.devices()) and runtime.op("MatMul").has_gradient
    assert runtime.op("MatMul").properties == "product(a, b), fits_half"
    assert {report.outcome for report in runtime.reports()} <= {
        "loaded",
        "not chosen",
        "already",
        "rejected",
        "unloaded",
    }
    assert "tenon.cpu" in repr(runtime) and tenon.default_runtime() is runtime
    with pytest.raises(tenon.NotFoundError, match="MatMul"):
        runtime.op("MatMull")
    bare = tenon.Runtime(search=False)
    with bare:
        assert tenon.default_runtime() is bare and bare.ops() == []
