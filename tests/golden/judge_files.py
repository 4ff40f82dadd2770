# SPDX-License-Identifier: Apache-2.0
"""Real TensorFlow as the judge of files: those that Tenon writes load there, and its text forms load here. Covers R1,
R2.

    judge_files.py --tenon build/release/bin/tenon

GraphDef, SavedModel (both loaders), tensor bundle and event file come from a short training, and others from graphs;
the text forms are what TensorFlow's own text writer makes of GraphDef, MetaGraphDef and SavedModel. Event files also go
through TensorBoard's reader where that is installed.

Exit code 77 and a line that says so: there is no TensorFlow. Then the interpreter that TENON_TENSORFLOW_PYTHON names is
tried first.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
GOLDEN = pathlib.Path(__file__).resolve().parent / "models"
TRAINED = GOLDEN.parent / "trained"


def find_tensorflow():
    """Goes on in an interpreter that has TensorFlow, or ends."""
    if importlib.util.find_spec("tensorflow") is not None:
        return
    other = os.environ.get("TENON_TENSORFLOW_PYTHON", "")
    if other and os.path.realpath(other) != os.path.realpath(sys.executable):
        os.execv(other, [other, *sys.argv])
    print(
        f"SKIPPED, nothing was judged: {sys.executable} has no TensorFlow. Install tensorflow-cpu==2.21.0 in an environment and set "
        "TENON_TENSORFLOW_PYTHON to its bin/python.",
        file=sys.stderr,
    )
    sys.exit(SKIPPED)


class Judge:
    def __init__(self, tenon, folder):
        self.tenon = os.path.abspath(tenon)
        self.folder = folder
        self.failures = 0

    def run(self, *arguments):
        done = subprocess.run([self.tenon, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"tenon {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def check(self, what, function):
        """One line a file: what TensorFlow made of it, or why it is wrong."""
        try:
            print(f"{what}: {function()}", flush=True)
        except Exception as error:  # whatever the judge says, the other files are judged too
            self.failures += 1
            print(f"{what}: FAILED: {type(error).__name__}: {error}", flush=True)


def same(found, wanted, what):
    import numpy as np
    found, wanted = np.asarray(found), np.asarray(wanted)
    if found.shape != wanted.shape or not np.array_equal(found, wanted):
        raise AssertionError(f"{what} differ: {found.ravel()[:5]} and {wanted.ravel()[:5]}")


def judge_graph_def(judge, images, answers):
    import tensorflow as tf
    graph_def = tf.compat.v1.GraphDef.FromString((judge.folder / "digits.pb").read_bytes())
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.import_graph_def(graph_def, name="")
        same(session.run("answers:0", {"images:0": images}), answers, "the answers")
    return f"{len(graph_def.node)} nodes run in TensorFlow, {len(answers)} answers are the same"


def judge_saved_model(judge, images, answers):
    import tensorflow as tf
    loaded = tf.saved_model.load(str(judge.folder / "model"))
    outputs = loaded.signatures["serving_default"](images=tf.constant(images))
    same(outputs["answers"], answers, "the answers")
    values = tf.train.load_checkpoint(str(judge.folder / "model/variables/variables"))
    names = values.get_variable_to_shape_map()
    if len(loaded.variables) != len(names):
        raise AssertionError(
            f"TensorFlow finds the variables {[variable.name for variable in loaded.variables]}, not {sorted(names)}"
        )
    for variable in loaded.variables:
        same(variable, values.get_tensor(variable.name.split(":")[0]), variable.name)
    return f"tf.saved_model.load gives {sorted(outputs)}, the same answers, and {len(names)} variables to train on"


def judge_saved_model_v1(judge, images, answers):
    import tensorflow as tf
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], str(judge.folder / "model"))
        signature = meta.signature_def["serving_default"]
        found = session.run(signature.outputs["answers"].name, {signature.inputs["images"].name: images})
        same(found, answers, "the answers")
        copy = judge.folder / "copy"  # its saver saves as well
        v1.train.Saver(saver_def=meta.saver_def).save(session, str(copy))
        read, wrote = tf.train.load_checkpoint(str(copy)), tf.train.load_checkpoint(
            str(judge.folder / "model/variables/variables")
        )
        for name in wrote.get_variable_to_shape_map():
            same(read.get_tensor(name), wrote.get_tensor(name), name)
    return "tf.compat.v1.saved_model.load runs it, restores it and saves it again"


def judge_bundle(judge):
    import tensorflow as tf
    prefix = tf.train.latest_checkpoint(str(judge.folder / "checkpoints"))
    checkpoint, model = tf.train.load_checkpoint(prefix), tf.train.load_checkpoint(
        str(judge.folder / "model/variables/variables")
    )
    shapes = checkpoint.get_variable_to_shape_map()
    if int(checkpoint.get_tensor("global_step")) != 20:
        raise AssertionError(f"the step is {checkpoint.get_tensor('global_step')}")
    for name in model.get_variable_to_shape_map():
        same(model.get_tensor(name), checkpoint.get_tensor(name), name)
    return f"{len(shapes)} tensors of {os.path.basename(prefix)}, {len(model.get_variable_to_shape_map())} of the model, with the same values"


def judge_partitioned_bundle(judge):
    """A checkpoint of variables in parts, restored from TensorFlow's and saved again by the graph's own saver."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2
    model = saved_model_pb2.SavedModel.FromString((GOLDEN / "partitioned/saved_model.pb").read_bytes())
    saver = model.meta_graphs[0].saver_def
    prefix = str(judge.folder / "parts")
    np.save(judge.folder / "prefix.npy", np.array(prefix.encode()))
    judge.run(
        "run",
        GOLDEN / "partitioned",
        "--allow-files",
        "--feed",
        f"{saver.filename_tensor_name}=prefix.npy",
        "--fetch",
        saver.save_tensor_name,
    )
    wrote, golden = tf.train.load_checkpoint(prefix), tf.train.load_checkpoint(
        str(GOLDEN / "partitioned/variables/variables")
    )
    for name, shape in golden.get_variable_to_shape_map().items():
        same(wrote.get_tensor(name), golden.get_tensor(name), name)
    return f"{len(golden.get_variable_to_shape_map())} variables in parts, with the same values"


