#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the tests that a change can touch, the nearest first (make check).

What was changed is what git finds beside HEAD, or beside another commit. Which test it can touch says the build's own
graph (build.ninja, and the headers that the compiler found): near are the programs that are linked of it, far those
that load a library of it when they run. Tests that are no program are far: they run where a library or program of the
change is named in their command, or in their folder. It ends with the first test that fails.

usage: check.py BUILD_FOLDER [--since COMMIT] [--near] [--list] [--jobs N]
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

# What CMake writes for each edge: outputs, rule, inputs; "|" before those that are implicit, "||" before those that
# must only be there.
EDGE = re.compile(
    r"^build (?P<outputs>[^:|]+)(?:\|[^:]*)?: (?P<rule>\S+)(?P<inputs>[^|]*)(?:\|(?!\|)(?P<implicit>[^|]*))?(?:\|\|(?P<order>.*))?$"
)


class Graph:
    """Which outputs are made of a file. A header that the build writes itself makes nothing near: it is seldom
    another."""

    def __init__(self, ninja, deps, build, root):
        self.near, self.far = collections.defaultdict(set), collections.defaultdict(set)
        for line in ninja.replace("$\n", "").splitlines():
            match = EDGE.match(line)
            if not match:
                continue
            outputs = [os.path.normpath(output) for output in match["outputs"].split()]
            for output in outputs:
                for name in (match["inputs"] + " " + (match["implicit"] or "")).split():
                    (self.far if output.endswith(".h") else self.near)[self.path(name, build, root)].add(output)
                for name in (match["order"] or "").split():
                    self.far[self.path(name, build, root)].add(output)
        output = None
        for line in deps.splitlines():
            if line and not line[0].isspace():
                output = line.split(":")[0]
            elif output and line.strip():
                self.near[self.path(line.strip(), build, root)].add(output)

    @staticmethod
    def path(name, build, root):
        """Of a file of the tree its path there; what the build makes is named from its folder."""
        whole = os.path.normpath(os.path.join(build, name))
        for folder in (build, root):
            if whole.startswith(f"{folder}/"):
                return os.path.relpath(whole, folder)
        return whole

    def made_of(self, files, far):
        found, left = set(), list(files)
        while left:
            name = left.pop()
            for output in self.near[name] | (self.far[name] if far else set()):
                if output not in found:
                    found.add(output)
                    left.append(output)
        return found


def output_of(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def changed(root, since):
    named = output_of("git", "diff", "--name-only", since, cwd=root) + output_of(
        "git", "ls-files", "--others", "--exclude-standard", cwd=root
    )
    return set(named.split("\n")) - {""}


def tests_of(build):
    """[(name, program below the build folder or None, command, seconds that it took)]"""
    took = {}
    for line in (
        (build / "Testing/Temporary/CTestCostData.txt").read_text().splitlines()
        if (build / "Testing/Temporary/CTestCostData.txt").exists()
        else []
    ):
        words = line.split()
        if len(words) == 3:
            took[words[0]] = float(words[2])
    found = []
    for test in json.loads(output_of("ctest", "--test-dir", str(build), "--show-only=json-v1"))["tests"]:
        command = test.get("command", [])
        program = os.path.relpath(command[0], build) if command and command[0].startswith(f"{build}/") else None
        found.append((test["name"], program, command, took.get(test["name"], 1.0)))
    return found


def choose(tests, near, far, files, build, root):
    """(near tests, far tests), the quickest of each first."""
    def touched(command):
        words = [os.path.relpath(word, build) for word in command if word.startswith(f"{build}/")]
        folders = [
            os.path.relpath(os.path.dirname(word), root)
            for word in command
            if word.startswith(f"{root}/") and not word.startswith(f"{build}/")
        ]
        return any(word in far for word in words) or any(
            file.startswith(f"{folder}/") for folder in folders if folder != "." for file in files
        )

    by_time = sorted(tests, key=lambda test: test[3])
    first = [test for test in by_time if test[1] in near]
    return first, [test for test in by_time if test not in first and (test[1] in far or touched(test[2]))]


def run(build, jobs, tests, begun):
    for name, program, _, _ in tests:
        if (
            program
            and subprocess.run(
                ["ninja", "-C", str(build), "-j", str(jobs), program], stdout=subprocess.DEVNULL, check=False
            ).returncode
            != 0
        ):
            return f"{program} cannot be built (ninja -C {build} {program})"
        if (
            subprocess.run(
                ["ctest", "--test-dir", str(build), "-R", f"^{re.escape(name)}$", "--output-on-failure"],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            ).returncode
            != 0
        ):
            return f"{name} fails: ctest --test-dir {build} -R '^{name}$' --output-on-failure"
        print(f"{time.monotonic() - begun:6.0f} s  {name}", flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--since", default="HEAD")
    parser.add_argument("--near", action="store_true", help="the near ones alone")
    parser.add_argument("--list", action="store_true", help="name them, and run none")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    begun = time.monotonic()
    build = options.build.resolve()
    if not (build / "build.ninja").exists():
        return f"{build} is no build folder: run make build first"
    root = Path(output_of("git", "rev-parse", "--show-toplevel", cwd=Path(__file__).parent).strip())
    files = changed(root, options.since)
    if not files:
        return f"nothing was changed since {options.since}"
    subprocess.run(["ninja", "-C", str(build), "build.ninja"], stdout=subprocess.DEVNULL, check=True)
    graph = Graph(
        (build / "build.ninja").read_text(), output_of("ninja", "-C", str(build), "-t", "deps"), str(build), str(root)
    )
    first, then = choose(
        tests_of(build), graph.made_of(files, False), graph.made_of(files, True), files, str(build), str(root)
    )
    print(
        f"{len(files)} changed files can touch {len(first)} tests that are linked of them, and {len(then)} that load what is.",
        flush=True,
    )
    if options.near:
        then = []
    if options.list:
        print("\n".join(test[0] for test in first + then))
        return None
    failure = run(build, options.jobs, first, begun)
    if failure or not then:
        return failure
    if (
        subprocess.run(
            ["ninja", "-C", str(build), "-j", str(options.jobs)], stdout=subprocess.DEVNULL, check=False
        ).returncode
        != 0
    ):
        return f"the build fails: ninja -C {build}"
    return run(build, options.jobs, then, begun)


if __name__ == "__main__":
    sys.exit(main())
