# SPDX-License-Identifier: Apache-2.0
"""Programs that `crossings --batch FOLDER` wrote, run by another host.

    replay.py FOLDER               by the Python package tenon, which must give what C++ gave
    replay.py --tensorflow FOLDER  by TensorFlow: the same again, and it must not answer where Tenon refuses

Exits with 0 when nothing differs, 1 when something does.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import sys

import numpy as np

BOUNDS = {"float": 1e-4, "double": 1e-9}


def array(value):
    dtype = {
        "float": np.float32,
        "double": np.float64,
        "int32": np.int32,
        "int64": np.int64,
        "bool": np.bool_,
        "string": object,
    }[value["dtype"]]
    values = [v.encode() for v in value["values"]] if dtype is object else value["values"]
    made = np.empty(len(values), dtype)
    made[:] = values
    return made.reshape(value["dims"])


def differs(found, value, smooth):
    right = array(value)
    found = np.asarray(found, dtype=object) if right.dtype == object else np.asarray(found)
    if found.shape != right.shape or (right.dtype != object and found.dtype != right.dtype):
        return f"is {found.dtype}{list(found.shape)} instead of {right.dtype}{list(right.shape)}"
    if smooth and value["dtype"] in BOUNDS:
        same = np.all(np.abs(found - right) <= BOUNDS[value["dtype"]] * (1 + np.abs(right)))
    else:
        same = np.array_equal(found, right)
    return None if same else f"is {found.tolist()}, {right.tolist()} in C++"


class Tenon:
    """A session of the package."""

    def __init__(self, graph):
        import tenon

        self.graph = tenon.Graph.from_graph_def(graph)
        self.session = tenon.Session(self.graph)

    def run(self, fetches, feeds, targets):
        return self.session.run(fetches, feeds, targets=targets, timeout=30)


class TensorFlow:
    """A session of TensorFlow 1, which rewrites no graph."""

    def __init__(self, graph):
        import tensorflow.compat.v1 as tf

        tf.disable_eager_execution()
        from tensorflow.core.protobuf import rewriter_config_pb2

        config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
        config.graph_options.optimizer_options.opt_level = -1
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.rewrite_options.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
        self.graph = tf.Graph()
        with self.graph.as_default():
            definition = tf.GraphDef()
            definition.ParseFromString(graph)
            tf.import_graph_def(definition, name="")
            tf.set_random_seed(5)
        self.session = tf.Session(graph=self.graph, config=config)

    def run(self, fetches, feeds, targets):
        edge = lambda name: name if ":" in name else name + ":0"
        found, _ = self.session.run(
            [[edge(each) for each in fetches], list(targets)], {edge(name): value for name, value in feeds.items()}
        )
        return found


def steps(case):
    """(label in front, fetches, labels, feeds, targets), as C++ runs them."""
    feeds, later = ({name: array(value) for name, value in case[key].items()} for key in ("feeds", "later_feeds"))
    yield "step 1: ", case["fetches"], case["labels"], feeds, case["targets"]
    yield "step 2: ", case["fetches"], case["labels"], feeds, case["targets"]
    yield "", case["variables"], [f"variable{i}" for i in range(len(case["variables"]))], {}, []
    yield "step 3: ", case["fetches"], case["labels"], later, case["targets"]


def replay(host, folder):
    """What differs: a list of texts; and what the host refuses."""
    case = json.loads((folder / "case.json").read_text())
    right = {item["label"]: item for item in case["items"]}
    try:
        session = host((folder / "graph.pb").read_bytes())
        session.run([], {name: array(value) for name, value in case["first_feeds"].items()}, [case["initial"]])
        found = []
        for front, fetches, labels, feeds, targets in steps(case):
            if not fetches and not targets:
                continue
            for label, value in zip(labels, session.run(fetches, feeds, targets)):
                if front + label not in right:
                    continue
                why = differs(value, right[front + label], case["smooth"])
                if why:
                    found.append(f"{front}{label} {why}")
    except Exception as error:  # whatever the host says no with
        said = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return [], said, case["refused"]
    return found, None, case["refused"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tensorflow", action="store_true", help="TensorFlow runs them")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    host = TensorFlow if options.tensorflow else Tenon
    count = bad = 0
    refused = collections.Counter()
    for folder in sorted(each.parent for each in options.folder.glob("*/case.json")):
        count += 1
        found, said, tenon_said = replay(host, folder)
        if said and not tenon_said:
            refused[re.sub(r"[0-9]+|'[^']*'|\{\{[^}]*\}\}", "", said)[:150]] += 1
            if not options.tensorflow:
                bad += 1
                print(f"{folder.name}: refused: {said[:300]}", flush=True)
        elif not said and tenon_said:
            bad += 1
            print(f"{folder.name}: answered, and Tenon refuses: {tenon_said[:300]}", flush=True)
        elif found:
            bad += 1
            print(
                f"{folder.name}: {found[0][:400]}" + (f", and {len(found) - 1} more" if len(found) > 1 else ""),
                flush=True,
            )
    for kind, times in refused.most_common():
        print(f"{times:6}  refused here alone: {kind}")
    print(f"{count} programs, {bad} with differences")
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
