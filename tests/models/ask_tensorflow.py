#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a model of make_models.py in TensorFlow: what it infers, and what it is after one, five and twenty steps.

    ask_tensorflow.py FOLDER --out VALUES.npz [--onednn]

Prints {"infer": microseconds, "step": microseconds}, medians. Without --onednn TensorFlow takes its plain kernels, and
its numbers are the measure; with it the fast ones, and its times are.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1" if "--onednn" in sys.argv else "0"

import numpy as np
import tensorflow as tf

STEPS = (1, 5, 20)
THREADS = 2


def config(fast):
    made = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=THREADS, inter_op_parallelism_threads=1)
    if not fast:
        made.graph_options.optimizer_options.opt_level = -1
        made.graph_options.rewrite_options.disable_meta_optimizer = True
    return made


class Asked:
    def __init__(self, folder, fast):
        self.about = json.loads((folder / "model.json").read_text())
        self.graph = tf.Graph()
        graph_def = tf.compat.v1.GraphDef.FromString((folder / "graph.pb").read_bytes())
        with self.graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name="")
        self.feeds = {f"{name}:0": value for name, value in np.load(folder / "feeds.npz").items()}
        self.config = config(fast)

    def session(self):
        session = tf.compat.v1.Session(graph=self.graph, config=self.config)
        session.run("init")
        return session

    def run(self, session, fetches):
        return dict(zip(fetches, session.run([f"{name}:0" for name in fetches], self.feeds)))

    def inference(self):
        with self.session() as session:
            return self.run(session, self.about["outputs"])

    def training(self):
        """{"STEPS/NAME": value}"""
        found = {}
        with self.session() as session:
            for step in range(1, max(STEPS) + 1):
                if step in STEPS:
                    values = self.run(session, ["loss", *self.about["variables"]])
                    found.update({f"{step}/{name}": value for name, value in values.items()})
                else:
                    session.run("step", self.feeds)
        return found

    def times(self, turns=20):
        with self.session() as session:
            infer = [self.graph.get_tensor_by_name(f"{name}:0") for name in self.about["outputs"]]
            step = [self.graph.get_tensor_by_name("loss:0"), self.graph.get_operation_by_name("step")]
            return {
                name: median_of(session, fetches, self.feeds, turns)
                for name, fetches in (("infer", infer), ("step", step))
            }


def median_of(session, fetches, feeds, turns):
    times = []
    for _ in range(turns):
        began = time.perf_counter()
        session.run(fetches, feeds)
        times.append(1e6 * (time.perf_counter() - began))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--onednn", action="store_true")
    options = parser.parse_args()
    tf.compat.v1.disable_eager_execution()
    asked = Asked(options.folder, options.onednn)
    np.savez(options.out, **asked.inference(), **asked.training())
    print(json.dumps(asked.times() if options.onednn else {}))


if __name__ == "__main__":
    main()
