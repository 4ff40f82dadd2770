# SPDX-License-Identifier: Apache-2.0
"""Writes models/: small SavedModels as TensorFlow writes them, and models.json, what TensorFlow computes with each.

Run where TensorFlow 2.21 is installed: python3 make_models.py [--only NAME...]
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

HERE = pathlib.Path(__file__).parent
FOLDER = HERE / "models"
v1 = tf.compat.v1


def listed(values):
    """Arrays by name, as JSON has them."""
    return {name: {"dtype": str(np.asarray(value).dtype), "shape": list(np.shape(value)), "values": np.ravel(value).tolist()}
            for name, value in values.items()}


def case(signature, inputs, outputs):
    return {"signature": signature, "inputs": listed(inputs), "outputs": listed(outputs)}


def write_v1(folder):
    """TF1: reference variables, an asset, and a main op that needs both."""
    os.chdir(FOLDER)
    asset = pathlib.Path("vocabulary.txt")  # a name that says nothing of this machine
    asset.write_text("a\nb\n")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        w = v1.get_variable("w", [3, 2], use_resource=False, initializer=v1.random_normal_initializer(seed=3))
        b = v1.get_variable("b", [2], use_resource=False, initializer=v1.constant_initializer(0.5))
        local = {"use_resource": False, "collections": ["local_variables"]}
        factor = v1.get_variable("factor", [], initializer=v1.zeros_initializer(), **local)
        path = v1.get_variable("path", [], tf.string, initializer=v1.constant_initializer("", tf.string), **local)
        asset_path = tf.constant(str(asset), name="asset_path")
        y = tf.add(tf.matmul(x, tf.convert_to_tensor(w)), b * factor, name="y")
        main_op = tf.group(v1.assign(factor, 2.0), v1.assign(path, asset_path), name="main")
        session.run(v1.global_variables_initializer())

        def signature(inputs, outputs):
            infos = [{key: v1.saved_model.build_tensor_info(tensor) for key, tensor in tensors.items()} for tensors in (inputs, outputs)]
            return v1.saved_model.signature_def_utils.build_signature_def(*infos, "tensorflow/serving/predict")

        builder = v1.saved_model.Builder(str(folder))
        signatures = {"serving_default": signature({"x": x}, {"y": y}), "asset": signature({}, {"path": tf.identity(path, "name")})}
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, assets_collection=[asset_path], main_op=main_op)
        builder.add_meta_graph(["serve", "tpu"])
        builder.save()
    asset.unlink()
    x_value = np.array([[1, 2, -1], [0.5, 0, 4]], np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(folder))
        return [case("serving_default", {"x": x_value}, {"y": session.run("y:0", {"x:0": x_value})})]


def write_partitioned(folder):
    """TF1: variables in parts, of which one is not cut along its rows."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 5], "x")
        w = v1.get_variable("w", [5, 4], partitioner=v1.fixed_size_partitioner(3), initializer=v1.random_normal_initializer())
        columns = v1.get_variable("columns", [4, 300], partitioner=v1.fixed_size_partitioner(2, axis=1), initializer=v1.random_normal_initializer())
        y = tf.matmul(tf.matmul(x, tf.convert_to_tensor(w)), tf.convert_to_tensor(columns)[:, 149:151])
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})
        x_value = np.random.default_rng(9).normal(size=(2, 5)).astype(np.float32)
        return [case("serving_default", {"x": x_value}, {"y": session.run(y, {x: x_value})})]


