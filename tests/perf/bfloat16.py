#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What precision bfloat16 brings and costs on the CPU: networks in it beside the same in float32, by `tenon run`;
beside OpenVINO in both, where it is installed.

    bfloat16.py [--only NAME]... [--batch 1] [--seconds 2] [--rounds 5] [--core 1] [--out build/bfloat16] [--build
    build/release] [--made] [--openvino PYTHON]

A network is made as tests/perf/networks.py makes it (TensorFlow, published sizes, seeded weights, frozen). Every
program runs on one thread of one core (--core), in turn with the others, for --seconds; the least step of the rounds
counts, as others may use the machine. How far the outputs are from float32's: the root mean square of the difference
over that of the output, and its largest over the largest element. Networks whose weights are random show what rounding
does to numbers, not to a network's skill. --openvino is a Python with OpenVINO, which reads the same frozen graph (not
asked, where none is named).

Training: tests/models' graphs with their gradients (make_models.py), --train NAME; the least of so many steps, and the
loss after the last.

Writes bfloat16.md and bfloat16.json. Making needs a Python with TensorFlow.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

import networks

HERE = pathlib.Path(__file__).resolve().parent
PRECISIONS = ("float32", "bfloat16")


# ---- In processes of their own ----

def make(name, batch, folder):
    del sys.modules["networks"]  # tests/models has a package of that name
    networks.make(name, batch, folder)


def time_openvino(folder, precision, seconds):
    import openvino as ov
    about = json.loads((folder / "model.json").read_text())
    with np.load(folder / "feeds.npz") as archive:
        feeds = {f"{key}:0": np.ascontiguousarray(archive[key]) for key in archive.files}
    model = ov.convert_model(str(folder / "graph.pb"))
    name_of = {port: next(name for name in port.names if name in feeds) for port in model.inputs}
    model.reshape({port: list(feeds[name].shape) for port, name in name_of.items()})
    compiled = ov.Core().compile_model(
        model,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32" if precision == "float32" else "bf16",
        },
    )
    request = compiled.create_infer_request()
    given = {name: feeds[name] for name in name_of.values()}
    output = compiled.output(f"{about['outputs'][0]}:0")
    value = request.infer(given)[output]
    np.save(folder / f"openvino.{precision}.npy", value)
    least, end = math.inf, time.time() + seconds
    while time.time() < end:
        begin = time.perf_counter()
        request.infer(given, share_inputs=True, share_outputs=True)
        least = min(least, time.perf_counter() - begin)
    print(json.dumps({"us": least * 1e6}))


# ---- One after the other ----

def pinned(core, words, timeout=900):
    done = subprocess.run(
        ["taskset", "-c", str(core), *map(str, words)], capture_output=True, text=True, timeout=timeout
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1][:200])
    return json.loads(done.stdout[done.stdout.index("{"):])


def apart(exact, reduced):
    exact, reduced = exact.astype(np.float64), reduced.astype(np.float64)
    return {
        "relative": math.sqrt(np.sum((exact - reduced) ** 2) / np.sum(exact**2)),
        "max_of_largest": float(np.max(np.abs(exact - reduced)) / np.max(np.abs(exact))),
    }


def measure(options, name):
    folder = options.out / f"{name}.{options.batch}"
    if not (options.made and (folder / "model.json").exists()):
        networks.program([sys.executable, __file__, "--make", folder, "--only", name, "--batch", options.batch])
    output = json.loads((folder / "model.json").read_text())["outputs"][0]
    found = {"us": {}, "apart": {}, "openvino": ""}
    repeats = {}
    for turn in range(options.rounds + 1):  # the first shows how long a step takes
        for precision in PRECISIONS:
            words = [
                options.build / "bin" / "tenon",
                "run",
                folder / "graph.pb",
                "--json",
                "--threads",
                1,
                "--feed",
                folder / "feeds.npz",
                "--fetch",
                f"{output}={folder / precision}.npy",
                "--precision",
                precision.replace("float32", "strict"),
                "--time",
                "--repeat",
                repeats.get(precision, 3),
            ]
            step = pinned(options.core, words)["step"]
            repeats[precision] = max(3, int(options.seconds * 1e6 / step["median_us"]))
            if turn > 0:
                found["us"][precision] = min(found["us"].get(precision, math.inf), step["min_us"])
        if not options.openvino or found["openvino"] or turn == 0:
            continue
        for precision in PRECISIONS:
            try:
                step = pinned(
                    options.core,
                    [
                        options.openvino,
                        __file__,
                        "--time-openvino",
                        folder,
                        "--precision",
                        precision,
                        "--seconds",
                        options.seconds,
                    ],
                )
                found["us"]["openvino " + precision] = min(
                    found["us"].get("openvino " + precision, math.inf), step["us"]
                )
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                found["openvino"] = str(error)
    values = {precision: np.load(folder / f"{precision}.npy") for precision in PRECISIONS}
    found["apart"]["bfloat16"] = apart(values["float32"], values["bfloat16"])
    for precision in PRECISIONS:
        if (folder / f"openvino.{precision}.npy").exists():
            found["apart"]["openvino " + precision] = apart(
                values["float32"], np.load(folder / f"openvino.{precision}.npy")
            )
    return found