def judge_first_format(judge):
    """A checkpoint of TensorFlow 1's first format, in slices too."""
    import numpy as np
    import tensorflow as tf
    values = {
        "f": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
        "s": np.array([b"a", b"", b"\x00\xff"], object),
        "i": np.array([-5, 2**31 - 1], np.int32),
        "b": np.array([True, False]),
        "h": np.array([1.5, -2], np.float16),
        "c": np.array([1 + 2j], np.complex64),
        "e": np.zeros([0, 3]),
        "q": np.array(-128, np.int8),
        "large": np.arange(300_000, dtype=np.float32),
    }
    path, parts = str(judge.folder / "first.ckpt"), np.arange(8, dtype=np.float32).reshape(4, 2)
    graph = tf.Graph()
    with graph.as_default():
        tf.raw_ops.SaveSlices(
            filename=path,
            tensor_names=[*values, "parts", "parts"],
            shapes_and_slices=[""] * len(values) + ["4 2 0,1:-", "4 2 1,3:-"],
            data=[tf.constant(value) for value in [*values.values(), parts[:1], parts[1:]]],
            name="save",
        )
    (judge.folder / "first.pb").write_bytes(graph.as_graph_def().SerializeToString())
    judge.run("run", "first.pb", "--target", "save")
    for name, value in {**values, "parts": parts}.items():
        same(
            tf.raw_ops.Restore(
                file_pattern=path, tensor_name=name, dt=tf.as_dtype(value.dtype) if value.dtype != object else tf.string
            ),
            value,
            name,
        )
    return f"{len(values) + 1} tensors, one of them in parts, with the same values"


