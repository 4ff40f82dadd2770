#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every row of peer_rows.py, Tenon beside each engine that a Python here has, in turn, on one page.

    peers.py [--only WORDS]... [--threads 1 2] [--seconds 1] [--rounds 3] [--busy 0 1] [--python ENGINE=PYTHON]...
    [--build build/release] [--out build/peers]
             [--against peers.tsv] [--isa NAME] [--made] [--beside NAME=PLUGIN]...

A row is made by the Python of `tensorflow`; each engine then runs in a process of its own, in the Python that --python
names for its library (tensorflow, torch, jax, openvino, onnxruntime; default: this one), round after round, so that
what else the machine does meets all alike. An engine that is not there, or whose answer is another than TensorFlow's,
is left out, and the page says why. Of each process the least and the median step are taken; of the rounds the least of
the least, and the median of the medians.

--busy 1 runs it again beside so many processes that do nothing but take time; the page then says what the medians are
over the quiet ones. --isa avx2 holds Tenon's kernels, oneDNN and code generator (`ninja variants` builds the kernels),
and the others where they can be, to that level; JAX's products and ONNX Runtime cannot be. --beside adds a column:
Tenon with a plugin more, as tenon_onednn3=build/release/lib/tenon/onednn3/tenon_cpu_onednn3.so, of rows that the
program `tenon` runs. --against names the rows whose ratio to the best peer fell by 5 % or more since that page. Writes
peers.md and peers.tsv (a line a row, threads, busy processes and engine: microseconds) into --out.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

from peer_rows import ENGINES, ROWS, about, load

LONGEST = 1800  # seconds that one program may take
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
FELL = 0.95

# What holds whom to a level: variables of the environment; Tenon's kernels and its code generator. ONNX Runtime knows
# none, nor do JAX's products (its generated code does).
HELD = {
    "avx2": (
        {
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "ATEN_CPU_CAPABILITY": "avx2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
            "XLA_FLAGS": "--xla_cpu_max_isa=AVX2",
        },
        "v3",
        "avx2",
    )
}
NOT_HELD = ("jax", "onnxruntime")


class Left(Exception):
    """Why an engine is left out of a row."""


# ---- In the engine's process ----

def measure(step, seconds):
    """{"least", "median"} of a step, in seconds."""
    end = time.perf_counter() + seconds / 4
    step()
    while time.perf_counter() < end:
        step()
    took, end = [], time.perf_counter() + seconds
    while len(took) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        took.append(time.perf_counter() - begin)
    return {"least": min(took), "median": statistics.median(took)}


def check(row, folder, found):
    import numpy as np
    for name, value, want in zip(about(folder)["fetches"], found, load(folder, "outputs.npz").values()):
        if want.dtype.kind != "f":
            continue
        value = np.asarray(value, np.float32)
        error = float(np.max(np.abs(value - want), initial=0.0)) / max(float(np.max(np.abs(want), initial=0.0)), 1e-30)
        if value.shape != want.shape or not error <= row.tolerance:
            raise Left(f"{name} is off by {error:.1e} of its largest element, where {row.tolerance:.0e} is allowed")


def run_peer(engine, row, folder, threads, seconds):
    step = getattr(row, engine)(folder, threads)
    check(row, folder, step())
    return measure(step, seconds)


# ---- The whole ----

def program(command, environment=None):
    try:
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=LONGEST,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        raise Left(f"took more than {LONGEST} s") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
        raise Left(lines[-1].removeprefix("Left: ")[:300])
    return done.stdout


class Busy:
    """So many processes that take time, while it lasts."""

    def __init__(self, count):
        self.count, self.running = count, []

    def __enter__(self):
        self.running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.count)]

    def __exit__(self, *_):
        for each in self.running:
            each.kill()
            each.wait()


