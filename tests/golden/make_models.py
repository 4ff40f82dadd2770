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
    def plain(value):
        return [text.decode() if isinstance(text, bytes) else text for text in np.ravel(value).tolist()]

    def dtype(value):
        return "string" if np.asarray(value).dtype == object else str(np.asarray(value).dtype)

    return {
        name: {"dtype": dtype(value), "shape": list(np.shape(value)), "values": plain(value)}
        for name, value in values.items()
    }


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
            infos = [
                {key: v1.saved_model.build_tensor_info(tensor) for key, tensor in tensors.items()}
                for tensors in (inputs, outputs)
            ]
            return v1.saved_model.signature_def_utils.build_signature_def(*infos, "tensorflow/serving/predict")

        builder = v1.saved_model.Builder(str(folder))
        signatures = {
            "serving_default": signature({"x": x}, {"y": y}),
            "asset": signature({}, {"path": tf.identity(path, "name")}),
        }
        builder.add_meta_graph_and_variables(
            session, ["serve"], signatures, assets_collection=[asset_path], main_op=main_op
        )
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
        w = v1.get_variable(
            "w", [5, 4], partitioner=v1.fixed_size_partitioner(3), initializer=v1.random_normal_initializer()
        )
        columns = v1.get_variable(
            "columns",
            [4, 300],
            partitioner=v1.fixed_size_partitioner(2, axis=1),
            initializer=v1.random_normal_initializer(),
        )
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


def ask(folder, signature, inputs):
    """What the model that was written gives."""
    outputs = tf.saved_model.load(str(folder)).signatures[signature](
        **{name: tf.constant(value) for name, value in inputs.items()}
    )
    return case(signature, inputs, outputs)


def write_keras(folder, model):
    """An export of Keras 3; each of its inputs gets normal numbers, or small integers."""
    model.export(str(folder), verbose=False)
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    rng = np.random.default_rng(8)
    inputs = {}
    for name, spec in sorted(signature.structured_input_signature[1].items()):
        shape = [2 if size is None else size for size in spec.shape]
        inputs[name] = (
            rng.integers(0, 6, shape).astype(spec.dtype.as_numpy_dtype)
            if spec.dtype.is_integer
            else rng.normal(size=shape).astype(np.float32)
        )
    return [ask(folder, "serving_default", inputs)]


K = tf.keras.layers


def sequential(*layers):
    return tf.keras.Sequential(list(layers))


def convolutions():
    return sequential(
        tf.keras.Input([8, 8, 3]),
        K.Conv2D(4, 3, padding="same"),
        K.BatchNormalization(),
        K.ReLU(),
        K.MaxPooling2D(),
        K.Conv2D(6, 3, strides=2),
        K.GlobalAveragePooling2D(),
        K.Dense(3),
    )


def separable():
    """As MobileNet's blocks."""
    x = tf.keras.Input([6, 6, 4])
    y = K.ReLU(6.0)(K.BatchNormalization()(K.DepthwiseConv2D(3, padding="same", use_bias=False)(x)))
    y = K.Add()([x, K.Conv2D(4, 1)(y)])
    return tf.keras.Model(x, K.Flatten()(K.AveragePooling2D(3)(K.SeparableConv2D(5, 3)(K.ZeroPadding2D(1)(y)))))


def attention():
    """As a transformer's block."""
    words = tf.keras.Input([5], dtype="int32")
    x = K.Embedding(6, 8)(words)
    y = K.LayerNormalization()(x + K.MultiHeadAttention(2, 4)(x, x))
    y = K.LayerNormalization()(y + K.Dense(8)(K.Dense(16, "gelu")(y)))
    return tf.keras.Model(words, K.Dense(2, "softmax")(y))


def two_and_two():
    """Several named inputs and outputs."""
    a, b = tf.keras.Input([3], name="left"), tf.keras.Input([4], name="right")
    joined = K.Concatenate()([K.Dense(2, "tanh")(a), K.Dense(2, "sigmoid")(b)])
    return tf.keras.Model([a, b], {"sum": K.Dense(1, name="sum")(joined), "product": K.Multiply()([joined, joined])})


class Loops(tf.Module):
    """TF2: while loops with tensor arrays, and branches within them."""

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([], tf.int32, name="times")]
    )
    def apply(self, x, times):
        values = tf.TensorArray(tf.float32, size=times, element_shape=[None])
        for i in tf.range(times):
            if i % 2 == 0:
                x = x * 2.0
            else:
                x = x - 1.0
            values = values.write(i, x)
        total, j = tf.constant(0.0), tf.constant(0)
        while tf.less(total, 50.0):
            total += tf.reduce_sum(tf.abs(x)) + 1.0
            j += 1
        return {"steps": values.stack(), "turns": j}


class Words(tf.Module):
    """TF2: strings in and out, a table that is filled from constants, and one that changes."""

    def __init__(self):
        super().__init__()
        pairs = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
        self.table = tf.lookup.StaticHashTable(pairs, default_value=-1)
        self.counts = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, default_value=0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def apply(self, words):
        self.counts.insert(words, self.counts.lookup(words) + 1)
        return {
            "ids": self.table.lookup(words),
            "seen": self.counts.lookup(words),
            "joined": tf.strings.join([words, "!"], ""),
        }


