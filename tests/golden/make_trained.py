# SPDX-License-Identifier: Apache-2.0
"""Writes trained/: graphs and models that hold a training step, data for them, and losses.json: what TensorFlow's first
twenty steps lose.

Run where TensorFlow 2.21 is installed: python3 make_trained.py [--only NAME...]

  keras       Keras 3, exported with its training step and its optimizer (Adam, momentum in batch normalization); fed
  from files module      a tf.Module with SGD and momentum, a batch of a fixed size, an input with a default; fed from
  files v1          TensorFlow 1: reference variables, Adam, a decaying learning rate by global_step, a merged summary;
  fed from files resources   the same with resource variables, momentum, and a lookup of rows
  loss_only   TensorFlow 1: a loss and no training step, for --minimize; losses by optimizer
  dataset     TensorFlow 1: the input is a tf.data pipeline over tensors: shuffled, mapped, repeated, batched,
  prefetched records     the same over a file of records, without repetition: it ends in the middle of the twenty steps
  unseeded    TensorFlow 1: a pipeline that is shuffled without a seed, and a step that draws random numbers; its losses
  are anything queues      TensorFlow 1: the input is queues with their runners over a file of lines
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "trained"
STEPS = 20
BATCH = 8
v1 = tf.compat.v1
K = tf.keras.layers


def points(count=40, inputs=6, classes=3):
    """Points of overlapping clouds, and which cloud each is of."""
    rng = np.random.default_rng(17)
    y = rng.integers(0, classes, count).astype(np.int64)
    x = (rng.normal(size=(classes, inputs))[y] + 0.6 * rng.normal(size=(count, inputs))).astype(np.float32)
    return x, y


def batch(array, step, size=BATCH):
    """The rows of a step where data are taken in their order, the last batch of a pass smaller."""
    steps = -(-len(array) // size)
    begin = step % steps * size
    return array[begin:begin + size]


def meta(name, saver=None):
    """The graph as a MetaGraph with its collections, of which `train_op` names what minimises."""
    v1.train.export_meta_graph(
        str(FOLDER / f"{name}.meta"), saver_def=saver, strip_default_attrs=True, clear_devices=True
    )


# ---- SavedModels ----

def write_keras():
    images = np.random.default_rng(4).normal(size=(36, 6, 6, 2)).astype(np.float32)
    labels = (images.mean((1, 2, 3)) > 0).astype(np.int64) + (images[:, 0, 0, 0] > 1)
    np.savez(FOLDER / "keras.npz", images=images, labels=labels)
    model = tf.keras.Sequential(
        [tf.keras.Input([6, 6, 2]), K.Conv2D(4, 3, activation="relu"), K.BatchNormalization(), K.Flatten(), K.Dense(3)]
    )
    optimizer = tf.keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    def train(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
        return {"loss": loss, "accuracy": right, "iterations": tf.cast(optimizer.iterations, tf.int64)}

    def evaluate(images, labels):
        return {
            "loss": tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=False))
            )
        }

    archive = tf.keras.export.ExportArchive()
    archive.track(model)
    archive.track(optimizer)
    archive.add_endpoint(
        "serve", model.call, input_signature=[tf.TensorSpec([None, 6, 6, 2], tf.float32, name="images")]
    )
    specs = [tf.TensorSpec([None, 6, 6, 2], tf.float32, name="images"), tf.TensorSpec([None], tf.int64, name="labels")]
    archive.add_endpoint("train", train, input_signature=specs)
    archive.add_endpoint("evaluate", evaluate, input_signature=specs)
    archive.write_out(str(FOLDER / "keras"), verbose=False)
    loaded = tf.saved_model.load(str(FOLDER / "keras"))
    losses = [
        float(
            loaded.signatures["train"](
                images=tf.constant(batch(images, step)), labels=tf.constant(batch(labels, step))
            )["loss"]
        )
        for step in range(STEPS)
    ]
    serve = loaded.signatures["serving_default"](images=tf.constant(images[:2]))
    minimized = []  # by gradient descent on the loss of `evaluate`, of two layers alone
    for step in range(STEPS):
        with tf.GradientTape() as tape:
            loss = evaluate(batch(images, step), batch(labels, step))["loss"]
        variables = [
            variable.value for layer in (model.layers[0], model.layers[-1]) for variable in layer.trainable_variables
        ]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(0.05 * gradient)
        minimized.append(float(loss))
    return {"losses": losses, "served_after": np.ravel(list(serve.values())[0]).tolist(), "minimized": minimized}


class Module(tf.Module):
    """Of variables of its own: those of Keras layers in a module are not what a saved signature reads, unless an
    ExportArchive saves them."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(3)
        sizes = [6, 8, 3]
        self.weights = [tf.Variable((0.4 * rng.normal(size=pair)).astype(np.float32)) for pair in zip(sizes, sizes[1:])]
        self.biases = [tf.Variable(tf.zeros(size)) for size in sizes[1:]]
        self.speed = [tf.Variable(tf.zeros(variable.shape)) for variable in self.weights + self.biases]

    def network(self, x):
        return tf.nn.relu(x @ self.weights[0] + self.biases[0]) @ self.weights[1] + self.biases[1]

    @tf.function(
        input_signature=[
            tf.TensorSpec([BATCH, 6], tf.float32, name="x"),
            tf.TensorSpec([BATCH], tf.int64, name="y"),
            tf.TensorSpec([], tf.float32, name="rate"),
        ]
    )
    def train(self, x, y, rate=tf.constant(0.1)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.network(x)))
        variables = self.weights + self.biases
        for variable, speed, gradient in zip(variables, self.speed, tape.gradient(loss, variables)):
            speed.assign(0.9 * speed + gradient)
            variable.assign_sub(rate * speed)
        return {"cost": loss, "vector": tf.concat([loss[None], loss[None]], 0)}

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, name="x")])
    def apply(self, x):
        return {"logits": self.network(x)}


