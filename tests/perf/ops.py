#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single ops beside TensorFlow's own, on the same graphs and inputs in the same run.

A case (op_cases/) is a graph with some copies of one op (of the large size one), each on variables of its own, so that
neither side has anything to fold or to merge; a step runs all copies and fetches nothing. It is timed by `tenon run
--time` and by a prepared callable of TensorFlow (with its fast kernels, without Grappler, which would drop what nobody
reads), in turn; the least median of the rounds counts (or, on a machine with other work, the least step of all:
--least). What a step takes
besides its ops (a client's call, reading the variables) is part of both sides: the graph without the op is timed as
well, as `(a step)`.

Run with a Python that has TensorFlow 2.21. Writes ops.tsv into the folder --out after each case, and ops.md (worst
ratio first, and the geometric means) at the end. What ops.tsv has already is kept: --resume leaves it out, else the
cases that --only and the others name are timed anew and take their rows' places.
"""

import argparse
import math
import os
import pathlib
import re
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import tensorflow as tf

from op_cases import CASES, COPIES, SIZES, UNTIMED, Inputs
from op_cases.table import Results

LONGEST = 120  # seconds that one run of a program may take


def first_of(made):
    """The op that made these outputs."""
    return getattr(next(iter(tf.nest.flatten(made))), "op", made)


def build(name, size):
    graph = tf.Graph()
    with graph.as_default():
        made, before = [], []
        for copy in range(COPIES[size]):
            inputs = Inputs(size, copy)
            made.append(first_of(CASES[name](inputs)))
            before += inputs.before
        tf.group(*made, name="step")
        tf.group(*before, name="init")
    return graph


class TensorFlow:
    def __init__(self, graph, threads):
        config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        self.session = tf.compat.v1.Session(graph=graph, config=config)
        self.session.run("init")
        self.step = self.session.make_callable(graph.get_operation_by_name("step"))
        self.step()

    def time(self, seconds, least):
        """The median of a step, or the least, in us."""
        took, end = [], time.perf_counter() + seconds
        while not took or time.perf_counter() < end:
            begin = time.perf_counter()
            self.step()
            took.append(time.perf_counter() - begin)
        return 1e6 * sorted(took)[0 if least else len(took) // 2]


def ours(options, path, threads, seconds, guess):
    repeat = max(3, int(seconds * 1e6 / guess))
    command = [
        options.build / "bin" / "tenon",
        "run",
        path,
        "--init",
        "init",
        "--target",
        "step",
        "--repeat",
        str(repeat),
        "--time",
        "--threads",
        str(threads),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    found = re.search(("min" if options.least else "median") + r" ([0-9.]+) (ns|us|ms|s)", done.stdout)
    if done.returncode != 0 or not found:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return float(found[1]) * {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}[found[2]]


def measure(options, name, size, graph, threads):
    """us of one copy: Tenon's and TensorFlow's."""
    path = options.out / "case.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    theirs = TensorFlow(graph, threads)
    mine = math.inf
    try:
        least = theirs.time(0, options.least)
        guess = ours(options, path, threads, 0, 1)
        for _ in range(options.rounds):
            least = min(least, theirs.time(options.seconds, options.least))
            mine = min(mine, ours(options, path, threads, options.seconds, guess))
    finally:
        theirs.session.close()
    return mine / COPIES[size], least / COPIES[size]


def missing(options):
    """Prints the ops that TensorFlow knows, that have no case and of which no reason is given."""
    listed = subprocess.run(
        [options.build / "bin" / "tenon", "ops"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[1:]
    timed = {name.split(",")[0] for name in CASES}
    for line in listed:
        op = line.split()[0]
        if op not in timed and not any(re.fullmatch(pattern, op) for pattern in UNTIMED):
            print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument(
        "--build", type=pathlib.Path, default=pathlib.Path("build/release"), help="build folder (default: %(default)s)"
    )
    parser.add_argument("--only", default="", help="cases whose names match this regular expression")
    parser.add_argument("--below", type=float, help="only cases whose ratio in ops.tsv is less")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=SIZES)
    parser.add_argument("--threads", nargs="+", type=int, default=(1, 2))
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a turn (default: %(default)s)")
    parser.add_argument("--least", action="store_true", help="compare the least steps, not medians")
    parser.add_argument("--resume", action="store_true", help="leave out what ops.tsv has already")
    parser.add_argument(
        "--page",
        type=pathlib.Path,
        help="write a line for each case of ops.tsv, with the reasons of op_cases/reasons.py, and end",
    )
    parser.add_argument(
        "--missing", action="store_true", help="print the ops that have neither a case nor a reason, and end"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.missing:
        return missing(options)
    if options.page:
        print("no reason:", *Results(options.out).write_page(options.page), sep="\n")
        return None
    tf.compat.v1.disable_eager_execution()
    results, failed = Results(options.out), []
    for name in CASES:
        if not re.search(options.only, name):
            continue
        for size in options.sizes:
            wanted = [
                threads
                for threads in options.threads
                if not (options.resume and results.has(name, size, threads))
                and not (options.below and results.ratio(name, size, threads) >= options.below)
            ]
            try:
                graph = build(name, size) if wanted else None
                for threads in wanted:
                    results.keep(name, size, threads, *measure(options, name, size, graph, threads))
                    print(
                        f"{name}, {size}, {threads}: {results.ratio(name, size, threads):.2f}",
                        file=sys.stderr,
                        flush=True,
                    )
            except (
                RuntimeError,
                subprocess.TimeoutExpired,
                tf.errors.OpError,
                ValueError,
                TypeError,
                AttributeError,
                StopIteration,
            ) as error:
                failed.append((name, size, str(error)[:300]))
                print("FAILED", *failed[-1], file=sys.stderr, flush=True)
    print("\n".join(results.write(failed)))


if __name__ == "__main__":
    main()