def judge_trained_models(judge):
    """What `tenon train --export` wrote goes on in TensorFlow: both of its loaders see the trained values."""
    import numpy as np
    import tensorflow as tf
    v1 = tf.compat.v1
    goldens = json.loads((TRAINED / "losses.json").read_text())
    judge.run(
        "train",
        TRAINED / "keras",
        "--data",
        TRAINED / "keras.npz",
        "--batch",
        8,
        "--steps",
        20,
        "--folder",
        "k",
        "--export",
        "keras_trained",
    )
    images, wanted = np.load(TRAINED / "keras.npz")["images"][:2], goldens["keras"]["served_after"]
    (new,) = (
        tf.saved_model.load(str(judge.folder / "keras_trained"))
        .signatures["serving_default"](images=tf.constant(images))
        .values()
    )
    np.testing.assert_allclose(np.ravel(new), wanted, atol=1e-4)
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], str(judge.folder / "keras_trained")).signature_def[
            "serving_default"
        ]
        old = session.run(signature.outputs["output_0"].name, {signature.inputs["images"].name: images})
    np.testing.assert_allclose(np.ravel(old), wanted, atol=1e-4)
    x, y = np.load(TRAINED / "x.npy")[:8], np.load(TRAINED / "y.npy")[:8]
    for name in ("v1", "resources"):  # by the saver that the graph has, and by one that was added
        judge.run(
            "train",
            TRAINED / f"{name}.meta",
            "--loss",
            "loss",
            "--data",
            f"x={TRAINED / 'x.npy'}",
            "--data",
            f"y={TRAINED / 'y.npy'}",
            "--batch",
            8,
            "--steps",
            15,
            "--folder",
            name,
            "--export",
            f"{name}_trained",
        )
        with tf.Graph().as_default(), v1.Session() as session:
            v1.train.import_meta_graph(str(judge.folder / f"{name}_trained/model.meta")).restore(
                session, str(judge.folder / f"{name}_trained/model")
            )
            np.testing.assert_allclose(
                session.run("loss:0", {"x:0": x, "y:0": y}), goldens[name]["losses"][15], rtol=1e-5
            )
    return "a SavedModel in both loaders, and two MetaGraphs, go on where Tenon's training ended"


def judge_events(judge):
    import tensorflow as tf
    file, = (judge.folder / "events").iterdir()
    tags, steps, graphs = set(), set(), 0
    for event in tf.compat.v1.train.summary_iterator(str(file)):
        tags.update(value.tag for value in event.summary.value)
        steps.add(event.step)
        graphs += bool(event.graph_def) and len(tf.compat.v1.GraphDef.FromString(event.graph_def).node) > 0
    if not tags or max(steps) != 20 or graphs != 1:
        raise AssertionError(f"tags {sorted(tags)}, steps up to {max(steps, default=None)}, {graphs} graphs")
    return f"tags {sorted(tags)}, {len(steps)} steps, a graph"


def judge_written_events(judge):
    """What the ops of summary writers write is what TensorFlow's own write."""
    import shutil
    import numpy as np
    import tensorflow as tf
    v1, raw, draw, folder = tf.compat.v1, tf.raw_ops, np.random.default_rng(1), judge.folder / "written"
    images, sounds = draw.random((2, 4, 5, 3), np.float32), draw.random((2, 50), np.float32)
    metadata = v1.SummaryMetadata(plugin_data=v1.SummaryMetadata.PluginData(plugin_name="scalars")).SerializeToString()
    value = v1.Summary(value=[v1.Summary.Value(tag="raw", simple_value=3)])
    nothing = v1.GraphDef()
    nothing.node.add(name="n", op="NoOp")
    graph, done = tf.Graph(), []
    with graph.as_default():
        writer = raw.SummaryWriter(shared_name="writer")
        def then(op, **inputs):
            with tf.control_dependencies(done[-1:]):
                done.append(op(writer=writer, **inputs))
        then(raw.CreateSummaryFileWriter, logdir=str(folder), max_queue=2, flush_millis=1000, filename_suffix=".v2")
        then(raw.WriteScalarSummary, step=1, tag="loss", value=1.5)
        then(raw.WriteHistogramSummary, step=2, tag="spread", values=images)
        then(raw.WriteImageSummary, step=3, tag="images", tensor=images, bad_color=np.array([255, 0, 0, 255], np.uint8))
        then(raw.WriteAudioSummary, step=4, tag="sounds", tensor=sounds, sample_rate=8000.0)
        then(raw.WriteSummary, step=5, tag="tensor", tensor=images, summary_metadata=metadata)
        then(raw.WriteRawProtoSummary, step=6, tensor=[value.SerializeToString()] * 2)
        then(raw.WriteGraphSummary, step=7, tensor=nothing.SerializeToString())
        then(raw.ImportEvent, event=v1.Event(step=8, wall_time=3, summary=value).SerializeToString())
        then(raw.CloseSummaryWriter)

    def events():
        file, = folder.iterdir()
        found = list(v1.train.summary_iterator(str(file)))
        shutil.rmtree(folder)
        for event in found:
            event.wall_time = 0
            event.ClearField("source_metadata")
        return found

    (judge.folder / "written.pb").write_bytes(graph.as_graph_def().SerializeToString())
    judge.run("run", "written.pb", "--target", done[-1].name)
    mine = events()
    with v1.Session(graph=graph) as session:
        session.run(done[-1])
    theirs = events()
    if mine != theirs:
        raise AssertionError(
            f"step {next(a.step for a, b in zip(mine, theirs) if a != b)} differs, or there are {len(mine)} and {len(theirs)}"
        )
    return f"{len(mine)} events of summary writers are TensorFlow's own"


