#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What precision int8 costs and brings: networks of tests/models in 8-bit integers beside the same in floats, by `tenon
run` alone.

    int8.py [--only NAME]... [--batch 8] [--batches 4] [--threads 1] [--seconds 1] [--rounds 3] [--out build/int8]
    [--build build/release] [--made]

A network is made as tests/perf/networks.py makes it (TensorFlow, published sizes, seeded weights, frozen); `digits` is
what `tenon train digits` has learnt, on its held-out images. It is calibrated on --batches batches of its feeds, and
looked at on as many others: how far the outputs are (the root mean square of the difference over that of the output,
and its largest over the largest element), how often the largest class is the same. Steps are timed in turn, float and
int8, the median of as many as fit into --seconds; the least of the rounds counts. Networks whose weights are random
show what rounding does to numbers, not what it does to a network's skill: that is what digits are for.

Writes int8.md and int8.json. Needs a Python with NumPy, and for all but digits with TensorFlow.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

import numpy as np

import networks

HERE = pathlib.Path(__file__).resolve().parent


def make(name, batch, batches, folder):
    """graph.pb and model.json, and batch0.npz ..., twice as many as asked for: the first half is to calibrate by."""
    del sys.modules["networks"]  # tests/models has a package of that name
    sys.path.insert(0, str(HERE.parent / "models"))
    networks.make(name, batch, folder)
    from networks import NETWORKS
    network = NETWORKS[name](batch=batch, **networks.PUBLISHED.get(name, {}))
    wanted = json.loads((folder / "model.json").read_text())["inputs"]
    for i in range(2 * batches):
        feeds = network.feeds(np.random.default_rng(100 + i))
        np.savez(
            folder / f"batch{i}.npz",
            **{
                key: value.astype(np.float32) if value.dtype.kind == "f" else value
                for key, value in feeds.items()
                if key in wanted
            },
        )


def make_digits(build, batches, folder):
    """What `tenon train digits` saves; digits that it has learnt are to calibrate by, those that it has not seen to
    look at."""
    networks.program([build / "bin" / "tenon", "train", "digits", "--folder", folder, "--restart"])
    data = np.load(HERE.parent.parent / "sdk" / "app" / "train" / "data" / "digits.npy")
    label_of = {row[:64].tobytes(): int(row[64]) for row in data}
    unseen = np.load(folder / "unseen_images.npy")
    held_out = {image.tobytes() for image in unseen}
    learnt = np.array([row[:64].reshape(8, 8) for row in data if row[:64].tobytes() not in held_out])
    for half, images in enumerate((learnt, unseen)):
        size = len(unseen) // batches
        for i in range(batches):
            part = images[i * size:(i + 1) * size]
            np.savez(folder / f"batch{half * batches + i}.npz", images=part)
            np.save(folder / f"labels{half * batches + i}.npy", np.array([label_of[image.tobytes()] for image in part]))
    (folder / "graph.pb").write_bytes((folder / "digits.pb").read_bytes())
    (folder / "model.json").write_text(json.dumps({"inputs": ["images"], "outputs": ["probabilities"]}))


def tenon(options, folder, *words):
    return json.loads(
        networks.program(
            [
                options.build / "bin" / "tenon",
                "run",
                folder / "graph.pb",
                "--json",
                "--threads",
                options.threads,
                *words,
            ]
        )
    )


def measure(options, name):
    folder = options.out / f"{name}.{options.batch}"
    if not (options.made and (folder / "model.json").exists()):
        networks.program(
            [
                sys.executable,
                __file__,
                "--make",
                folder,
                "--only",
                name,
                "--batch",
                options.batch,
                "--batches",
                options.batches,
                "--build",
                options.build,
            ]
        )
    about = json.loads((folder / "model.json").read_text())
    fetches = [word for one in about["outputs"] for word in ("--fetch", one)]
    ranges = folder / "ranges.txt"
    calibrated = tenon(
        options,
        folder,
        *fetches,
        "--calibrate",
        *[folder / f"batch{i}.npz" for i in range(options.batches)],
        "--calibration",
        ranges,
    )["calibration"]
    int8 = ["--precision", "int8", "--calibration", ranges]
    found = {
        "int8": calibrated["int8"],
        "floats": len(calibrated["in_floats"]),
        "calibration": calibrated["accuracy"],
        "others": {},
    }
    square, exact_square, worst, largest, same, rows = 0.0, 0.0, 0.0, 0.0, 0, 0
    right = [0, 0]  # in floats, in int8, where there are labels
    for i in range(options.batches, 2 * options.batches):
        values = []
        for words in ([], int8):
            ends = folder / "values.npz"
            tenon(
                options, folder, "--feed", folder / f"batch{i}.npz", "--fetch", f"{about['outputs'][0]}={ends}", *words
            )
            with np.load(ends) as archive:
                values.append(archive[archive.files[0]].astype(np.float64))
        difference = values[1] - values[0]
        square, exact_square = square + np.sum(difference ** 2), exact_square + np.sum(values[0] ** 2)
        worst, largest = max(worst, np.max(np.abs(difference))), max(largest, np.max(np.abs(values[0])))
        if values[0].ndim == 2 and values[0].shape[1] > 1:
            rows += len(values[0])
            same += int(np.sum(values[0].argmax(1) == values[1].argmax(1)))
        if (folder / f"labels{i}.npy").exists():
            labels = np.load(folder / f"labels{i}.npy")
            right = [count + int(np.sum(value.argmax(1) == labels)) for count, value in zip(right, values)]
    found["others"] = {
        "output": about["outputs"][0],
        "relative": math.sqrt(square / exact_square),
        "max_of_largest": worst / largest,
        "rows": rows,
        "same": same,
        "right": right,
    }
    times, guess = {"float": math.inf, "int8": math.inf}, {}
    for turn in range(options.rounds + 1):  # the first shows how long a step takes
        for kind, words in (("float", []), ("int8", int8)):
            repeat = max(8, int(options.seconds * 1e6 / guess[kind])) if kind in guess else 5
            step = tenon(
                options, folder, "--feed", folder / "batch0.npz", *fetches, "--time", "--repeat", repeat, *words
            )["step"]
            guess[kind] = step["median_us"]
            if turn > 0:
                times[kind] = min(times[kind], step["median_us"])
    found["float_us"], found["int8_us"] = times["float"], times["int8"]
    return found


def report(options, results):
    lines = [
        f"Batches of {options.batch}, {options.threads} thread(s), {options.batches} to calibrate by and as many others to look at.",
        "",
        "| network | in 8-bit integers | rms, relative | largest, of the largest | top-1 the same | float, ms | int8 takes of it |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in results.items():
        if isinstance(found, str):
            lines.append(f"| {name} | {found} | | | | | |")
            continue
        others = found["others"]
        top = f"{others['same']} of {others['rows']}" if others["rows"] else ""
        if any(others["right"]):
            top += f"; right {others['right'][0]} in floats, {others['right'][1]} in int8"
        lines.append(
            f"| {name} | {found['int8']} of {found['int8'] + found['floats']} | {100 * others['relative']:.1f} % | {100 * others['max_of_largest']:.1f} % | {top} | "
            f"{found['float_us'] / 1e3:.3g} | {found['int8_us'] / found['float_us']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/int8"))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--made", action="store_true", help="networks that --out holds already are not made again")
    parser.add_argument("--make", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        return (
            make_digits(options.build, options.batches, options.make)
            if options.only[0] == "digits"
            else make(options.only[0], options.batch, options.batches, options.make)
        )
    options.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in options.only or [
        "digits",
        "lenet",
        "resnet50",
        "mobilenet_v2",
        "vgg_a",
        "inception_v3",
        "densenet121",
        "mlp",
    ]:
        try:
            results[name] = measure(options, name)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            results[name] = str(error)
        print(name, results[name], flush=True)
        (options.out / "int8.json").write_text(json.dumps(results, indent=1) + "\n")
    text = report(options, results)
    (options.out / "int8.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
