# SPDX-License-Identifier: Apache-2.0
"""Models as files: TensorFlow's against what TensorFlow computed, and ours written and read again."""

import _thread
import gc
import json
import os
import re
import shutil
import threading
import traceback

import numpy
import pytest
from conftest import MODELS

import tenon

GOLDENS = json.loads((MODELS / "models.json").read_text())


def array(golden):
    if golden["dtype"] == "string":
        return numpy.array([text.encode() for text in golden["values"]], object).reshape(golden["shape"])
    return numpy.array(golden["values"], golden["dtype"]).reshape(golden["shape"])


@pytest.mark.parametrize("name", GOLDENS)
def test_models_give_what_tensorflow_gives(name):
    model = tenon.load(MODELS / name)
    for case in GOLDENS[name]:
        outputs = model.signatures[case["signature"]](**{key: array(value) for key, value in case["inputs"].items()})
        assert outputs.keys() == case["outputs"].keys()
        for key, golden in case["outputs"].items():
            assert outputs[key].shape == tuple(golden["shape"])
            assert outputs[key].dtype == array(golden).dtype
            if golden["dtype"] == "string":
                assert outputs[key].tolist() == array(golden).tolist()
            else:
                numpy.testing.assert_allclose(outputs[key], array(golden), rtol=1e-5, atol=1e-5)


def test_signatures_say_what_they_take():
    model = tenon.load(MODELS / "module")
    assert (
        set(model.signatures) == {"calls", "serving_default"} and model.form == "SavedModel" and model.tags == ["serve"]
    )
    signature = model.signatures["serving_default"]
    (x,) = signature.inputs
    assert (x.name, x.dtype, x.shape, x.optional) == ("x", "float32", (None, 3), False) and x.tensor
    assert [output.name for output in signature.outputs] == ["largest", "y"]
    assert repr(
        signature
    ) == "<tenon.Signature serving_default(x: float32[?, 3]) -> (largest: float32[], y: float32[?, 4])>" and repr(
        signature
    ) in repr(
        model
    )
    value = [[1.0, 2.0, 3.0]]
    for call in (
        model(x=value),
        model(value),
        signature(value),
        signature.run({"x": value}),
        signature(numpy.array(value), timeout=60),
    ):
        numpy.testing.assert_array_equal(call["y"], model(x=value)["y"])
    with pytest.raises(
        tenon.InvalidArgumentError, match=re.escape("input 'x' is missing; the inputs are: x float[?,3]")
    ):
        model()
    with pytest.raises(tenon.InvalidArgumentError, match="has no input 'z'"):
        model(z=1.0)
    with pytest.raises(tenon.InvalidArgumentError):
        model(x=[1.0])
    with pytest.raises(tenon.InvalidArgumentError, match="by name"):
        model(1, 2)


def test_defaults_are_filled_in():
    model = tenon.load(MODELS / "defaults")
    line = next(spec for spec in model.signatures["serving_default"].inputs if spec.name == "line")
    assert line.optional and "= default" in repr(line)
    y = model(x=[1.0, 2.0])["y"]
    assert y.shape == (2,) and not numpy.array_equal(y, model(x=[1.0, 2.0], line=[100.0, 7.0])["y"])


def test_tags_and_assets():
    model = tenon.load(MODELS / "v1", tags=("tpu", "serve"))
    assert set(model.tags) == {"tpu", "serve"}
    assert (
        tenon.load(MODELS / "v1").signatures["asset"]()["path"].item()
        == str(MODELS / "v1" / "assets" / "vocabulary.txt").encode()
    )
    with pytest.raises(tenon.Error, match=re.escape("no graph with the tags {train}")) as caught:
        tenon.load(MODELS / "v1", tags="train")
    assert caught.value.file == str(MODELS / "v1" / "saved_model.pb")


def test_tensors_by_their_names():
    model = tenon.load(MODELS / "module")
    signature = model.signatures["serving_default"]
    x, y = signature.inputs[0].tensor, signature.outputs[1].tensor
    value = numpy.ones((2, 3), numpy.float32)
    want = model(x=value)["y"]
    numpy.testing.assert_array_equal(model.run(y, {x: value}), want)
    numpy.testing.assert_array_equal(model.prepare(y, [x])(value), want)
    assert x.partition(":")[0] in model.graph()
    with pytest.raises(tenon.NotFoundError):
        model.run("nowhere:0")


