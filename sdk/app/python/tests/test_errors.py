# SPDX-License-Identifier: Apache-2.0
"""Failures: their classes, and what they say."""

import numpy
import pytest

import tenon
from tenon.errors import make_error


def test_a_wrong_shape_names_node_and_op(graph):
    x = tenon.placeholder("float32", [2, 3], name="x")
    with pytest.raises(ValueError) as caught:
        tenon.ops.MatMul(x, numpy.ones((4, 2)), name="product")
    error = caught.value
    assert (
        isinstance(error, tenon.InvalidArgumentError)
        and isinstance(error, tenon.Error)
        and isinstance(error, RuntimeError)
    )
    assert (error.code, error.node, error.op, error.file) == ("INVALID_ARGUMENT", "product", "MatMul", None)
    assert error.message == str(error) and "inner dims" in error.message
    # The graph goes on.
    assert tenon.Session(graph).run(tenon.ops.MatMul(x, numpy.ones((3, 1))), {x: numpy.ones((2, 3))}).shape == (2, 1)


def test_a_step_that_fails_names_its_node(graph, run):
    check = tenon.ops.Assert(tenon.placeholder("bool", [], name="holds"), ["it does not hold"], name="check")
    with pytest.raises(tenon.InvalidArgumentError, match="it does not hold") as caught:
        run(check, {"holds": False})
    assert (caught.value.node, caught.value.op) == ("check", "Assert")


def test_names_have_near_misses(graph, run):
    tenon.placeholder("float32", [], name="weight")
    with pytest.raises(LookupError, match="weight") as caught:
        graph["weigth"]
    assert caught.value.code == "NOT_FOUND" and not isinstance(caught.value, KeyError)
    with pytest.raises(tenon.InvalidArgumentError, match="did you mean 'memory_limit'"):
        tenon.Session(graph, memory_limits=1)
    with pytest.raises(tenon.InvalidArgumentError, match="auto, dynamic"):
        tenon.Session(graph, executor="fast")


def test_files_are_named(tmp_path):
    with pytest.raises(tenon.NotFoundError) as caught:
        tenon.load(tmp_path / "nothing")
    assert caught.value.file == str(tmp_path / "nothing")
    damaged = tmp_path / "graph.pb"
    damaged.write_bytes(b"\xff" * 100)
    with pytest.raises(tenon.Error) as caught:
        tenon.load(damaged)
    assert caught.value.file == str(damaged)


def test_each_code_has_its_class():
    bases = {
        "DEADLINE_EXCEEDED": TimeoutError,
        "PERMISSION_DENIED": PermissionError,
        "UNIMPLEMENTED": NotImplementedError,
        "NOT_FOUND": LookupError,
        "INVALID_ARGUMENT": ValueError,
    }
    for code in (
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    ):
        error = make_error(code, "text")
        assert (
            error.code == code
            and type(error) is not tenon.Error
            and isinstance(error, bases.get(code, RuntimeError))
            and str(error) == "text"
        )
    assert type(make_error("NEW_ONE", "text")) is tenon.Error


def test_a_memory_limit_is_an_error(graph):
    x = tenon.placeholder("float32", [None], name="x")
    y = tenon.ops.Tile(x, [1 << 20])
    with pytest.raises(tenon.ResourceExhaustedError):
        tenon.Session(graph, memory_limit=1 << 20).run(y, {x: numpy.ones(16)})
