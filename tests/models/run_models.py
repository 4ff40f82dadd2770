#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs models of make_models.py in Tenon and in TensorFlow, and says how far apart they are.

    run_models.py FOLDER [--only NAME]... [--tenon build/release/bin/tenon] [--python PYTHON] [--out FOLDER]

FOLDER is what make_models.py wrote. Each model: what it infers, and loss and all variables (the optimizer's and moving
averages too) after one, five and twenty steps. TensorFlow is asked twice, with its plain kernels and with its fast
ones, and the nearer one counts. The error of a tensor is its largest difference, over its largest element (see LEAST);
a model's is that of its worst tensor. Whole numbers must be equal. Prints a table (errors: inference / after one / five
/ twenty steps) and writes it, as models.md and models.json, into --out; what was not run keeps its place there. Exit
code 1 when a model does not run, or is further from TensorFlow than TOLERANCE.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
STEPS = (1, 5, 20)
# By variant, of inference and after so many steps. A sum of a thousand elements in another order is off by some ten
# units of the last place, and a deep network by some hundred; training feeds that back. An activation near zero may
# fall on either side of a kink, and then a deep network's gradients differ in the first digits: in float TensorFlow's
# own two sets of kernels do so. Hence a float is also right within OWN times what they differ by; in double no such
# excuse is needed, and none is given.
FLOAT = {"infer": 2e-5, 1: 2e-4, 5: 1e-3, 20: 1e-2}
TOLERANCE = {
    "float": FLOAT,
    "double": {"infer": 1e-12, 1: 1e-11, 5: 1e-10, 20: 1e-7},
    "smooth": FLOAT,
    "functions": FLOAT,
}
OWN = 4
# An element is measured against the largest of its tensor, which counts as no less than this part of the largest of its
# kind (the variables; one slot of the optimizer): a gradient that is zero in theory is noise.
LEAST = 1e-3
LONGEST = 600  # seconds


class Failed(Exception):
    """Why a model did not run, in a line."""


def program(command):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"no end within {LONGEST} s") from error
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise Failed(
            re.sub(r"^tenon run: |graph '[^']*': ", "", lines[-1]) if lines else f"exit code {done.returncode}"
        )
    return done.stdout