def test_a_model_may_touch_no_file_unless_it_is_let(tmp_path, graph):
    prefix = tenon.placeholder("string", [], name="prefix")
    secret = str(tmp_path / "secret")
    tenon.Session(graph).run(tenon.ops.SaveV2(prefix, ["w"], [""], [[7.0]]), {prefix: secret})
    (value,) = tenon.ops.RestoreV2(prefix, ["w"], [""], dtypes=["float32"])
    tenon.save(tenon.Session(graph), tmp_path / "reader", inputs={"prefix": prefix}, outputs={"value": value})
    model = tenon.load(tmp_path / "reader")
    with pytest.raises(PermissionError) as caught:
        model(prefix=secret)
    assert caught.value.op == "RestoreV2"
    with pytest.raises(tenon.PermissionDeniedError):
        model.run(value.name)
    assert model.run(value.name, {"prefix": secret}).tolist() == [
        7
    ]  # a tensor of the graph that the caller names himself
    assert tenon.load(tmp_path / "reader", allow_files=True)(prefix=secret)["value"].tolist() == [7]


def test_a_loaded_model_that_was_trained_is_saved_with_its_signatures(tmp_path, graph):
    x = tenon.placeholder("float32", [None, 3], name="x")
    weights = tenon.train.Model(graph)
    y = weights.dense("layer", x, 2)
    weight = weights.variables[0]
    step = tenon.ops.AssignAddVariableOp(weight.handle, tenon.ops.OnesLike(weight.value))
    session = tenon.Session(graph, seed=3)
    session.run(weights.initialize_all())
    with tenon.control_dependencies([step]):
        done = tenon.ops.Identity(tenon.constant(1.0))
    tenon.save(
        session, tmp_path / "first", inputs={"x": x}, outputs={"y": y}, signatures={"train": ({}, {"done": done})}
    )
    model = tenon.load(tmp_path / "first")
    value = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    before = model(x=value)["y"]
    for _ in range(3):
        model.signatures["train"]()
    after = model(x=value)["y"]
    assert not numpy.array_equal(before, after)
    tenon.save(model, tmp_path / "second")
    again = tenon.load(tmp_path / "second")
    assert list(again.signatures) == list(model.signatures)
    numpy.testing.assert_array_equal(again(x=value)["y"], after)
    numpy.testing.assert_array_equal(tenon.load(tmp_path / "first")(x=value)["y"], before)
    with pytest.raises(tenon.AlreadyExistsError, match="replace=True"):
        tenon.save(again, tmp_path / "second" / ".." / "first")
    tenon.save(again, tmp_path / "first", replace=True)
    numpy.testing.assert_array_equal(tenon.load(tmp_path / "first")(x=value)["y"], after)
    with pytest.raises(tenon.InvalidArgumentError, match="its own signatures"):
        tenon.save(again, tmp_path / "third", outputs={"y": y})
    with pytest.raises(tenon.InvalidArgumentError, match="itself, not its session"):
        tenon.save(again.session, tmp_path / "third")


def test_what_is_saved_is_loaded(tmp_path, graph):
    model = tenon.train.Model(graph)
    x = tenon.placeholder("float32", [None, 3], name="x")
    y = model.dense("layer", x, 2)
    session = tenon.Session(graph, seed=3)
    session.run(model.initialize_all())
    folder = tmp_path / "model"
    tenon.save(
        session, folder, inputs={"x": x}, outputs={"y": y}, signatures={"doubled": ({"x": "x"}, {"twice": y * 2.0})}
    )
    value = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    want = session.run(y, {x: value})
    loaded = tenon.load(folder)
    numpy.testing.assert_array_equal(loaded(x=value)["y"], want)
    numpy.testing.assert_array_equal(loaded.signatures["doubled"](x=value)["twice"], want * 2)
    with pytest.raises(tenon.AlreadyExistsError):
        tenon.save(session, folder, inputs={"x": x}, outputs={"y": y})
    tenon.save(session, folder, inputs={"x": x}, outputs={"y": y}, replace=True)
    assert list(tenon.load(folder).signatures) == ["serving_default"]
    constant = tenon.load(folder, freeze=True)
    numpy.testing.assert_array_equal(constant(x=value)["y"], want)
    assert "ReadVariableOp" not in {node["op"] for node in constant.prepare([y.name], [x.name]).explain()}
    session.freeze()
    numpy.testing.assert_array_equal(session.run(y, {x: value}), want)
    with pytest.raises(tenon.FailedPreconditionError, match="frozen"):
        session.run(model.initialize_all())
    frozen = tenon.Graph.from_graph_def(tenon.freeze(session, [y]))
    numpy.testing.assert_array_equal(tenon.Session(frozen).run(y.name, {"x": value}), want)
    for wrong in (
        lambda: tenon.save(session, tmp_path / "none"),
        lambda: tenon.save(graph, tmp_path / "g", outputs={"y": y}),
        lambda: tenon.save(3, tmp_path / "g"),
    ):
        with pytest.raises(tenon.InvalidArgumentError):
            wrong()


