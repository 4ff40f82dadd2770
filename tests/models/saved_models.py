#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The networks as TensorFlow 2 saves them: functions, variables in a checkpoint, signatures; run by Tenon and by
TensorFlow.

    saved_models.py --out FOLDER [--only NAME]... [--tenon build/release/bin/tenon]

NAME in FOLDER is a SavedModel with two signatures: serving_default infers, step trains one step and gives the loss and
all variables after it. TensorFlow loads it and answers; `tenon run FOLDER/NAME --signature step --repeat N` must agree
after one, five and twenty steps, as run_models.py measures it (its tolerances of floats; of the deep networks, in which
TensorFlow's own two sets of kernels leave each other, only inference and the first step's loss are held to them).
Prints a table, and writes it as saved_models.md into --out. Exit code 1 when a network does not run or is further away.
Needs TensorFlow 2.21.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np

from make_models import storable
from run_models import STEPS, TOLERANCE, Failed, distance, program, worst


def make(name, folder):
    """The SavedModel, and beside it feeds.npz, wanted.npz (TensorFlow's values) and about.json."""
    import tensorflow as tf
    from networks import NETWORKS, build

    shutil.rmtree(folder, ignore_errors=True)
    network = NETWORKS[name]()
    network.resource = True
    with tf.Graph().as_default():
        model = build(network)
    v1 = tf.compat.v1
    with v1.Session(graph=model.graph) as session, model.graph.as_default():
        session.run("init")
        named = {key: model.graph.get_tensor_by_name(f"{key}:0") for key in model.feeds}
        signatures = {}
        for signature, ends in (("serving_default", model.outputs), ("step", ["loss", *model.variables])):
            outputs = {end.replace("/", "."): model.graph.get_tensor_by_name(f"{end}:0") for end in ends}
            inputs = {key: named[key] for key in inputs_of(named, outputs.values())}
            signatures[signature] = v1.saved_model.predict_signature_def(inputs, outputs)
        builder = v1.saved_model.Builder(str(folder / "graph"))
        builder.add_meta_graph_and_variables(session, [v1.saved_model.SERVING], signatures)
        builder.save()
    loaded = tf.saved_model.load(str(folder / "graph"))
    tf.saved_model.save(loaded, str(folder / "model"), dict(loaded.signatures))
    ask(tf, folder, model.feeds, network.deep)


def inputs_of(placeholders, ends):
    """The names of the placeholders that the ends need."""
    seen, left = set(), [end.op for end in ends]
    while left:
        op = left.pop()
        if op.name not in seen:
            seen.add(op.name)
            left += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return [key for key, tensor in placeholders.items() if tensor.op.name in seen]


def ask(tf, folder, feeds, deep):
    """What TensorFlow makes of the file that it wrote."""
    loaded = tf.saved_model.load(str(folder / "model"))
    about, wanted, given = {"deep": deep}, {}, {}
    for signature in ("serving_default", "step"):
        call = loaded.signatures[signature]
        specs = call.structured_input_signature[1]
        about[signature] = {"inputs": sorted(specs), "outputs": sorted(call.structured_outputs)}
        for argument, spec in specs.items():
            given[argument] = feeds[argument]
        arguments = {argument: tf.constant(given[argument]) for argument in specs}
        for step in range(1, max(STEPS) + 1):
            values = call(**arguments)
            if step in STEPS or signature != "step":
                key = step if signature == "step" else "infer"
                wanted.update({f"{key}/{name}": value.numpy() for name, value in values.items()})
            if signature != "step":
                break
    np.savez(folder / "feeds.npz", **{key: storable(value) for key, value in given.items()})
    np.savez(folder / "wanted.npz", **wanted)
    (folder / "about.json").write_text(json.dumps(about))


def tenon(options, folder, about, signature, repeat, scratch):
    path = scratch / "tenon.npz"
    path.unlink(missing_ok=True)
    fetches = [word for name in about[signature]["outputs"] for word in ("--fetch", f"{name}={path}")]
    with np.load(folder / "feeds.npz") as given:
        np.savez(scratch / "feeds.npz", **{name: given[name] for name in about[signature]["inputs"]})
    program(
        [
            options.tenon,
            "run",
            folder / "model",
            "--signature",
            signature,
            "--feed",
            scratch / "feeds.npz",
            "--repeat",
            repeat,
            *fetches,
        ]
    )
    with np.load(path) as found:
        return {slashed(name): found[name] for name in found.files}


def slashed(name):
    """A variable's name, of a signature's."""
    return name.replace(".", "/")


def compare(options, name, scratch):
    """{key: error}, and what stops it."""
    folder = options.out / name
    program([sys.executable, __file__, "--out", options.out, "--make", name])
    about = json.loads((folder / "about.json").read_text())
    errors = {}
    with np.load(folder / "wanted.npz") as archive:
        for key in ("infer", *STEPS):
            want = {
                slashed(each.removeprefix(f"{key}/")): archive[each]
                for each in archive.files
                if each.startswith(f"{key}/")
            }
            got = tenon(
                options,
                folder,
                about,
                "serving_default" if key == "infer" else "step",
                1 if key == "infer" else key,
                scratch,
            )
            errors[key], where = worst(want, got)
            if about["deep"] and key != "infer":
                errors[key], where = distance(want["loss"], got["loss"], 0.0)[0], "loss"
            if not errors[key] <= TOLERANCE["float"][key] * (1 if key in ("infer", 1) or not about["deep"] else np.inf):
                return errors, f"{key}: {where} is off by {errors[key]:.1e}"
    return errors, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument(
        "--tenon", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/tenon"
    )
    parser.add_argument("--make", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        return make(options.make, options.out / options.make)
    from networks import NETWORKS
    lines, failed = [
        "| network | inference | 1 step | 5 | 20 | what stops it |",
        "| --- | --- | --- | --- | --- | --- |",
    ], False
    for name in options.only or sorted(NETWORKS):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                errors, stops = compare(options, name, pathlib.Path(scratch))
            except (Failed, subprocess.TimeoutExpired) as error:
                errors, stops = {}, str(error)
        failed = failed or bool(stops)
        lines.append(
            f"| {name} | {' | '.join(f'{errors[key]:.0e}' if key in errors else '' for key in ('infer', *STEPS))} | {stops} |"
        )
        print(lines[-1], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "saved_models.md").write_text("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
