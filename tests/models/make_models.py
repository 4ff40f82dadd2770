#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes networks as TensorFlow builds them: GraphDefs of TensorFlow 1's form with inference, and a step of training
with its gradients.

    make_models.py --out FOLDER [--only NAME]... [--variant VARIANT]...

A folder NAME.float in FOLDER has graph.pb, feeds.npz (the batch) and model.json (what to ask for). NAME.double has the
same network of double numbers, in which rounding hides nothing; NAME.smooth is of floats, but has softplus for its
rectifiers; NAME.functions has its loops and conditionals as TensorFlow 2 writes them, over functions and lists of
tensors. Weights, dropout and batches come of seeds; nothing is downloaded. Needs TensorFlow 2.21.
"""

import argparse
import collections
import json
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow as tf

from networks import NETWORKS, build


VARIANTS = ("float", "double", "smooth", "functions")


def storable(value):
    """What an .npz file can hold: strings are arrays of bytes."""
    return value.astype(bytes) if value.dtype == object else value


def nodes_of(graph_def):
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def write(kind, variant, out):
    network, folder = kind(), out / f"{kind.name}.{variant}"
    model = build(network, tf.float64 if variant == "double" else tf.float32, variant == "smooth")
    graph_def = model.graph.as_graph_def()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graph.pb").write_bytes(graph_def.SerializeToString(deterministic=True))
    np.savez(folder / "feeds.npz", **{name: storable(value) for name, value in model.feeds.items()})
    ops = collections.Counter(node.op for node in nodes_of(graph_def))
    about = {
        "name": network.name,
        "variant": variant,
        "about": network.about,
        "nodes": sum(ops.values()),
        "ops": dict(sorted(ops.items())),
        "outputs": model.outputs,
        "variables": model.variables,
    }
    (folder / "model.json").write_text(json.dumps(about, indent=1) + "\n")
    print(f"{folder.name}: {sum(ops.values())} nodes of {len(ops)} ops, {len(model.variables)} variables", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument(
        "--only", action="append", choices=sorted(NETWORKS), metavar="NAME", help=", ".join(sorted(NETWORKS))
    )
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="only this one")
    options = parser.parse_args()
    tf.compat.v1.disable_eager_execution()
    for name, kind in NETWORKS.items():
        for variant, has in (
            ("float", True),
            ("double", kind.doubles),
            ("smooth", kind.deep),
            ("functions", kind.loops),
        ):
            if (
                not has
                or (options.only and name not in options.only)
                or (options.variant and variant not in options.variant)
            ):
                continue
            if variant == "functions":
                tf.compat.v1.enable_control_flow_v2()
            else:
                tf.compat.v1.disable_control_flow_v2()
            write(kind, variant, options.out)


if __name__ == "__main__":
    main()
