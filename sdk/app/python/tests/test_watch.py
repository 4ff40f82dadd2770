# SPDX-License-Identifier: Apache-2.0
"""State that sessions share, and looking at what the nodes of a step make."""

import numpy
import pytest

import tenon


def test_unnamed_state_is_the_sessions_own_or_the_runtimes(graph):
    x = tenon.placeholder("float32", [], name="x")
    v = tenon.ops.VarHandleOp(dtype="float32", shape=[], shared_name="test_watch_v")
    assign = tenon.ops.AssignVariableOp(v, x)
    value = tenon.ops.ReadVariableOp(v, dtype="float32")
    tenon.Session(graph, share_state=True).run(targets=[assign], feeds={x: 3})
    assert tenon.Session(graph, share_state=True).run(value) == 3
    alone = tenon.Session(graph)
    with pytest.raises(tenon.FailedPreconditionError):
        alone.run(value)
    alone.run(targets=[assign], feeds={x: 5})
    assert alone.reset_containers() == 1
    shared = tenon.Session(graph, share_state=True)
    assert shared.run(value) == 3
    assert shared.reset_containers(["", "nobody's"]) >= 1
    with pytest.raises(tenon.FailedPreconditionError):
        shared.run(value)


def test_the_first_value_that_is_no_number_is_named(graph):
    x = tenon.placeholder("float32", [3], name="x")
    bad = tenon.ops.Log(x, name="bad")
    later = tenon.ops.Exp(bad)
    session = tenon.Session(graph, check_numerics=True)
    assert numpy.allclose(session.run(later, {x: [1, 2, 3]}), [1, 2, 3])
    with pytest.raises(tenon.InvalidArgumentError, match="made 1 NaN and 1 infinity") as caught:
        session.run(later, {x: [1, -2, 0]})
    assert caught.value.node == "bad" and caught.value.op == "Log"


def test_a_watcher_sees_what_each_node_makes(graph):
    x = tenon.placeholder("float32", [2], name="x")
    text = tenon.ops.AsString(tenon.ops.AddV2(x, x, name="twice"), name="text")
    session = tenon.Session(graph, watch=True)
    seen = {}

    def watch(node, op, device, output, value):
        seen[node] = (op, output, value)

    session.run(text, {x: [1, 2]}, watch=watch)
    assert seen["twice"][:2] == ("AddV2", 0) and seen["twice"][2].tolist() == [2, 4]
    assert seen["text"][0] == "AsString" and seen["text"][2].tolist() == [b"2.000000", b"4.000000"]

    def leave(node, op, device, output, value):
        raise KeyError(node)

    with pytest.raises(KeyError, match="twice"):
        session.run(text, {x: [1, 2]}, watch=leave)
    with pytest.raises(tenon.FailedPreconditionError, match="option 'watch'"):
        tenon.Session(graph).run(text, {x: [1, 2]}, watch=watch)