class Bench:
    def __init__(self, options):
        self.options = options
        self.pythons = dict(one.split("=", 1) for one in options.python)
        self.beside = dict(one.split("=", 1) for one in options.beside)  # columns of Tenon with a plugin more
        self.guesses = {}  # seconds of Tenon's step
        self.times = collections.defaultdict(list)  # (row, threads, busy, engine): [{"least", "median"}]
        self.left = {}  # (row, engine): why

    def python(self, library):
        return self.pythons.get(library, sys.executable)

    def folder(self, row):
        return self.options.out / re.sub(r"\W+", "_", row.name)

    def itself(self, library, *words, environment=None):
        """This program's work in the Python of the library; what it printed last."""
        return self.program([self.python(library), "-B", __file__, *words], environment).strip().rpartition("\n")[2]

    def program(self, command, environment=None):
        held = HELD[self.options.isa][0] if self.options.isa else {}
        return program(command, {**held, **(environment or {})})

    def level(self):
        """Words that hold the program `tenon` to the level."""
        if not self.options.isa:
            return []
        _, variant, code = HELD[self.options.isa]
        kernels = self.options.build.resolve() / f"lib/tenon/plugins/tenon_cpu_{variant}.so"
        if not kernels.exists():
            raise Left(f"{kernels} is not there: build the target variants")
        families = sorted(kernels.parent.glob(f"tenon_cpu_*_{variant}.so"))
        return [word for each in [kernels, *families] for word in ("--plugin", each)] + [
            "--option",
            f"tenon.cpu_codegen.level={code}",
        ]

    def tenon(self, row, threads, plugin=None):
        folder, model = self.folder(row), about(self.folder(row))
        command = [
            self.options.build / "bin/tenon",
            "run",
            folder / "graph.pb",
            "--time",
            "--threads",
            threads,
            "--precision",
            row.precision,
        ]
        command += ["--feed", folder / "feeds.npz"] if model["feeds"] else []
        command += self.level() + (["--plugin", pathlib.Path(plugin).resolve()] if plugin else [])
        ends = folder / "tenon.npz"
        for flag, names in (
            ("--fetch", [f"{one}={ends}" for one in model["fetches"]]),
            ("--target", model["targets"]),
            ("--init", model["init"]),
        ):
            command += [word for one in names for word in (flag, one)]
        if (row.name, plugin) not in self.guesses:  # one step is the one that is compared
            self.program([*command, "--repeat", 1])
            self.itself("tensorflow", "--check", row.name, folder)
        guess = self.guesses.get((row.name, plugin))
        out = self.program([*command, "--repeat", max(8, int(1.25 * self.options.seconds / guess)) if guess else 8])
        found = {
            what: float(number) * SECONDS[unit]
            for what, number, unit in re.findall(r"(min|median) ([\d.]+) (\w+)", out)
        }
        self.guesses[row.name, plugin] = found["median"]
        return {"least": found["min"], "median": found["median"]}

    def once(self, row, engine, threads):
        if hasattr(row, "run"):
            if engine == "tenon" and self.options.isa:
                raise Left(f"not timed: only the program tenon is held to {self.options.isa}")
            return row.run(self, engine, threads)
        if engine == "tenon" or engine in self.beside:
            return self.tenon(row, threads, self.beside.get(engine))
        said = self.itself(ENGINES[engine], "--peer", engine, row.name, self.folder(row), threads, self.options.seconds)
        return json.loads(said)

    def run_row(self, row):
        if not (self.options.made and (self.folder(row) / "model.json").exists()):
            self.itself("tensorflow", "--make", row.name, self.folder(row))
        engines = [
            "tenon",
            *([] if hasattr(row, "run") else self.beside),
            *[one for one in row.engines() if one in self.options.engines],
        ]
        self.once(row, "tenon", self.options.threads[0])  # warm, and how long it takes
        for busy in self.options.busy:
            with Busy(busy):
                for _ in range(self.options.rounds):
                    for threads in self.options.threads:
                        for engine in engines:
                            if (row.name, engine) not in self.left:
                                self.attempt(row, engine, threads, busy)

    def attempt(self, row, engine, threads, busy):
        try:
            self.times[row.name, threads, busy, engine].append(self.once(row, engine, threads))
        except Exception as error:  # whatever an engine does, the others are timed
            why = str(error) if isinstance(error, Left) else f"{type(error).__name__}: {error}"
            self.left[row.name, engine] = why
            print(f"  {row.name}, {engine}: {why}", file=sys.stderr, flush=True)

    # ---- What is written ----

    def least(self, *key):
        held = self.times.get(key)
        return min(one["least"] for one in held) if held else None

    def median(self, *key):
        held = self.times.get(key)
        return statistics.median(one["median"] for one in held) if held else None

    def best(self, of, row, threads, busy):
        """(seconds, engine) of the best peer by least() or median(); None where there is none."""
        known = [
            (took, engine)
            for engine in self.options.engines
            if (took := of(row.name, threads, busy, engine)) is not None
        ]
        return min(known) if known else None

    def write(self):
        keys = sorted(self.times, key=lambda key: (list(ROWS).index(key[0]), *map(str, key[1:])))
        lines = [
            f"{name}\t{threads}\t{busy}\t{engine}\t{1e6 * self.least(name, threads, busy, engine):.4g}\t{1e6 * self.median(name, threads, busy, engine):.4g}"
            for name, threads, busy, engine in keys
            if self.times[name, threads, busy, engine]
        ]
        (self.options.out / "peers.tsv").write_text(
            "\n".join(["row\tthreads\tbusy\tengine\tleast_us\tmedian_us", *lines]) + "\n"
        )
        (self.options.out / "peers.md").write_text("\n".join(self.page()) + "\n")

    def page(self):
        yield f"# Tenon beside its peers\n\n{processor()}; {len(os.sched_getaffinity(0))} cores{', held to ' + self.options.isa if self.options.isa else ''}.\n"
        yield "Least steps, in turn. Over Tenon: the best peer's time over Tenon's; 1 and more is a goal reached.\n"
        columns = [*self.beside, *self.options.engines]
        yield f"| row | threads | unit | Tenon | {' | '.join(columns)} | best over Tenon |\n| {'--- | ' * (5 + len(columns))}"
        ratios = []
        for row in ROWS.values():
            for threads in self.options.threads:
                mine, best = self.least(row.name, threads, self.options.busy[0], "tenon"), self.best(
                    self.least, row, threads, self.options.busy[0]
                )
                if mine is None:
                    continue
                scale = 1 / SECONDS[row.unit] / row.per
                cells = [
                    took and f"{took * scale:.3g}" or ""
                    for took in (self.least(row.name, threads, self.options.busy[0], one) for one in columns)
                ]
                ratio = best and best[0] / mine
                if ratio:
                    ratios.append((ratio, row.name, threads))
                yield f"| {row.name} | {threads} | {row.unit} | {mine * scale:.3g} | {' | '.join(cells)} | {f'{ratio:.2f}' if ratio else ''} |"
        if ratios:
            mean = math.exp(sum(math.log(ratio) for ratio, *_ in ratios) / len(ratios))
            yield f"\nGeometric mean of {len(ratios)}: {mean:.2f}. Behind: {', '.join(f'{name} on {threads} ({ratio:.2f})' for ratio, name, threads in sorted(ratios) if ratio < 1) or 'none'}."
        yield from self.busy_table()
        yield from self.fallen()
        if self.left:
            yield "\n## Left out\n"
            yield from (f"- {name}, {engine}: {why}" for (name, engine), why in self.left.items())

    def busy_table(self):
        for busy in self.options.busy[1:]:
            yield f"\n## Beside {busy} busy processes\n\nMedians over the quiet ones' medians.\n\n| row | threads | Tenon | {' | '.join(self.options.engines)} |\n| {'--- | ' * (3 + len(self.options.engines))}"
            for row in ROWS.values():
                for threads in self.options.threads:
                    pairs = [
                        (
                            self.median(row.name, threads, busy, one),
                            self.median(row.name, threads, self.options.busy[0], one),
                        )
                        for one in ("tenon", *self.options.engines)
                    ]
                    if any(a and b for a, b in pairs):
                        yield f"| {row.name} | {threads} | {' | '.join(f'{a / b:.2f}' if a and b else '' for a, b in pairs)} |"

    def fallen(self):
        """Rows whose ratio to the best of the engines that both pages have fell."""
        if not self.options.against:
            return
        before = collections.defaultdict(dict)
        for line in self.options.against.read_text().splitlines()[1:]:
            name, threads, busy, engine, least, _ = line.split("\t")
            before[name, int(threads), int(busy)][engine] = float(least)
        lines = []
        for (name, threads, busy), held in before.items():
            now = {engine: took for engine in held if (took := self.least(name, threads, busy, engine)) is not None}
            peers = [engine for engine in now if engine in ENGINES]
            if "tenon" not in now or not peers:
                continue
            was, is_now = (min(times[one] for one in peers) / times["tenon"] for times in (held, now))
            if is_now < FELL * was:
                lines.append(f"- {name}, {threads} threads, {busy} busy: {was:.2f} before, {is_now:.2f} now")
        yield f"\n## Fallen by 5 % or more since {self.options.against.name}\n"
        yield from lines or ["None."]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORDS",
        help="rows whose names hold these words; may be repeated",
    )
    parser.add_argument(
        "--engines", nargs="+", choices=list(ENGINES), help="default: all; with --isa those that can be held to it"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--busy", type=int, nargs="+", default=[0], help="the first is what the page's first table shows"
    )
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PYTHON")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/peers"))
    parser.add_argument("--against", type=pathlib.Path, help="an earlier peers.tsv")
    parser.add_argument("--isa", choices=list(HELD), help="the level that all are held to")
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="NAME=PLUGIN",
        help="a column of Tenon with this plugin, too; may be repeated",
    )
    parser.add_argument("--made", action="store_true", help="rows that --out holds already are not made again")
    parser.add_argument("--list", action="store_true", help="the rows' names, and nothing else")
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--check", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--peer", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        return print("\n".join(ROWS))
    if options.make:
        return ROWS[options.make[0]].make(pathlib.Path(options.make[1]))
    if options.check:
        folder = pathlib.Path(options.check[1])
        found = load(folder, "tenon.npz")
        return check(
            ROWS[options.check[0]],
            folder,
            [found[one if one in found else f"{one}:0"] for one in about(folder)["fetches"]],
        )
    if options.peer:
        engine, name, folder, threads, seconds = options.peer
        return print(json.dumps(run_peer(engine, ROWS[name], pathlib.Path(folder), int(threads), float(seconds))))
    options.engines = options.engines or [one for one in ENGINES if not (options.isa and one in NOT_HELD)]
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    for row in ROWS.values():
        if options.only and not any(words in row.name for words in options.only):
            continue
        print(row.name, flush=True)
        try:
            bench.run_row(row)
        except Left as why:
            bench.left[row.name, "all"] = str(why)
            print(f"  {why}", file=sys.stderr, flush=True)
        bench.write()
    print(f"{options.out}/peers.md")


if __name__ == "__main__":
    main()
