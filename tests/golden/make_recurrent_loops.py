# SPDX-License-Identifier: Apache-2.0
"""Writes recurrent_loops.pb, a frozen GraphDef with Keras's recurrent layers as it exports them, loops over lists of
tensors, and recurrent_loops.json: what TensorFlow computes with it.

    TF_ENABLE_ONEDNN_OPTS=0 python3 make_recurrent_loops.py

y_NAME is the layer NAME of `known`, whose sizes stand in the graph, d_NAME of `x`, whose time and batch only a step
knows; steps feed several of these.
"""

import json
import pathlib

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

HERE = pathlib.Path(__file__).parent
INPUTS, CELLS = 3, 4
L = tf.keras.layers
LAYERS = {
    "lstm": lambda: L.LSTM(CELLS, return_sequences=True),
    "lstm_last": lambda: L.LSTM(CELLS),
    "lstm_back": lambda: L.LSTM(CELLS, return_sequences=True, go_backwards=True),
    "lstm_bare": lambda: L.LSTM(CELLS, return_sequences=True, use_bias=False),
    "two": lambda: tf.keras.Sequential([L.LSTM(CELLS, return_sequences=True), L.GRU(CELLS, return_sequences=True)]),
    "lstm_hard": lambda: L.LSTM(CELLS, return_sequences=True, recurrent_activation="hard_sigmoid"),
    "gru": lambda: L.GRU(CELLS, return_sequences=True),
    "gru_last": lambda: L.GRU(CELLS),
    "gru_back": lambda: L.GRU(CELLS, return_sequences=True, go_backwards=True),
    "gru_bare": lambda: L.GRU(CELLS, return_sequences=True, use_bias=False),
    "gru_before": lambda: L.GRU(CELLS, return_sequences=True, reset_after=False),
    "gru_before_last": lambda: L.GRU(CELLS, reset_after=False),
    "gru_relu": lambda: L.GRU(CELLS, return_sequences=True, activation="relu"),
}


def layers(random):
    made = {}
    for name, make in LAYERS.items():
        made[name] = make()
        made[name].build((None, None, INPUTS))
        made[name].set_weights(
            [random.uniform(-1, 1, weight.shape).astype(np.float32) for weight in made[name].get_weights()]
        )
    return made


def main():
    random = np.random.default_rng(20260201)
    made = layers(random)
    known = [2, 5, INPUTS]

    @tf.function(
        input_signature=[
            tf.TensorSpec(known, tf.float32, "known"),
            tf.TensorSpec([None, None, INPUTS], tf.float32, "x"),
        ]
    )
    def model(known, x):
        return [
            tf.identity(layer(of), name=f"{letter}_{name}")
            for name, layer in made.items()
            for letter, of in (("y", known), ("d", x))
        ]

    frozen = convert_variables_to_constants_v2(model.get_concrete_function(), lower_control_flow=False)
    graph = frozen.graph.as_graph_def()
    names = [f"{letter}_{name}" for name in made for letter in "yd"]
    for node in [*graph.node, *(node for function in graph.library.function for node in function.node_def)]:
        node.ClearField("experimental_debug_info")
        node.attr.pop("_output_shapes", None)
    assert set(names) <= {node.name for node in graph.node}
    assert sum(node.op in ("While", "StatelessWhile") for node in graph.node) == len(names) + 2  # there are "two"
    steps = []
    for shape in ([2, 5, INPUTS], [1, 1, INPUTS], [3, 9, INPUTS]):
        feeds = {
            "known": random.uniform(-1, 1, known).astype(np.float32),
            "x": random.uniform(-1, 1, shape).astype(np.float32),
        }
        values = dict(
            zip(
                names, (value.numpy() for value in model(**{name: tf.constant(value) for name, value in feeds.items()}))
            )
        )
        written = lambda values: {
            name: {"shape": list(value.shape), "values": [float(each) for each in value.ravel()]}
            for name, value in values.items()
        }
        steps.append({"feeds": written(feeds), "values": written(values)})
    (HERE / "recurrent_loops.pb").write_bytes(graph.SerializeToString(deterministic=True))
    (HERE / "recurrent_loops.json").write_text(json.dumps({"steps": steps}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
