# SPDX-License-Identifier: Apache-2.0
"""Draws cases of ops and writes them with TensorFlow's answers; needs TensorFlow 2.21.

    make_cases.py                          all of cases/*.jsonl, as they are committed
    make_cases.py --package math           one file of them
    make_cases.py --op Add --op Sub -o -   some ops, to the standard output
    make_cases.py --seed 7 --count 2000 -o FILE      fresh cases of any ops
"""
import argparse
import json
import os
import pathlib
import select
import signal
import sys

import oracle
from generators import draw, load, registry

HERE = pathlib.Path(__file__).resolve().parent
SEED = 20260101  # of the committed cases


def committed_count(op):
    """At least 25 an op, three for each dtype, and more where the generator says so."""
    generator = draw.GENERATORS[op]
    kinds = [attr for attr in registry.definition(op).attr if attr.type == "type"]
    dtypes = max((len(registry.dtypes(op, attr.name)) for attr in kinds), default=1)
    return generator.count or max(25, 3 * dtypes)


PATIENCE = 60  # seconds for one case
LONGEST = 200_000  # characters of a case: a disturbed shape may ask for any number of elements


def _lines(read, child):
    """What the child writes, line by line; a child that is silent for too long is ended."""
    rest = b""
    while True:
        if not select.select([read], [], [], PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
            return
        piece = os.read(read, 1 << 20)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines


def answers(jobs):
    """The lines of (op, seed, number), in their order. TensorFlow may die of a case, or never end: a child asks it."""
    at = 0
    while at < len(jobs):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            with os.fdopen(write, "w") as out:
                for job in jobs[at:]:
                    out.write(_answer(*job) + "\n")
                    out.flush()
            os._exit(0)
        os.close(write)
        for line in _lines(read, child):
            at += 1
            if line:
                yield line.decode() + "\n"
        os.close(read)
        os.waitpid(child, 0)
        if at < len(jobs):
            print(f"TensorFlow died of case {jobs[at]}, or did not end it; it is left out", file=sys.stderr)
            at += 1


def _answer(op, seed, number):
    """A line, or nothing where TensorFlow has no answer."""
    try:
        line = json.dumps(oracle.ask(draw.draw(op, seed, number)), separators=(",", ":"))
        return line if len(line) < LONGEST else ""
    except oracle.NoAnswer:
        return ""
    except Exception as error:
        print(
            f"the generator of {op} (seed {seed}, case {number}) failed: {type(error).__name__}: {error}",
            file=sys.stderr,
        )
        return ""


def write(path, jobs):
    if path == "-":
        sys.stdout.writelines(answers(jobs))
        return
    with open(path, "w", encoding="ascii") as out:
        out.writelines(answers(jobs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", action="append", help="only this package's cases (may come several times)")
    parser.add_argument("--op", action="append", help="only this op's cases (may come several times)")
    parser.add_argument("--seed", type=int, help="fresh cases from this seed")
    parser.add_argument("--count", type=int, default=2000, help="how many fresh cases")
    parser.add_argument("-o", "--output", help="the file; '-' for standard output")
    options = parser.parse_args()
    load()
    unknown = set(options.op or []) - set(draw.GENERATORS)
    if unknown:
        parser.error(f"no generator for {', '.join(sorted(unknown))}")
    ops = [op for op in sorted(draw.GENERATORS) if (not options.op or op in options.op)
           and (not options.package or draw.GENERATORS[op].package in options.package)]
    if options.seed is not None:
        number = -(-options.count // len(ops))
        jobs = [(op, options.seed, i) for i in range(number) for op in ops][: options.count]
        write(options.output or "-", jobs)
    elif options.output:
        write(options.output, [(op, SEED, i) for op in ops for i in range(committed_count(op))])
    else:
        for package in sorted({draw.GENERATORS[op].package for op in ops}):
            mine = [op for op in ops if draw.GENERATORS[op].package == package]
            write(
                HERE / "cases" / f"{package}.jsonl", [(op, SEED, i) for op in mine for i in range(committed_count(op))]
            )


if __name__ == "__main__":
    main()