class Module(tf.Module):
    """TF2: two signatures, captured variables, a function that is never reached and whose op nobody has."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(5)
        self.w = tf.Variable(rng.normal(size=(3, 4)).astype(np.float32))
        self.count = tf.Variable(0, dtype=tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def apply(self, x):
        self.count.assign_add(1)
        y = tf.nn.relu(tf.matmul(x, self.w))
        return {"y": y, "largest": tf.cond(tf.reduce_sum(y) > 0, lambda: tf.reduce_max(y), lambda: tf.constant(-1.0))}

    @tf.function(input_signature=[])
    def calls(self):
        return {"count": self.count.read_value()}

    @tf.function(input_signature=[tf.TensorSpec([4, 4], tf.float32)])
    def unreached(self, x):
        return tf.linalg.qr(x)


def write_module(folder):
    module = Module()
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.apply, "calls": module.calls})
    loaded = tf.saved_model.load(str(folder))
    x = np.random.default_rng(6).normal(size=(2, 3)).astype(np.float32)
    out = loaded.signatures["serving_default"](x=tf.constant(x))
    return [case("serving_default", {"x": x}, out),
            case("calls", {}, loaded.signatures["calls"]())]


class Vocabulary(tf.Module):
    """TF2: a table that the main op fills from an asset."""

    def __init__(self, words):
        super().__init__()
        self.words = tf.saved_model.Asset(words)
        initializer = tf.lookup.TextFileInitializer(self.words, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
                                                    tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER)
        self.table = tf.lookup.StaticHashTable(initializer, default_value=-1)

    @tf.function(input_signature=[])
    def ids(self):
        return {"ids": self.table.lookup(tf.constant(["b", "unknown", "a", "c d"])), "size": self.table.size()}


def write_vocabulary(folder):
    os.chdir(FOLDER)
    words = pathlib.Path("words.txt")
    words.write_text("a\nb\nc d\n")
    module = Vocabulary(str(words))
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.ids})
    words.unlink()
    return [case("serving_default", {}, tf.saved_model.load(str(folder)).signatures["serving_default"]())]


def write_keras(folder, layers):
    tf.keras.utils.set_random_seed(11)
    model = tf.keras.Sequential(layers)
    model.export(str(folder), verbose=False)
    loaded = tf.saved_model.load(str(folder))
    signature = loaded.signatures["serving_default"]
    (name, spec), = signature.structured_input_signature[1].items()
    shape = [2 if size is None else size for size in spec.shape]
    x = np.random.default_rng(8).normal(size=shape).astype(np.float32)
    return [case("serving_default", {name: x}, signature(**{name: tf.constant(x)}))]


class Defaults(tf.Module):
    """TF2: an input that a caller may leave out."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([2], tf.float32, name="line")])
    def apply(self, x, line=tf.constant([2.5, -1.0])):
        return {"y": x * line[0] + line[1]}


def write_defaults(folder):
    module = Defaults()
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.apply})
    loaded = tf.saved_model.load(str(folder)).signatures["serving_default"]
    x, line = np.array([1, 2, 4], np.float32), np.array([3, 0.5], np.float32)
    return [case("serving_default", {"x": x}, module.apply(tf.constant(x))),
            case("serving_default", {"x": x, "line": line}, loaded(x=tf.constant(x), line=tf.constant(line)))]


MAKERS = {
    "v1": write_v1,
    "partitioned": write_partitioned,
    "module": write_module,
    "vocabulary": write_vocabulary,
    "defaults": write_defaults,
    "keras_dense": lambda folder: write_keras(folder, [tf.keras.Input([3]), tf.keras.layers.Dense(4, "relu"), tf.keras.layers.Dense(2, "softmax")]),
    "keras_lstm": lambda folder: write_keras(folder, [tf.keras.Input([5, 3]), tf.keras.layers.LSTM(4)]),
}


def main():
    if len(sys.argv) == 2 and not sys.argv[1].startswith("--"):  # one model, in a process of its own, so that names do not depend on the others
        folder = FOLDER / sys.argv[1]
        shutil.rmtree(folder, ignore_errors=True)
        cases = MAKERS[sys.argv[1]](folder)
        for extra in ["fingerprint.pb", "keras_metadata.pb"]:
            (folder / extra).unlink(missing_ok=True)
        print(json.dumps(cases))
        return
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / "models.json"
    wanted = sys.argv[2:] if sys.argv[1:2] == ["--only"] else list(MAKERS)  # others stay as they are
    goldens = json.loads(file.read_text()) if file.exists() else {}
    for name in wanted:
        done = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
        goldens[name] = json.loads(done.stdout.splitlines()[-1])
    file.write_text(json.dumps(goldens, indent=1) + "\n")


if __name__ == "__main__":
    main()