def write_module():
    x, y = points()
    np.save(FOLDER / "x.npy", x)
    np.save(FOLDER / "y.npy", y)
    module = Module()
    tf.saved_model.save(
        module, str(FOLDER / "module"), signatures={"train": module.train, "serving_default": module.apply}
    )
    train = tf.saved_model.load(str(FOLDER / "module")).signatures["train"]
    return {
        "losses": [
            float(train(x=tf.constant(batch(x, step)), y=tf.constant(batch(y, step)), rate=tf.constant(0.1))["cost"])
            for step in range(STEPS)
        ]
    }


# ---- TensorFlow 1 ----

def dense(x, units, name, resource):
    """A layer whose first weights are numbers of the graph, so that they do not depend on a generator."""
    rng = np.random.default_rng(len(name) + units)
    with v1.variable_scope(name, use_resource=resource):
        w = v1.get_variable("w", initializer=(0.4 * rng.normal(size=(int(x.shape[1]), units))).astype(np.float32))
        b = v1.get_variable("b", initializer=np.zeros(units, np.float32))
    return tf.nn.bias_add(tf.matmul(x, w), b)


def loss_of(x, y, resource=False):
    hidden = tf.nn.relu(dense(x, 8, "hidden", resource))
    logits = dense(hidden, 3, "logits", resource)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits), name="loss")


def placeholders():
    return v1.placeholder(tf.float32, [None, 6], "x"), v1.placeholder(tf.int64, [None], "y")


def fed_losses(loss, train, x, y):
    x_value, y_value = points()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return [
            float(session.run([loss, train], {x: batch(x_value, step), y: batch(y_value, step)})[0])
            for step in range(STEPS)
        ]


def write_v1():
    x, y = placeholders()
    loss = loss_of(x, y)
    step = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.05, step, 5, 0.8)
    train = v1.train.AdamOptimizer(rate).minimize(loss, global_step=step)
    v1.summary.scalar("rate", rate)
    v1.summary.histogram("weights", v1.trainable_variables()[0])
    v1.add_to_collection("summary_op", v1.summary.merge_all())
    meta("v1", v1.train.Saver().as_saver_def())
    return {"losses": fed_losses(loss, train, x, y)}


def write_resources():
    x, y = placeholders()
    with v1.variable_scope("table", use_resource=True):
        table = v1.get_variable("rows", initializer=np.linspace(-0.2, 0.2, 3 * 6, dtype=np.float32).reshape(3, 6))
    loss = loss_of(x + 0.1 * tf.nn.embedding_lookup(table, y), y, resource=True)
    train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    meta("resources")
    return {"losses": fed_losses(loss, train, x, y), "train": train.name}


OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.02),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.1),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.01),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(1.0),
}


def write_loss_only():
    """Reference variables as a GraphDef, resource variables as a MetaGraph in text."""
    result = {}
    for resource in (False, True):
        for name, optimizer in OPTIMIZERS.items():
            with tf.Graph().as_default():
                x, y = placeholders()
                loss = loss_of(x, y, resource)
                if name == "sgd" and resource:
                    v1.train.export_meta_graph(str(FOLDER / "loss_only.pbtxt"), strip_default_attrs=True, as_text=True)
                elif name == "sgd":
                    v1.train.write_graph(v1.get_default_graph(), str(FOLDER), "loss_only.pb", as_text=False)
                result[name] = fed_losses(loss, optimizer().minimize(loss), x, y)
    return {"losses": result["sgd"], "by_optimizer": result}


