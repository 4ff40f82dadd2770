#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenon on a GPU beside PyTorch and beside the card's limits: what `make bench-gpu` runs.

    bench_gpu.py [--quick] [--only NAME]... [--batch N]... [--precision NAME]... [--seconds 2] [--modes ...] [--device
    /device:GPU:0]

Trains the networks of OSDI'16's Table 1, ResNet-50, BERT-base and an LSTM (networks.cc; peers.py in PyTorch), with the
batch as published and with 8 and 1, in float32, TF32 and bfloat16 (Tenon: the float32 graph allowed bfloat16; PyTorch:
autocast). Each program runs in a process of its own; PyTorch gets Tenon's first weights and batch, and where the first
losses differ it is not timed and this program fails. Then products of large matrices, launches of chains of tiny
kernels, and copies.

Without PyTorch in --python, Tenon is measured alone, and it says so. --device /device:CPU:0 --tiny tries all of it
without a GPU. Writes bench_gpu.md (worst ratio first) and bench_gpu.json into --out, again after each network, so that
a run that ends early has left something.
"""

import argparse
import json
import math
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PRECISIONS = ("strict", "tf32", "bfloat16")
MODES = ("eager", "compiled", "reduce_overhead", "whole_graph")
COMPILED = MODES[1:]  # what "compiled PyTorch" is
SMALL = (8, 1)
SMALL_GOAL, GOAL, LAUNCH_GOAL_US = 1.3, 1.0, 10
# How far the first losses may be apart, over the larger of 1 and the loss.
TOLERANCES = {"strict": 1e-3, "tf32": 1e-2, "bfloat16": 5e-2}


class Failed(Exception):
    """A program ended badly; the text is what it said."""


def run(command, limit, whole=False):
    """The objects that the program prints. whole: all that it says is worth telling where it fails, not the last line
    alone."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {limit} s and was ended (--limit)") from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise Failed("\n".join(said if whole else said[-1:]) or f"ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Bench:
    def __init__(self, options):
        self.options = options
        self.failures, self.training = [], []
        self.found = {"same_device": not options.torch_cpu or "CPU" in options.device}
        self.cpu = "CPU" in options.device

    # ---- The two sides ----

    def tenon(self, what, *more):
        o = self.options
        command = [
            str(o.build / "bin/gpu_bench"),
            what,
            "--device",
            o.device,
            "--seconds",
            str(o.seconds),
            *shlex.split(o.tenon),
            *map(str, more),
        ]
        return run(command, o.limit, whole=True)

    def torch(self, what, *more):
        o = self.options
        device = "cpu" if self.cpu or o.torch_cpu else "cuda"
        return run(
            [o.python, str(HERE / "peers.py"), what, "--device", device, "--seconds", str(o.seconds), *map(str, more)],
            o.limit,
        )

    def attempt(self, what, side, *more):
        """What the side says; nothing where it failed, which is told."""
        try:
            return side(*more)
        except Failed as failure:
            self.failures.append(f"{what}: {failure}")
            print(f"  {self.failures[-1]}", file=sys.stderr, flush=True)
            return []

    # ---- What there is ----

    def look(self):
        """The device, which must be there, and PyTorch, which may be."""
        try:
            self.found["device"] = self.tenon("device")[0]
        except FileNotFoundError:
            sys.exit(
                f"bench_gpu.py: {self.options.build} has no bin/gpu_bench: build the target gpu_bench, and bring the folder along"
            )
        except Failed as failure:
            sys.exit(
                f"bench_gpu.py: {failure}\n{self.options.device} must be there: see `tenon devices` for what it lacks, or try this with "
                "--device /device:CPU:0 --tiny"
            )
        plugin, wished = self.found["device"]["plugin"], self.options.plugin
        if wished and not self.cpu and not self.options.tenon and plugin != wished:
            sys.exit(f"bench_gpu.py: {self.options.device} is {plugin}'s and {wished} was asked for")
        self.has_torch = not self.options.no_torch
        if self.has_torch:
            try:
                self.found["card"] = self.torch("card")[0]
            except (Failed, OSError) as failure:
                self.has_torch = False
                self.found["card"] = {"problem": str(failure)}
                print(f"PyTorch is left out: {failure} (PYTHON= names a Python that has it)", file=sys.stderr)
        self.found["driver"] = self.ask_driver()

    def ask_driver(self):
        names = (
            "name",
            "driver_version",
            "clocks.max.sm",
            "clocks.max.memory",
            "pcie.link.gen.max",
            "pcie.link.width.max",
            "power.limit",
        )
        if self.cpu or not shutil.which("nvidia-smi"):
            return {}
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader,nounits", "--id=0"],
            capture_output=True,
            text=True,
        )
        return dict(zip(names, (one.strip() for one in done.stdout.split(",")))) if done.returncode == 0 else {}

    # ---- Training ----

    def train_all(self):
        for network in self.tenon_networks():
            name = network["network"]
            size = network["tiny" if self.options.tiny else "published"]
            batches = self.options.batch or (
                [size["batch"]] if self.options.quick or self.options.tiny else [size["batch"], *SMALL]
            )
            for batch in batches:
                self.train(network, batch)
                self.write()

    def tenon_networks(self):
        listed = run([str(self.options.build / "bin/gpu_bench"), "networks"], 60)
        known = [one["network"] for one in listed]
        for name in self.options.only:
            if name not in known and name not in LIMITS:
                sys.exit(f"bench_gpu.py: --only {name}: there are {', '.join(known)}, {', '.join(LIMITS)}")
        return [one for one in listed if not self.options.only or one["network"] in self.options.only]

    def train(self, network, batch):
        with tempfile.TemporaryDirectory(dir=self.options.out) as folder:
            for i, precision in enumerate(self.options.precision):
                self.train_one(network, batch, precision, folder, write=i == 0)

    def train_one(self, network, batch, precision, folder, write):
        name, o = network["network"], self.options
        label = f"{name}, batch {batch}, {precision}"
        print(label, flush=True)
        size = ["--batch", batch, *(["--tiny"] if o.tiny else []), *(["--folder", folder] if write else [])]
        ours = self.attempt(f"{label}, Tenon", self.tenon, "train", "--network", name, "--precision", precision, *size)
        if not ours:
            return
        row = {
            "network": name,
            "about": network["about"],
            "batch": batch,
            "precision": precision,
            "tenon": ours[0],
            "torch": {},
        }
        self.training.append(row)
        self.tell("Tenon", ours[0])
        tolerance = TOLERANCES[precision]
        for mode, layout in self.ways(network) if self.has_torch else ():
            column = mode if layout == "channels_last" else f"{mode}, channels first"
            theirs = self.attempt(
                f"{label}, PyTorch {column}",
                self.torch,
                "train",
                "--network",
                name,
                "--folder",
                folder,
                "--mode",
                mode,
                "--layout",
                layout,
                "--precision",
                precision,
                "--optimizer",
                network["optimizer"],
                "--rate",
                network["rate"],
                "--tolerance",
                tolerance,
                "--losses",
                json.dumps(ours[0]["losses"]),
            )
            if theirs:
                row["torch"][column] = theirs[0]
                self.tell(f"PyTorch {column}", theirs[0])

    def ways(self, network):
        """PyTorch's modes and layouts: pictures that a compiler gets, in both."""
        for mode in self.options.modes:
            yield mode, "channels_last"
            if mode == "compiled" and not self.options.quick and network["published"]["side"]:
                yield mode, "channels_first"

    @staticmethod
    def tell(who, measured):
        losses = " ".join(f"{one:.6g}" for one in measured["losses"])
        print(
            f"  {who}: {measured['median_ms']:.4g} ms (least {measured['least_ms']:.4g}); losses {losses}", flush=True
        )

    # ---- Limits ----

    def measure_limits(self):
        o = self.options
        wanted = [one for one in LIMITS if not o.only or one in o.only]
        for what in wanted:
            print(what, flush=True)
            for precision in o.precision if what == "products" else ("strict",):
                more = list(LIMITS[what](o))
                if what == "products":
                    more += ["--precision", precision]
                self.found.setdefault(what, {"tenon": [], "torch": []})
                self.found[what]["tenon"] += self.attempt(f"{what}, Tenon", self.tenon, what, *more)
                if self.has_torch:
                    self.found[what]["torch"] += self.attempt(f"{what}, PyTorch", self.torch, what, *more)
            self.write()

    # ---- What is written ----

    def write(self):
        self.options.out.mkdir(parents=True, exist_ok=True)
        everything = {**self.found, "training": self.training, "failures": self.failures}
        (self.options.out / "bench_gpu.json").write_text(json.dumps(everything, indent=1))
        (self.options.out / "bench_gpu.md").write_text("\n".join(Report(everything).lines()) + "\n")


