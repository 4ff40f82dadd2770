# SPDX-License-Identifier: Apache-2.0
"""Writes functions.pb, a GraphDef in which functions call functions, and functions.json, what TensorFlow computes with
it.

Run where TensorFlow 2.21 is installed: python3 make_functions.py
"""

import json
import pathlib

import numpy as np
import tensorflow as tf

HERE = pathlib.Path(__file__).parent


@tf.function
def layer(x, w, b):
    return tf.tanh(tf.matmul(x, w) + b)


@tf.function
def two_layers(x, w, b):
    """Several results, of which one is not used; a function calls another twice."""
    first = layer(x, w, b)
    return first, layer(first, w, b), tf.reduce_max(w)


@tf.function
def loss(x, w, b):
    first, second, _ = two_layers(x, w, b)
    return tf.reduce_sum(first * second * second)


def main():
    rng = np.random.default_rng(7)
    values = {"x": rng.normal(size=(4, 3)), "w": rng.normal(size=(3, 3)), "b": rng.normal(size=3)}
    graph = tf.Graph()
    with graph.as_default():
        feeds = {name: tf.compat.v1.placeholder(tf.float64, value.shape, name) for name, value in values.items()}
        y = tf.identity(loss(feeds["x"], feeds["w"], feeds["b"]), "y")
        graph_def = graph.as_graph_def()  # before the gradients
        gradients = tf.gradients(y, list(feeds.values()))
        with tf.compat.v1.Session(graph=graph) as session:
            got = session.run([y] + gradients, {feeds[name]: value for name, value in values.items()})
    assert any("PartitionedCall" in node.op for node in graph_def.node)
    assert any("PartitionedCall" in node.op for function in graph_def.library.function for node in function.node_def)
    (HERE / "functions.pb").write_bytes(graph_def.SerializeToString(deterministic=True))
    expected = {"feeds": {name: value.ravel().tolist() for name, value in values.items()},
                "shapes": {name: list(value.shape) for name, value in values.items()},
                "y": float(got[0]),
                "gradients": {name: value.ravel().tolist() for name, value in zip(values, got[1:])}}
    (HERE / "functions.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