def own_losses(loss, train, before, beside=None):
    """Losses until the input ends."""
    losses = []
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        session.run(before)
        coordinator = v1.train.Coordinator()
        threads = beside(session, coordinator) if beside else []
        try:
            while len(losses) < STEPS:
                losses.append(float(session.run([loss, train])[0]))
        except tf.errors.OutOfRangeError:
            pass
        coordinator.request_stop()
        coordinator.join(threads)
    return losses


def from_dataset(data, name):
    """A graph that takes its input from a pipeline, by an iterator that is begun by hand."""
    iterator = v1.data.make_initializable_iterator(data)
    x, y = iterator.get_next()
    loss = loss_of(tf.reshape(x, [-1, 6]), y)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    meta(name)
    return {"losses": own_losses(loss, train, iterator.initializer), "initializer": iterator.initializer.name}


def write_dataset():
    data = (
        tf.data.Dataset.from_tensor_slices(points())
        .shuffle(16, seed=5)
        .map(lambda x, y: (x * 1.25, y), num_parallel_calls=2)
        .repeat()
        .batch(BATCH)
        .prefetch(2)
    )
    return from_dataset(data, "dataset")


def write_records():
    os.chdir(FOLDER)
    x_value, y_value = points()
    with tf.io.TFRecordWriter("points.tfrecord") as writer:
        for each, label in zip(x_value, y_value):
            features = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=each)),
                "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            writer.write(
                tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)
            )

    def parse(record):
        found = tf.io.parse_single_example(
            record, {"x": tf.io.FixedLenFeature([6], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
        )
        return found["x"], found["y"]

    data = (
        tf.data.TFRecordDataset("points.tfrecord", buffer_size=1 << 16)
        .map(parse)
        .shuffle(100, seed=9, reshuffle_each_iteration=False)
        .repeat(2)
        .batch(BATCH)
        .prefetch(1)
    )
    return from_dataset(data, "records")


def write_unseeded():
    """What nobody can repeat."""
    data = tf.data.Dataset.from_tensor_slices(points()).shuffle(16).repeat().batch(BATCH)
    iterator = v1.data.make_initializable_iterator(data)
    x, y = iterator.get_next()
    v1.train.GradientDescentOptimizer(0.1).minimize(loss_of(tf.nn.dropout(tf.reshape(x, [-1, 6]), 0.1), y))
    meta("unseeded")
    return {}


def write_queues():
    os.chdir(FOLDER)
    x_value, y_value = points()
    pathlib.Path("points.csv").write_text(
        "".join(",".join(f"{number:.6f}" for number in each) + f",{label}\n" for each, label in zip(x_value, y_value))
    )
    names = v1.train.string_input_producer(["points.csv"], num_epochs=3, shuffle=False, name="names")
    _, line = v1.TextLineReader().read(names)
    columns = v1.io.decode_csv(line, [[0.0]] * 6 + [tf.constant([0], tf.int64)])
    x, y = v1.train.batch([tf.stack(columns[:6]), columns[6]], batch_size=BATCH, name="batch")
    loss = loss_of(tf.reshape(x, [-1, 6]), y)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    meta("queues")
    return {"losses": own_losses(loss, train, [], v1.train.start_queue_runners)}


MAKERS = {
    "keras": write_keras,
    "module": write_module,
    "v1": write_v1,
    "resources": write_resources,
    "loss_only": write_loss_only,
    "dataset": write_dataset,
    "records": write_records,
    "unseeded": write_unseeded,
    "queues": write_queues,
}


def main():
    FOLDER.mkdir(exist_ok=True)
    if len(sys.argv) == 2 and not sys.argv[1].startswith(
        "--"
    ):  # one, in a process of its own, so that names do not depend on the others
        name = sys.argv[1]
        shutil.rmtree(FOLDER / name, ignore_errors=True)
        tf.keras.utils.set_random_seed(11)
        if name in ("keras", "module"):
            made = MAKERS[name]()
            (FOLDER / name / "fingerprint.pb").unlink(missing_ok=True)
        else:
            with tf.Graph().as_default():
                made = MAKERS[name]()
        print(json.dumps(made))
        return
    file = FOLDER / "losses.json"
    wanted = sys.argv[2:] if sys.argv[1:2] == ["--only"] else list(MAKERS)  # others stay as they are
    losses = json.loads(file.read_text()) if file.exists() else {}
    for name in wanted:
        done = subprocess.run([sys.executable, __file__, name], check=True, stdout=subprocess.PIPE, text=True)
        losses[name] = json.loads(done.stdout.splitlines()[-1])
    file.write_text(json.dumps(losses, indent=1) + "\n")


if __name__ == "__main__":
    main()