def test_models_run_in_many_threads_and_outlive_their_folder(tmp_path):
    import threading

    folder = shutil.copytree(MODELS / "keras_dense", tmp_path / "model")
    model = tenon.load(folder)
    shutil.rmtree(folder)
    case = next(case for case in GOLDENS["keras_dense"] if case["signature"] == "serving_default")
    inputs = {key: array(value) for key, value in case["inputs"].items()}
    faults = []

    def work():
        for _ in range(20):
            for key, value in model(**inputs).items():
                if not numpy.allclose(value, array(case["outputs"][key]), rtol=1e-5, atol=1e-5):
                    faults.append(key)

    threads = [threading.Thread(target=work) for _ in range(16)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert faults == []


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_ten_thousand_loads_do_not_grow():
    """What a leak takes it takes in every quarter, and the allocator's own whims not; one of a hundred bytes a load is
    seen."""
    quarter = 2500
    value = numpy.ones((1, 3), numpy.float32)

    def resident_after(count):
        for _ in range(count):
            assert tenon.load(MODELS / "keras_dense")(value)["output_0"].shape == (1, 2)
        gc.collect()
        return resident_bytes()

    sizes = [resident_after(quarter) for _ in range(4)]
    assert min(after - before for before, after in zip(sizes, sizes[1:])) < 200 << 10, sizes


def chain_of(count):
    """A GraphDef of so many nodes, written by hand: a Python op, then Neg of Neg of ..."""

    def field(number, data):
        size, length = len(data), b""
        while size >= 128:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        return bytes([number << 3 | 2]) + length + bytes([size]) + data

    def node(name, op, inputs, attr):
        entry = field(1, attr.encode()) + field(2, bytes([6 << 3, 1])) if attr else b""
        return field(
            1,
            field(1, name.encode())
            + field(2, op.encode())
            + b"".join(field(3, each.encode()) for each in inputs)
            + (field(5, entry) if entry else b""),
        )

    nodes = [node("x", "Placeholder", [], "dtype"), node("n0", "Test>InAModel", ["x"], "")]
    return b"".join(nodes + [node(f"n{i}", "Neg", [f"n{i - 1}"], "T") for i in range(1, count)])


def test_an_interrupt_ends_a_long_load_and_nothing_of_it_stays(tmp_path):
    make = lambda factor: tenon.op(lambda x: x * factor, inputs="x: float", outputs="y: float", name="Test>InAModel")
    make(1)
    (tmp_path / "short.pb").write_bytes(chain_of(10))
    kept = tenon.load(tmp_path / "short.pb")
    kept.session.run("n2", {"x": 2.0})
    with pytest.raises(tenon.FailedPreconditionError, match="a session uses it"):  # as one that has been loaded does
        make(2)
    del kept
    gc.collect()
    path = tmp_path / "long.pb"
    path.write_bytes(chain_of(150_000))
    tenon.load(tmp_path / "short.pb")  # what is opened once is open
    files = os.listdir("/proc/self/fd")
    for _ in range(20):  # until one comes in the middle
        threading.Timer(0.05, _thread.interrupt_main).start()
        model = None
        try:
            model = tenon.load(path)
            while True:
                pass
        except KeyboardInterrupt as error:
            if model is None and "load" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]:
                break
    else:
        pytest.fail("no interrupt came while the model was loaded")
    del model
    gc.collect()
    assert sorted(os.listdir("/proc/self/fd")) == sorted(files)
    make(3)  # no session has the former one
    assert tenon.load(tmp_path / "short.pb").session.run("n2", {"x": 2.0}) == 6.0
