#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small.jsonl: tiny versions of a few networks with what TensorFlow makes of them, for a test without
TensorFlow.

    make_small.py [-o FILE]

A line is a case of tests/golden with a graph: what it infers, then loss and all variables after one, five and twenty
steps. Nodes that nobody asks for have short names. Needs TensorFlow 2.21.
"""

import argparse
import base64
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "golden"))

import oracle  # first: it sets TensorFlow's kernels
import tensorflow as tf

from networks import NETWORKS, build

SIZES = {"mlp": {"batch": 4, "pixels": 12, "sizes": (6, 5), "classes": 3},
         "lenet": {"batch": 2, "side": 16, "classes": 3, "width": 0.2},
         "dynamic_rnn_lstm": {"batch": 2, "words": 7, "width": 3, "steps": 4, "projection": 2, "layers": 1},
         "wide_and_deep": {"batch": 6, "buckets": 10, "columns": 2, "width": 2, "numbers": 2, "sizes": (4,)},
         "kmeans": {"batch": 8, "width": 2, "centres": 3}}
PHASES = (1, 4, 15)  # steps from one look to the next


def shortened(graph_def, kept):
    """The graph with short names for nodes and frames, where `kept` does not name them."""
    numbers = {}

    def short(name, sort):
        return name if name in kept else f"{sort}{numbers.setdefault((sort, name), len(numbers))}"

    def renamed(text):
        control, name, port = re.fullmatch(r"(\^?)([^:]+)(:\d+)?", text).groups()
        return control + short(name, "n") + (port or "")

    for node in graph_def.node:
        node.name = short(node.name, "n")
        node.input[:] = [renamed(text) for text in node.input]
        if "frame_name" in node.attr:
            node.attr["frame_name"].s = short(node.attr["frame_name"].s.decode(), "f").encode()
        if "_class" in node.attr:
            listed = node.attr["_class"].list
            listed.s[:] = [b"loc:@" + short(text.decode().removeprefix("loc:@"), "n").encode() for text in listed.s]
    return graph_def


def ask(network):
    model = build(network)
    kept = {"init", "step", "loss", *model.feeds, *model.outputs, *model.variables}
    graph_def = shortened(model.graph.as_graph_def(), kept)
    feeds = {name: oracle.tensor(value) for name, value in model.feeds.items()}
    runs = [{"feeds": {}, "fetch": [], "targets": ["init"], "out": []}]
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        given = {f"{name}:0": value for name, value in model.feeds.items()}
        with tf.compat.v1.Session(graph=graph, config=oracle.CONFIG) as session:
            session.run("init")

            def run(fetch, targets, repeat):
                for _ in range(repeat):
                    values = session.run([fetch, targets], given)[0]
                runs.append(
                    {
                        "feeds": feeds,
                        "fetch": fetch,
                        "targets": targets,
                        "out": [oracle.tensor(one) for one in values],
                        "repeat": repeat,
                    }
                )

            run([f"{name}:0" for name in model.outputs], [], 1)
            for more in PHASES:
                run(["loss:0", *(f"{name}:0" for name in model.variables)], ["step"], more)
    return {"op": "Model", "ops": sorted({node.op for node in graph_def.node}), "about": network.name,
            "graph": base64.b64encode(graph_def.SerializeToString(deterministic=True)).decode(), "runs": runs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE / "small.jsonl")
    options = parser.parse_args()
    tf.compat.v1.disable_eager_execution()
    tf.compat.v1.disable_control_flow_v2()
    lines = [json.dumps(ask(NETWORKS[name](**sizes)), separators=(",", ":")) + "\n" for name, sizes in SIZES.items()]
    options.output.write_text("".join(lines))


if __name__ == "__main__":
    main()