def judge_events_in_tensorboard(judge):
    if importlib.util.find_spec("tensorboard") is None:
        return "not judged: tensorboard is not installed"
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(judge.folder / "events"))
    events.Reload()
    tags = events.Tags()
    if not tags["graph"] or not tags["scalars"]:
        raise AssertionError(f"it finds {tags}")
    return f"EventAccumulator finds {', '.join(tags['scalars'])}, {len(events.Scalars(tags['scalars'][0]))} values each, and the graph"


def judge_large_graph(judge):
    """Tens of thousands of nodes in scopes, from a training's event file to what TensorBoard's graph page is given."""
    if importlib.util.find_spec("tensorboard") is None:
        return "not judged: tensorboard is not installed"
    import time
    import tensorflow as tf
    from tensorboard import context
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.graph import graphs_plugin
    v1, graph = tf.compat.v1, tf.Graph()
    with graph.as_default():
        weight = v1.get_variable("weight", initializer=tf.constant(0.0), use_resource=True)
        x = weight.read_value()
        for block in range(12):
            with v1.name_scope(f"block_{block}"):
                for layer in range(30):
                    with v1.name_scope(f"layer_{layer}"):
                        for _ in range(100):
                            x = tf.negative(x)
        with tf.control_dependencies([x, weight.assign_add(1.0)]):
            tf.no_op(name="train")
        v1.global_variables_initializer()
    (judge.folder / "large.pb").write_bytes(graph.as_graph_def().SerializeToString())
    judge.run(
        "train",
        "large.pb",
        "--target",
        "train",
        "--init",
        "init",
        "--loss",
        "weight/Read/ReadVariableOp",
        "--steps",
        2,
        "--folder",
        "large",
        "--restart",
    )
    begin, folder = time.perf_counter(), str(judge.folder / "large/events")
    events = plugin_event_multiplexer.EventMultiplexer()
    events.AddRunsFromDirectory(folder)
    events.Reload()
    page = graphs_plugin.GraphsPlugin(
        base_plugin.TBContext(data_provider=data_provider.MultiplexerDataProvider(events, folder), multiplexer=events)
    )
    shown, _ = page.graph_impl(context.RequestContext(), ".", None, False, "", 1024, "_too_large_attrs")
    count = shown.count("node {")
    if count < len(graph.as_graph_def().node):
        raise AssertionError(f"{count} of {len(graph.as_graph_def().node)} nodes")
    return f"TensorBoard has the {count} nodes of a training's graph after {time.perf_counter() - begin:.1f} s"


def judge_text_graph(judge, answers):
    import numpy as np
    import tensorflow as tf
    from google.protobuf import text_format
    graph_def = tf.compat.v1.GraphDef.FromString((judge.folder / "digits.pb").read_bytes())
    text = text_format.MessageToString(graph_def)
    (judge.folder / "digits.pbtxt").write_text(text)
    judge.run("run", "digits.pbtxt", "--feed", "images=unseen_images.npy", "--fetch", "answers=from_text.npy")
    same(np.load(judge.folder / "from_text.npy"), answers, "the answers")
    meta = tf.compat.v1.MetaGraphDef(graph_def=graph_def)
    meta.meta_info_def.tags.append("serve")
    (judge.folder / "digits.meta").write_bytes(meta.SerializeToString())
    (judge.folder / "digits_meta.pbtxt").write_text(text_format.MessageToString(meta, as_one_line=True))
    for file in ["digits.meta", "digits_meta.pbtxt"]:
        judge.run("run", file, "--feed", "images=unseen_images.npy", "--fetch", "answers=from_text.npy")
        same(np.load(judge.folder / "from_text.npy"), answers, file)
    return f"{len(text)} characters that TensorFlow wrote, and MetaGraphDefs of both forms, give the same answers"