class Picture(tf.Module):
    """TF2: bytes of a picture become what a network wants."""

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.uint8, name="image")])
    def apply(self, image):
        x = tf.image.resize(tf.cast(image, tf.float32) / 255.0, [4, 4])
        mean, variance = tf.nn.moments(x, [1, 2], keepdims=True)
        x = (x - mean) * tf.math.rsqrt(variance + 1e-3)
        return {
            "x": tf.transpose(x, [0, 3, 1, 2]),
            "brightest": tf.argmax(tf.reshape(x, [tf.shape(x)[0], -1]), 1),
            "channels": tf.unstack(mean[:, 0, 0], axis=1)[0],
        }


class Layers(tf.Module):
    """TF2: modules in modules, shared weights, a gradient of one's own, and a signature that computes gradients."""

    class Layer(tf.Module):
        def __init__(self, w):
            super().__init__()
            self.w = w

        @tf.function
        def __call__(self, x):
            return tf.nn.elu(x @ self.w)

    def __init__(self):
        super().__init__()
        shared = tf.Variable(np.random.default_rng(4).normal(size=(3, 3)).astype(np.float32))
        self.layers = [self.Layer(shared), self.Layer(shared), self.Layer(tf.Variable(tf.eye(3)))]

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def apply(self, x):
        @tf.custom_gradient
        def doubled(v):
            return v * 2.0, lambda dy: dy * 100.0

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for layer in self.layers:
                y = layer(y)
            y = doubled(y)
        return {"y": y, "dx": tape.gradient(y, x)}


def write_object(folder, module, inputs):
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.apply})
    return [ask(folder, "serving_default", inputs)]


def write_v1_frames(folder):
    """TF1: control flow of frames, switches and merges, and variables of both kinds."""
    v1.disable_control_flow_v2()
    with tf.Graph().as_default(), v1.Session() as session:
        x, n = v1.placeholder(tf.float32, [None], "x"), v1.placeholder(tf.int32, [], "n")
        old = v1.get_variable("old", [], use_resource=False, initializer=v1.constant_initializer(3.0))
        new = v1.get_variable("new", [], use_resource=True, initializer=v1.constant_initializer(-1.0))
        _, last = v1.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * old + new), [0, x])
        y = v1.cond(tf.reduce_sum(last) > 0.0, lambda: last - new, lambda: tf.zeros_like(last))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x, "n": n}, {"y": y, "last": last})
        cases = []
        for values in ([1.0, 2.0], [-1.0, 0.25]):
            inputs = {"x": np.array(values, np.float32), "n": np.int32(3)}
            cases.append(
                case(
                    "serving_default",
                    inputs,
                    dict(zip(("y", "last"), session.run([y, last], {x: inputs["x"], n: inputs["n"]}))),
                )
            )
        return cases


class Defaults(tf.Module):
    """TF2: an input that a caller may leave out."""

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([2], tf.float32, name="line")]
    )
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
    "v1_frames": write_v1_frames,
    "loops": lambda folder: write_object(
        folder, Loops(), {"x": np.array([1, -2, 0.5], np.float32), "times": np.int32(5)}
    ),
    "words": lambda folder: write_object(folder, Words(), {"words": np.array(["b", "x", "a"], object)}),
    "picture": lambda folder: write_object(
        folder, Picture(), {"image": np.random.default_rng(2).integers(0, 256, (2, 7, 5, 3)).astype(np.uint8)}
    ),
    "layers": lambda folder: write_object(
        folder, Layers(), {"x": np.random.default_rng(3).normal(size=(2, 3)).astype(np.float32)}
    ),
    "keras_dense": lambda folder: write_keras(
        folder, sequential(tf.keras.Input([3]), K.Dense(4, "relu"), K.Dense(2, "softmax"))
    ),
    "keras_lstm": lambda folder: write_keras(folder, sequential(tf.keras.Input([5, 3]), K.LSTM(4))),
    "keras_gru": lambda folder: write_keras(
        folder, sequential(tf.keras.Input([5, 3]), K.GRU(4, return_sequences=True), K.TimeDistributed(K.Dense(2)))
    ),
    "keras_bidirectional": lambda folder: write_keras(
        folder,
        sequential(
            tf.keras.Input([None], dtype="int32"), K.Embedding(6, 3, mask_zero=True), K.Bidirectional(K.LSTM(3))
        ),
    ),
    "keras_convolutions": lambda folder: write_keras(folder, convolutions()),
    "keras_separable": lambda folder: write_keras(folder, separable()),
    "keras_attention": lambda folder: write_keras(folder, attention()),
    "keras_two_and_two": lambda folder: write_keras(folder, two_and_two()),
    "keras_transposed": lambda folder: write_keras(
        folder,
        sequential(
            tf.keras.Input([4, 4, 2]),
            K.Conv2DTranspose(3, 3, strides=2, padding="same"),
            K.UpSampling2D(2),
            K.Conv2D(1, 3, dilation_rate=2),
        ),
    ),
    "keras_sequence": lambda folder: write_keras(
        folder,
        sequential(
            tf.keras.Input([8, 2]),
            K.Conv1D(4, 3, padding="causal"),
            K.LayerNormalization(),
            K.PReLU(),
            K.GlobalMaxPooling1D(),
            K.Dropout(0.5),
            K.Dense(2, "swish"),
        ),
    ),
}


def main():
    if len(sys.argv) == 2 and not sys.argv[1].startswith(
        "--"
    ):  # one model, in a process of its own, so that names do not depend on the others
        folder = FOLDER / sys.argv[1]
        shutil.rmtree(folder, ignore_errors=True)
        tf.keras.utils.set_random_seed(11)
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