class Tenon:
    def __init__(self, path, folder, about, scratch):
        self.command = [path, "run", folder / "graph.pb", "--feed", folder / "feeds.npz", "--init", "init"]
        self.about, self.scratch = about, scratch

    def values(self, fetches, repeat=1):
        path = self.scratch / "tenon.npz"
        path.unlink(missing_ok=True)
        asked = [word for name in fetches for word in ("--fetch", f"{name}={path}")]
        program([*self.command, "--repeat", repeat, *asked])
        with np.load(path) as found:
            return {name.removesuffix(":0"): found[name] for name in found.files}

    def time(self, what):
        """The median of twenty steps, in microseconds."""
        out = program([*self.command, "--repeat", 20, "--time", *what])
        number, unit = re.search(r"median ([\d.]+) (\w+)", out).groups()
        return float(number) * {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[unit]

    def times(self):
        ends = self.scratch / "timed.npz"
        infer = [word for name in self.about["outputs"] for word in ("--fetch", f"{name}={ends}")]
        return {"infer": self.time(infer), "step": self.time(["--target", "step", "--fetch", f"loss={ends}"])}


def largest(value):
    return float(np.max(np.abs(value), initial=0.0)) if value.dtype.kind == "f" else 0.0


def kinds_of(values):
    """{name: kind}: an optimizer's slot is named as its variable, and then by itself."""
    return {
        name: name.rsplit("/", 1)[1] if name.rpartition("/")[0] in values else name.split("/")[0] for name in values
    }


def distance(want, got, least):
    """(error, what is wrong), of one tensor; `least`: what counts as large."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return np.inf, f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        return (
            (0.0, "")
            if np.array_equal(want, got)
            else (np.inf, f"{np.sum(want != got)} of {want.size} elements are not equal")
        )
    if not np.array_equal(np.isfinite(want), np.isfinite(got)):
        return np.inf, "infinities or NaN in other places"
    apart = float(np.max(np.abs(want.astype(np.float64) - got), initial=0.0))
    return (apart / max(largest(want), least) if apart else 0.0), ""


def worst(want, got):
    """(error, the tensor with what is wrong), over all tensors."""
    kinds, least = kinds_of(want), {}
    for name, value in want.items():
        least[kinds[name]] = max(least.get(kinds[name], 0.0), LEAST * largest(value))
    found = [(*distance(value, got[name], least[kinds[name]]), name) for name, value in want.items()]
    error, text, name = max(found, key=lambda one: one[0])
    return error, f"{name}: {text}" if text else name


def part(values, step):
    return {name.removeprefix(f"{step}/"): value for name, value in values.items() if name.startswith(f"{step}/")}


class Compared:
    """One model: what both sides say."""

    def __init__(self, options, folder, scratch):
        self.about = json.loads((folder / "model.json").read_text())
        self.row = {
            **{key: self.about[key] for key in ("variant", "nodes", "about")},
            "model": self.about["name"],
            "ops": len(self.about["ops"]),
            "stops": "",
        }
        self.options, self.folder, self.scratch = options, folder, scratch
        self.wanted = ()  # TensorFlow's values, of either set of kernels

    def tensorflow(self, *more):
        path = self.scratch / "tensorflow.npz"
        times = program([self.options.python, HERE / "ask_tensorflow.py", self.folder, "--out", path, *more])
        with np.load(path) as found:
            return {name: found[name] for name in found.files}, json.loads(times.strip().splitlines()[-1])

    def compare(self):
        plain, _ = self.tensorflow()
        fast, self.row["tensorflow_us"] = self.tensorflow("--onednn")
        self.wanted = (plain, fast)
        self.row["own"] = {
            key: worst(self.expected(plain, key), self.expected(fast, key))[0] for key in ("infer", *STEPS)
        }
        self.row["error"], self.row["worst"] = {}, {}
        tenon = Tenon(self.options.tenon, self.folder, self.about, self.scratch)
        try:
            self.check("infer", tenon.values(self.about["outputs"]))
            for step in STEPS:
                self.check(step, tenon.values(["loss", *self.about["variables"]], step))
            self.row["tenon_us"] = tenon.times()
        except Failed as error:
            self.row["stops"] = str(error)
        return self.row

    def expected(self, values, key):
        return {name: values[name] for name in self.about["outputs"]} if key == "infer" else part(values, key)

    def check(self, key, got):
        error, where = min((worst(self.expected(want, key), got) for want in self.wanted), key=lambda one: one[0])
        self.row["error"][key], self.row["worst"][key] = error, where
        if key == max(STEPS):
            self.row["loss"] = min(distance(want[f"{key}/loss"], got["loss"], 0.0)[0] for want in self.wanted)
        variant, own = self.about["variant"], self.row["own"][key]
        allowed = max(TOLERANCE[variant][key], OWN * own if variant != "double" and np.isfinite(own) else 0)
        if not error <= allowed and not self.row["stops"]:
            self.row["stops"] = f"{key if key == 'infer' else f'after {key} steps'}: {where} is off by {error:.1e}"


def milliseconds(row, key):
    """Ours, and TensorFlow's in brackets."""
    return " ".join(
        text.format(row[side][key] / 1000)
        for side, text in (("tenon_us", "{:.2f}"), ("tensorflow_us", "({:.2f})"))
        if row.get(side)
    )


def errors(row, which="error"):
    return " / ".join(f"{row[which][key]:.0e}" for key in ("infer", *STEPS) if key in row.get(which, {}))


def table(rows):
    """A line for each network, with its variants."""
    heads = (
        "network",
        "nodes",
        "ops",
        "float",
        "TensorFlow's own, float",
        "loss in float",
        "smooth",
        "double",
        "functions",
        "inference, ms",
        "step, ms",
        "what is smaller",
        "what stops it",
    )
    lines = ["| " + " | ".join(heads) + " |", "| --- | ---: | ---: |" + " --- |" * 6 + " ---: | ---: | --- | --- |"]
    for name in dict.fromkeys(row["model"] for row in rows):
        variants = {row["variant"]: row for row in rows if row["model"] == name}
        single, double, smooth, functions = (variants.get(variant, {}) for variant in TOLERANCE)
        one = single or double or smooth or functions
        stops = "; ".join(f"{variant}: {row['stops']}" for variant, row in variants.items() if row.get("stops"))
        loss = f"{single['loss']:.0e}" if "loss" in single else ""
        cells = [
            name,
            str(one["nodes"]),
            str(one["ops"]),
            errors(single),
            errors(single, "own"),
            loss,
            errors(smooth),
            errors(double),
            errors(functions),
            milliseconds(one, "infer"),
            milliseconds(one, "step"),
            one["about"],
            stops,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def keep(rows, folder):
    """Writes rows and table, with what earlier runs wrote of other models."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "models.json"
    found = {
        (row["model"], row["variant"]): row for row in [*(json.loads(path.read_text()) if path.exists() else []), *rows]
    }
    text = json.dumps([found[key] for key in sorted(found)])
    ordered = json.loads(
        text, object_hook=lambda made: {int(key) if key.isdigit() else key: value for key, value in made.items()}
    )
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    (folder / "models.md").write_text(table(ordered))
    print(table(ordered), end="")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument(
        "--tenon", type=pathlib.Path, default=HERE.parents[1] / "build/release/bin/tenon", help="default: %(default)s"
    )
    parser.add_argument("--python", default=sys.executable, help="one that has TensorFlow (default: this)")
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("."), help="folder of models.md and models.json"
    )
    options = parser.parse_args()
    rows = []
    for folder in sorted(path.parent for path in options.folder.glob("*/model.json")):
        if options.only and folder.name.split(".")[0] not in options.only:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            compared = Compared(options, folder, pathlib.Path(scratch))
            try:
                rows.append(compared.compare())
            except Failed as error:
                rows.append({**compared.row, "stops": f"TensorFlow: {error}"})
        print(
            json.dumps({key: rows[-1].get(key) for key in ("model", "variant", "error", "worst", "own", "stops")}),
            file=sys.stderr,
            flush=True,
        )
    keep(rows, options.out)
    return any(row["stops"] for row in rows) or not rows


if __name__ == "__main__":
    sys.exit(main())