def train(options, name):
    folder = options.out / "train" / f"{name}.float"
    if not (options.made and (folder / "model.json").exists()):
        networks.program(
            [
                sys.executable,
                HERE.parent / "models" / "make_models.py",
                "--out",
                folder.parent,
                "--only",
                name,
                "--variant",
                "float",
            ]
        )
    found = {"us": {}, "loss": {}}
    for _ in range(options.rounds):
        for precision in PRECISIONS:
            words = [
                options.build / "bin" / "tenon",
                "run",
                folder / "graph.pb",
                "--json",
                "--threads",
                1,
                "--feed",
                folder / "feeds.npz",
                "--init",
                "init",
                "--target",
                "step",
                "--fetch",
                f"loss={folder / precision}.npy",
                "--precision",
                precision.replace("float32", "strict"),
                "--time",
                "--repeat",
                options.steps,
            ]
            step = pinned(options.core, words)["step"]
            found["us"][precision] = min(found["us"].get(precision, math.inf), step["min_us"])
            found["loss"][precision] = float(np.load(folder / f"{precision}.npy"))
    return found


def report(options, results, trained):
    def milliseconds(found, key):
        return f"{found['us'][key] / 1e3:.3g}" if key in found["us"] else ""

    def part(found, key, of):
        return f"{found['us'][key] / found['us'][of]:.2f}" if key in found["us"] and of in found["us"] else ""

    lines = [
        f"Batch {options.batch}, one thread on one core, the least of {options.rounds} rounds of {options.seconds:g} s.",
        "",
        "| network | float32, ms | bfloat16, ms | of it | rms | largest | OpenVINO float32, ms | OpenVINO bfloat16, ms | of it | its rms |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in results.items():
        if isinstance(found, str):
            lines.append(f"| {name} | {found} |" + " |" * 8)
            continue
        off, other = found["apart"]["bfloat16"], found["apart"].get("openvino bfloat16")
        lines.append(
            f"| {name} | {milliseconds(found, 'float32')} | {milliseconds(found, 'bfloat16')} | {part(found, 'bfloat16', 'float32')} | {100 * off['relative']:.2f} % | {100 * off['max_of_largest']:.2f} % | "
            f"{milliseconds(found, 'openvino float32')} | {milliseconds(found, 'openvino bfloat16')} | {part(found, 'openvino bfloat16', 'openvino float32')} | {100 * other['relative']:.2f} % |"
            if other
            else f"| {name} | {milliseconds(found, 'float32')} | {milliseconds(found, 'bfloat16')} | {part(found, 'bfloat16', 'float32')} | {100 * off['relative']:.2f} % | {100 * off['max_of_largest']:.2f} % | {found['openvino']} | | | |"
        )
    if trained:
        lines += [
            "",
            f"| training | float32, ms a step | bfloat16, ms | of it | loss after {options.steps} steps, float32 | bfloat16 |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for name, found in trained.items():
            lines.append(
                f"| {name} | {found} | | | | |"
                if isinstance(found, str)
                else f"| {name} | {milliseconds(found, 'float32')} | {milliseconds(found, 'bfloat16')} | {part(found, 'bfloat16', 'float32')} | {found['loss']['float32']:.4g} | {found['loss']['bfloat16']:.4g} |"
            )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--train", action="append", default=[], metavar="NAME")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--core", type=int, default=(os.cpu_count() or 1) - 1)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bfloat16"))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--openvino", metavar="PYTHON", default="")
    parser.add_argument("--made", action="store_true", help="networks that --out holds already are not made again")
    parser.add_argument("--make", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--time-openvino", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        return make(options.only[0], options.batch, options.make)
    if options.time_openvino:
        return time_openvino(options.time_openvino, options.precision, options.seconds)
    options.out.mkdir(parents=True, exist_ok=True)
    results, trained = {}, {}
    for kind, names, one in (
        (results, options.only or ["resnet50", "bert_encoder", "mobilenet_v2", "vgg_a", "lenet"], measure),
        (trained, options.train, train),
    ):
        for name in names:
            try:
                kind[name] = one(options, name)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                kind[name] = str(error)
            print(name, kind[name], flush=True)
            (options.out / "bfloat16.json").write_text(
                json.dumps({"inference": results, "training": trained}, indent=1) + "\n"
            )
    text = report(options, results, trained)
    (options.out / "bfloat16.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
