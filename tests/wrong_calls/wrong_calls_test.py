#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function of app.h, model.h and train.h, called as it should be, and then with each thing wrong that its types
allow: NULL, spans and lists that are not where they say, ranks, sizes and counts that cannot be, in arguments and in
what they point to. Each must say INVALID_ARGUMENT and what is wrong, or, without a status, give nothing.

Usage: wrong_calls_test.py BUILD [FUNCTION ...]
The table is in calls.py. A function of the headers that is not in it fails, and so does one of it that the headers do
not have. Calls are made in a process of their own, which begins again behind a call that ends it.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from calls import CALLS, World  # noqa: E402  pylint: disable=wrong-import-position
from headers import FUNCTIONS, STRUCTS  # noqa: E402  pylint: disable=wrong-import-position
from slips import ANY, ERROR, of_call  # noqa: E402  pylint: disable=wrong-import-position

MOST_MEMORY = 512 << 20  # more than all of it together takes, and less than any count of the slips
BOUND_SECONDS = 300


# ---- In the process that calls ----

def neutral(result):
    if isinstance(result, ctypes.Structure):
        return not any(bytes(result)[8:16])  # an empty span
    return not result


def judge(world, function, slip, result):
    """What is wrong with the answer; None: nothing."""
    if slip.expected == ANY:
        if function.result.base == "tenon_status":
            world.text_of(result)
        return None
    if function.result.base != "tenon_status":
        return None if function.result.base == "void" or neutral(result) else f"gave {result!r}"
    said = world.text_of(result)
    code = said.split(":")[0]
    if slip.expected == ERROR:
        return None if code != "OK" else "was taken"
    if code != slip.expected:
        return f"said {said}"
    # Feeds have names of their own, which say more.
    return None if slip.names in said or "feed '" in said else f"said {said}, and not '{slip.names}'"


def run_calls(build, names, begin, out):
    """Says before each call which it is, and what was wrong with it."""
    world = World(build)
    number = 0
    for name in names:
        function, call = FUNCTIONS[name], CALLS[name]
        right = call.make(world)
        slips = list(of_call(function, right))
        if number >= begin:
            said = world.call(name, right)
            said = world.text_of(said) if function.result.base == "tenon_status" else "OK"
            if said.split(":")[0] != call.code:
                print(f"wrong {name}: as it should be called: {said}", file=out, flush=True)
        for slip in slips:
            number += 1
            if number <= begin:
                continue
            arguments = call.make(world)
            slip.do(arguments)
            if call.later and slip.words.startswith(call.later):
                slip.expected = ANY
            print(f"call {number} {name}({slip.words})", file=out, flush=True)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            wrong = judge(world, function, slip, world.call(name, arguments))
            if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 > MOST_MEMORY:
                wrong = "took memory by the size"
            if wrong:
                print(f"wrong {name}({slip.words}): {wrong}", file=out, flush=True)
    print(f"end {number}", file=out, flush=True)
    os._exit(0)  # what slips left half made is not taken down


# ---- The test ----

def answers(build, names):
    """(how many calls, what was wrong)"""
    begin, wrong = 0, []
    while True:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, __file__, "--calls", build, str(begin), *names],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=folder,
                check=False,
                timeout=BOUND_SECONDS,
            )
        lines = done.stdout.splitlines()
        wrong += [line.removeprefix("wrong ") for line in lines if line.startswith("wrong ")]
        if lines and lines[-1].startswith("end "):
            return int(lines[-1].split()[1]), wrong
        last = [line for line in lines if line.startswith("call ")]
        if not last:
            raise RuntimeError(f"no call was made ({done.returncode}):\n{done.stdout}{done.stderr}")
        how = (
            signal.Signals(-done.returncode).name
            if done.returncode < 0
            else f"exit {done.returncode}: {done.stderr[-2000:]}"
        )
        wrong.append(f"{last[-1].split(' ', 2)[2]}: {how}")
        begin = int(last[-1].split()[1])


class WrongCalls(unittest.TestCase):
    build = ""
    names = ()

    def test_the_table_is_the_headers(self):
        self.assertEqual(
            sorted(set(FUNCTIONS) - set(CALLS)), [], "functions of the headers that calls.py does not have"
        )
        self.assertEqual(sorted(set(CALLS) - set(FUNCTIONS)), [], "functions of calls.py that no header has")

    def test_the_structs_are_as_the_compiler_has_them(self):
        layout = (Path(__file__).resolve().parents[2] / "plugin_api" / "check" / "layout.txt").read_text(
            encoding="utf-8"
        )
        for name, struct in STRUCTS.items():
            self.assertIn(f"struct {name} size {ctypes.sizeof(struct)} ", layout)

    def test_each_slip_is_answered(self):
        count, wrong = answers(self.build, self.names or list(CALLS))
        print(f"{count} wrong calls of {len(self.names or CALLS)} functions", file=sys.stderr)
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))


if __name__ == "__main__":
    if sys.argv[1] == "--calls":
        run_calls(sys.argv[2], sys.argv[4:], int(sys.argv[3]), sys.stdout)
    WrongCalls.build, WrongCalls.names = sys.argv[1], sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