def of_size(options, small, large):
    return small if options.tiny else large


LIMITS = {
    "products": lambda o: ["--side", of_size(o, 128, 8192), "--count", of_size(o, 2, 8)],
    "launches": lambda o: ["--nodes", *of_size(o, [1, 10], [1, 10, 100, 1000, 10000])],
    "copies": lambda o: ["--bytes", *of_size(o, [1 << 12, 1 << 16], [1 << 12, 1 << 20, 1 << 26, 1 << 30])],
}


def table(heads, rows):
    yield "| " + " | ".join(heads) + " |"
    yield "| " + " | ".join("---" for _ in heads) + " |"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def number(value, digits=3):
    return "" if value is None else f"{value:.{digits}g}"


def spelled(values):
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)


class Report:
    """The Markdown of what was measured."""

    def __init__(self, found):
        self.found = found

    def lines(self):
        yield from self.head()
        yield from self.training()
        yield from self.products()
        yield from self.launches()
        yield from self.copies()
        if self.found["failures"]:
            yield "## What failed"
            yield ""
            yield from (f"- {one}" for one in self.found["failures"])

    def head(self):
        device, card, driver = self.found.get("device", {}), self.found.get("card", {}), self.found.get("driver", {})
        yield "# bench-gpu"
        yield ""
        yield f"{device.get('model')} ({device.get('plugin')}), {device.get('memory_bytes', 0) / 2**30:.0f} GiB. " + spelled(
            driver
        )
        yield ""
        if "problem" in card:
            yield f"PyTorch was left out: {card['problem']}"
        elif card:
            if not self.found["same_device"]:
                yield "PyTorch ran on the CPU (--torch-cpu): its losses can be compared, its times cannot."
            yield spelled({key: value for key, value in card.items() if key != "what"})
        yield ""

    def ratio(self, row):
        """The best compiled PyTorch's time over Tenon's; none where they ran on different devices."""
        if not self.found["same_device"]:
            return None
        compiled = [one["median_ms"] for column, one in row["torch"].items() if column.split(",")[0] in COMPILED]
        return min(compiled) / row["tenon"]["median_ms"] if compiled else None

    def training(self):
        rows = self.found["training"]
        if not rows:
            return
        columns = list(dict.fromkeys(column for row in rows for column in row["torch"]))
        yield "## Training steps"
        yield ""
        yield (
            "Milliseconds a step, medians, worst first. Ratio: the fastest compiled PyTorch's time over Tenon's; goal 1, and "
            f"{SMALL_GOAL} where the batch is 8 or less. Peak: share of the products' rate below. Elsewhere: nodes that the step runs on another device."
        )
        yield ""

        def order(row):
            ratio = self.ratio(row)
            return ratio / self.goal(row) if ratio is not None else math.inf
        heads = [
            "network",
            "batch",
            "precision",
            "Tenon",
            *(f"PyTorch {column}" for column in columns),
            "ratio",
            "goal",
            "peak",
            "memory: Tenon",
            "PyTorch",
            "captured launches",
            "elsewhere",
        ]
        yield from table(heads, (self.training_row(row, columns) for row in sorted(rows, key=order)))
        ratios = [ratio for ratio in map(self.ratio, rows) if ratio is not None]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            yield f"Geometric mean of {len(ratios)} ratios: {mean:.3g}. Goals reached: {sum(order(row) >= 1 for row in rows if self.ratio(row))}."
            yield ""

    @staticmethod
    def goal(row):
        return SMALL_GOAL if row["batch"] <= max(SMALL) else GOAL

    def training_row(self, row, columns):
        ours = row["tenon"]
        rate = ours["flop"] / ours["median_ms"] / 1e9  # TFLOP/s
        products = [one for side in self.found.get("products", {}).values() for one in side]
        peak = max((one["tflops"] for one in products if one["precision"] == row["precision"]), default=None)
        memory = [one["device_peak_bytes"] for one in row["torch"].values()]
        elsewhere = ", ".join(f"{one['count']} {one['op']}" for one in ours["elsewhere"])
        if ours["moves"]:
            elsewhere += f"; {len(ours['moves'])} values cross"
        return [
            row["network"],
            str(row["batch"]),
            row["precision"],
            number(ours["median_ms"], 4),
            *(number(row["torch"][column]["median_ms"], 4) if column in row["torch"] else "" for column in columns),
            number(self.ratio(row)),
            number(self.goal(row)),
            f"{100 * rate / peak:.0f} %" if peak else "",
            f"{ours['device_peak_bytes'] / 2**20:.0f} MiB",
            f"{min(memory) / 2**20:.0f} MiB" if memory else "",
            number(ours["captured_launches_a_step"]),
            elsewhere or "none",
        ]

    def products(self):
        found = self.found.get("products")
        if not found:
            return
        yield "## Products of square matrices"
        yield ""
        theirs = {one["precision"]: one["tflops"] for one in found["torch"]}
        yield from table(
            ["precision", "side", "Tenon, TFLOP/s", "PyTorch", "Tenon over PyTorch"],
            (
                [
                    one["precision"],
                    str(one["side"]),
                    number(one["tflops"]),
                    number(theirs.get(one["precision"])),
                    number(one["tflops"] / theirs[one["precision"]]) if one["precision"] in theirs else "",
                ]
                for one in found["tenon"]
            ),
        )

    def launches(self):
        found = self.found.get("launches")
        if not found:
            return
        yield "## Launches"
        yield ""
        yield (
            "A chain of tiny kernels that nothing fuses, microseconds: a step, a node, and what the calling thread itself worked in a step (some of it "
            f"waiting). Goal: a captured step is launched in less than {LAUNCH_GOAL_US} us whatever its size. What PyTorch's captured chain takes is the "
            "device's own time and one launch; the chain of 1 shows the launch and the wait from above."
        )
        yield ""
        both = [("Tenon, captured" if one["capture"] else "Tenon, one by one", one) for one in found["tenon"]]
        both += [(f"PyTorch {one['mode']}", one) for one in found["torch"]]
        yield from table(
            ["nodes", "who", "a step", "a node", "the thread", "captured launches"],
            (
                [
                    str(one["nodes"]),
                    who,
                    number(1e3 * one["median_ms"], 4),
                    number(one["us_a_node"]),
                    number(1e3 * one["thread_ms"]),
                    number(one.get("captured_launches_a_step")),
                ]
                for who, one in sorted(both, key=lambda pair: (pair[1]["nodes"], pair[0]))
            ),
        )

    def copies(self):
        found = self.found.get("copies")
        if not found:
            return
        yield "## Copies"
        yield ""
        limit = self.found.get("card", {}).get("memory_gbs")
        yield ("GB/s. To and from the device: one copy, waited for, of memory of either kind. "
               "On the device: one variable added to another, two read and one written"
               + (f"; the card's memory has {limit:.0f} GB/s by its clock." if limit else "."))
        yield ""
        theirs = {one["bytes"]: one for one in found["torch"]}
        names = [
            "to_device_pageable_gbs",
            "to_device_pinned_gbs",
            "from_device_pageable_gbs",
            "from_device_pinned_gbs",
            "on_device_gbs",
        ]
        ours = ["to_device_gbs", "to_device_pinned_gbs", "from_device_gbs", "from_device_pinned_gbs", "on_device_gbs"]
        heads = [
            "bytes",
            *(
                f"{who}{head}"
                for who in ("Tenon: ", "PyTorch: ")
                for head in ("to, pageable", "to, pinned", "from, pageable", "from, pinned", "on")
            ),
        ]
        yield from table(
            heads,
            (
                [
                    str(one["bytes"]),
                    *(number(one.get(name)) for name in ours),
                    *(number(theirs.get(one["bytes"], {}).get(name)) for name in names),
                ]
                for one in found["tenon"]
            ),
        )


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[2] / "build/release")
    parser.add_argument("--plugin", default="", help="whose device it must be, tenon.cuda or tenon.rocm")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch and numpy")
    parser.add_argument("--out", type=pathlib.Path, help="a folder (default: bench_gpu in the build)")
    parser.add_argument("--device", default="/device:GPU:0", help="Tenon's; a CPU is compared with PyTorch on the CPU")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="this network, or products, launches or copies; may be repeated",
    )
    parser.add_argument(
        "--batch",
        action="append",
        default=[],
        type=int,
        metavar="N",
        help="instead of the published one, 8 and 1; may be repeated",
    )
    parser.add_argument(
        "--precision", action="append", default=[], choices=PRECISIONS, help="may be repeated (default: all)"
    )
    parser.add_argument("--modes", nargs="+", choices=MODES, help="of PyTorch (default: all that the device has)")
    parser.add_argument("--seconds", type=float, help="of each timing (default: 2; quick: 0.5)")
    parser.add_argument(
        "--quick", action="store_true", help="the published batch alone, strict and bfloat16, eager and compiled"
    )
    parser.add_argument("--tiny", action="store_true", help="tiny networks, to try all of this on a CPU")
    parser.add_argument(
        "--limit", type=float, default=900, help="seconds that one program may take (default: %(default)s)"
    )
    parser.add_argument(
        "--tenon", default="", metavar="FLAGS", help="more flags for gpu_bench, such as --tenon='--no-capture'"
    )
    parser.add_argument(
        "--torch-cpu",
        action="store_true",
        help="PyTorch on the CPU whatever Tenon's device is: compares losses, not times",
    )
    parser.add_argument("--no-torch", action="store_true", help="Tenon alone")
    options = parser.parse_args(arguments)
    options.seconds = options.seconds or (0.5 if options.quick else 2)
    options.precision = options.precision or (["strict", "bfloat16"] if options.quick else list(PRECISIONS))
    cpu = "CPU" in options.device or options.torch_cpu
    options.modes = options.modes or (["eager", "compiled"] if options.quick or cpu else list(MODES))
    options.build = options.build.resolve()
    options.out = (options.out or options.build / "bench_gpu").resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    return options


def main():
    bench = Bench(parse(sys.argv[1:]))
    bench.look()
    bench.measure_limits()
    bench.train_all()
    bench.write()
    print(f"{bench.options.out}/bench_gpu.md")
    if bench.failures:
        sys.exit("bench_gpu.py: some of it failed:\n  " + "\n  ".join(bench.failures))


if __name__ == "__main__":
    main()
