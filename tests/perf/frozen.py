#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --freeze brings: a SavedModel of dense layers with variables, run by `tenon run` with and without it, in three
precisions.

    frozen.py [--layers 6] [--width 768] [--hidden 3072] [--batch 1 8 128] [--rounds 3] [--steps 40] [--core N] [--build
    build/release]
              [--json FILE]

The two ways take turns, the least step of all rounds counts, and their outputs have to be equal to the byte. Needs a
Python with numpy; the package tenon is the build's.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np


def make(folder, options):
    import tenon
    graph = tenon.Graph()
    with graph:
        model = tenon.train.Model(graph)
        x = tenon.placeholder("float32", [None, options.width], name="x")
        y = x
        for i in range(options.layers):
            y = model.dense(f"down{i}", tenon.ops.relu(model.dense(f"up{i}", y, options.hidden)), options.width) + y
        session = tenon.Session(graph, seed=1)
    session.run(model.initialize_all())
    tenon.save(session, folder / "model", inputs={"x": x}, outputs={"y": y})
    for batch in options.batch:
        np.save(
            folder / f"x{batch}.npy", np.random.default_rng(0).standard_normal((batch, options.width), dtype=np.float32)
        )


def run(folder, options, *words):
    core = [] if options.core is None else ["taskset", "-c", str(options.core)]
    threads = [] if options.core is None else ["--threads", "1"]
    done = subprocess.run(
        [*core, options.build / "bin" / "tenon", "run", folder / "model", "--json", *threads, *words],
        capture_output=True,
        text=True,
        timeout=900,
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr or done.stdout)
    return json.loads(done.stdout)


def measure(folder, options, batch, precision):
    least = {}
    for _ in range(options.rounds):
        for way in ([], ["--freeze"]):
            words = [
                "--feed",
                f"x={folder}/x{batch}.npy",
                "--fetch",
                f"y={folder}/y{len(way)}.npy",
                "--precision",
                precision,
                "--time",
                "--repeat",
                str(options.steps),
                *way,
            ]
            if precision == "int8":
                words += ["--calibration", folder / "ranges.txt"]
            least[len(way)] = min(least.get(len(way), float("inf")), run(folder, options, *words)["step"]["min_us"])
    if not np.array_equal(np.load(folder / "y0.npy"), np.load(folder / "y1.npy")):
        raise RuntimeError(f"batch {batch}, {precision}: the outputs differ")
    return least


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("layers", 6), ("width", 768), ("hidden", 3072), ("rounds", 3), ("steps", 40)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 128])
    parser.add_argument("--core", type=int)
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here too, as figures.py takes them")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    options = parser.parse_args()
    options.build = options.build.resolve()
    sys.path.insert(0, os.fspath(options.build / "python"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(folder, options)
        run(
            folder,
            options,
            "--calibrate",
            f"x={folder}/x{max(options.batch)}.npy",
            "--calibration",
            folder / "ranges.txt",
        )
        print("| batch | precision | variables, ms | frozen, ms | of it |\n| --- | --- | --- | --- | --- |")
        found = {}
        for batch in options.batch:
            for precision in ("strict", "bfloat16", "int8"):
                least = measure(folder, options, batch, precision)
                found[f"{batch}.{precision}"] = {"variables_us": least[0], "frozen_us": least[1]}
                print(
                    f"| {batch} | {precision} | {least[0] / 1e3:.2f} | {least[1] / 1e3:.2f} | {least[1] / least[0]:.2f} |",
                    flush=True,
                )
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
