# SPDX-License-Identifier: Apache-2.0
"""Writes recurrent_tf1_lists.pb and recurrent_tf1_arrays.pb, frozen GraphDefs with the recurrent cells of TensorFlow 1
under dynamic_rnn: While functions over lists of tensors, and loops of Enter to Exit over tensor arrays; and
recurrent_tf1.json: what TensorFlow computes with them.

    TF_USE_LEGACY_KERAS=1 TF_ENABLE_ONEDNN_OPTS=0 python3 make_recurrent_tf1.py

Needs tf_keras beside TensorFlow, which has the cells now. y_NAME is the loop of NAME over `known`, whose sizes stand in
the graph, d_NAME over `x`, whose time and batch only a step knows, s_NAME the last states of the latter, one below the
other; steps feed several of these.
"""

import json
import pathlib

import numpy as np
import tensorflow as tf

HERE = pathlib.Path(__file__).parent
INPUTS, CELLS = 3, 4
tf1 = tf.compat.v1
cells = tf1.nn.rnn_cell
CELLS_OF = {
    "basic": lambda: cells.BasicLSTMCell(CELLS),
    "forget": lambda: cells.BasicLSTMCell(CELLS, forget_bias=0.25),
    "lstm": lambda: cells.LSTMCell(CELLS),
    "peepholes": lambda: cells.LSTMCell(CELLS, use_peepholes=True),
    "gru": lambda: cells.GRUCell(CELLS),
    "relu": lambda: cells.GRUCell(CELLS, activation=tf.nn.relu),
    "two": lambda: cells.MultiRNNCell([cells.BasicLSTMCell(CELLS), cells.BasicLSTMCell(CELLS)]),
}


def build(random):
    known = tf1.placeholder(tf.float32, [2, 5, INPUTS], "known")
    x = tf1.placeholder(tf.float32, [None, None, INPUTS], "x")
    names = []
    for name, make in CELLS_OF.items():
        with tf1.variable_scope(name):
            cell = make()
            for letter, of in (("y", known), ("d", x)):
                outputs, states = tf1.nn.dynamic_rnn(cell, of, dtype=tf.float32, scope="rnn")
                tf1.get_variable_scope().reuse_variables()
                with tf.name_scope("/"):
                    tf.identity(outputs, f"{letter}_{name}")
                    names.append(f"{letter}_{name}")
                    if letter == "d":
                        tf.identity(tf.concat(tf.nest.flatten(states), 0), f"s_{name}")
                        names.append(f"s_{name}")
    return known, x, names


def frozen(with_functions, weights):
    """A GraphDef, and what steps find."""
    (tf1.enable_control_flow_v2 if with_functions else tf1.disable_control_flow_v2)()
    random = np.random.default_rng(20261127)
    graph = tf.Graph()
    with graph.as_default(), tf1.Session() as session:
        known, x, names = build(random)
        for variable in tf1.global_variables():
            session.run(variable.initializer)
            value = weights.setdefault(variable.name, random.uniform(-1, 1, variable.shape).astype(np.float32))
            variable.load(value, session)
        steps = []
        for shape in ([2, 5, INPUTS], [1, 1, INPUTS], [3, 9, INPUTS]):
            feeds = {
                "known": random.uniform(-1, 1, known.shape).astype(np.float32),
                "x": random.uniform(-1, 1, shape).astype(np.float32),
            }
            values = session.run([f"{name}:0" for name in names], {known: feeds["known"], x: feeds["x"]})
            steps.append((feeds, dict(zip(names, values))))
        definition = tf1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), names)
    for node in [*definition.node, *(node for function in definition.library.function for node in function.node_def)]:
        node.ClearField("experimental_debug_info")
        node.attr.pop("_output_shapes", None)
    return definition, steps


def main():
    weights = {}
    written = lambda values: {
        name: {"shape": list(value.shape), "values": [float(each) for each in value.ravel()]}
        for name, value in values.items()
    }
    ways = {}
    for way in ("lists", "arrays"):
        definition, steps = frozen(way == "lists", weights)
        loops = sum(
            node.op == ("StatelessWhile" if way == "lists" else "LoopCond") or node.op == "While"
            for node in definition.node
        )
        assert loops == 2 * len(CELLS_OF), loops
        (HERE / f"recurrent_tf1_{way}.pb").write_bytes(definition.SerializeToString(deterministic=True))
        ways[way] = [{"feeds": written(feeds), "values": written(values)} for feeds, values in steps]
    assert ways["lists"] == ways["arrays"]
    (HERE / "recurrent_tf1.json").write_text(json.dumps({"steps": ways["lists"]}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