def judge_text_models(judge):
    import shutil
    from google.protobuf import text_format
    from tensorflow.core.protobuf import saved_model_pb2
    import numpy as np
    count = 0
    for name, cases in json.loads((GOLDEN / "models.json").read_text()).items():
        model = saved_model_pb2.SavedModel.FromString((GOLDEN / name / "saved_model.pb").read_bytes())
        copy = judge.folder / name
        shutil.copytree(GOLDEN / name, copy)
        (copy / "saved_model.pb").unlink()
        (copy / "saved_model.pbtxt").write_text(text_format.MessageToString(model))
        if (
            json.loads(judge.run("inspect", name, "--json"))["signatures"]
            != json.loads(judge.run("inspect", GOLDEN / name, "--json"))["signatures"]
        ):
            raise AssertionError(f"{name}: the signatures differ")
        if any(op["missing"] for op in coverage(judge, name)):
            continue
        for case in cases:
            if not case["inputs"]:
                continue  # it counts earlier calls, and here each is a process
            feeds = []
            for key, value in case["inputs"].items():
                np.save(
                    judge.folder / f"{key}.npy",
                    np.array(value["values"], {"string": "S"}.get(value["dtype"], value["dtype"])).reshape(
                        value["shape"]
                    ),
                )
                feeds += ["--feed", f"{key}={key}.npy"]
            judge.run(
                "run",
                name,
                "--signature",
                case["signature"],
                *feeds,
                *(word for key in case["outputs"] for word in ("--fetch", f"{key}=out_{key}.npy")),
            )
            for key, value in case["outputs"].items():
                found = np.load(judge.folder / f"out_{key}.npy").ravel()
                if found.dtype.kind == "S":
                    np.testing.assert_array_equal(found, np.array(value["values"], "S").ravel())
                else:
                    np.testing.assert_allclose(found, np.array(value["values"]).ravel(), rtol=1e-5, atol=1e-6)
                count += 1
    return f"{count} outputs of models whose saved_model.pbtxt TensorFlow wrote are its own"


def coverage(judge, name):
    done = subprocess.run(
        [judge.tenon, "ops", "--coverage", name, "--json"], cwd=judge.folder, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenon", required=True, help="the program")
    arguments = parser.parse_args()
    find_tensorflow()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    import numpy as np
    with tempfile.TemporaryDirectory(prefix="tenon_judge_") as name:
        judge = Judge(arguments.tenon, pathlib.Path(name))
        judge.run("train", "digits", "--steps", 20, "--folder", name, "--saved-model", "model")
        images, answers = np.load(judge.folder / "unseen_images.npy"), np.load(judge.folder / "answers.npy")
        judge.check("GraphDef", lambda: judge_graph_def(judge, images, answers))
        judge.check("SavedModel", lambda: judge_saved_model(judge, images, answers))
        judge.check("SavedModel, TF1", lambda: judge_saved_model_v1(judge, images, answers))
        judge.check("tensor bundle", lambda: judge_bundle(judge))
        judge.check("tensor bundle, in parts", lambda: judge_partitioned_bundle(judge))
        judge.check("checkpoint of the first format", lambda: judge_first_format(judge))
        judge.check("event file", lambda: judge_events(judge))
        judge.check("event file, of writers", lambda: judge_written_events(judge))
        judge.check("event file, TensorBoard", lambda: judge_events_in_tensorboard(judge))
        judge.check("a large graph, TensorBoard", lambda: judge_large_graph(judge))
        judge.check("text graphs", lambda: judge_text_graph(judge, answers))
        judge.check("text models", lambda: judge_text_models(judge))
        judge.check("trained models", lambda: judge_trained_models(judge))
        return 1 if judge.failures else 0


if __name__ == "__main__":
    sys.exit(main())
