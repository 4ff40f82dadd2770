#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the lane of GPUs (`make test-gpu-emulated`) has to run: what it tests, against what it last passed with
(.ci/gpu_lane.txt, committed).

    gpu_lane.py               says "needed: why" or "not needed: why"
    gpu_lane.py state         prints what .ci/gpu_lane.txt keeps, of the working tree as it stands
    gpu_lane.py passed BUILD  keeps BUILD/gpu_lane.txt, the state that was built, once the lane has passed in that build
    folder

What counts is what files hold, by git's own hashes, and not when they were written: a clone says what the tree says in
which the lane passed. Files count as they stand, committed or not, those of which git knows nothing yet too unless they
are ignored; of changes that are not committed it says so.
"""

import argparse
import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
RECORD = ".ci/gpu_lane.txt"

# What the lane depends on: GPUs themselves, what they are made of, the engine's part that drives their queues and
# captures, and the tests of them alone. Of the rest of the engine, of ops and of their goldens `make test` says on the
# CPU and the simulated TPU whether they keep what they owe a device.
PATHS = (
    "devices/gpu",
    "devices/cuda",
    "devices/rocm",
    "sdk/author/plugin/include/tenon/sdk/device",
    "sdk/author/plugin/include/tenon/sdk/kernel",
    "sdk/author/extras/include/tenon/extras/device",
    "sdk/author/extras/include/tenon/extras/kernel",
    "sdk/author/extras/include/tenon/extras/walk",
    "sdk/cmake/TenonPlugin.cmake",
    "plugin_api/include/tenon/device.h",
    "plugin_api/include/tenon/kernel.h",
    "plugin_api/include/tenon/tensor.h",
    "plugin_api/include/tenon/ext/draft/capture.h",
    "plugin_api/include/tenon/ext/draft/collective.h",
    "plugin_api/include/tenon/ext/draft/compile.h",
    "plugin_api/include/tenon/ext/draft/graph_pass.h",
    "plugin_api/include/tenon/ext/draft/native_handle.h",
    "plugin_api/include/tenon/ext/draft/profile.h",
    "core/exec/device",
    "core/exec/program/capture.cc",
    "core/exec/program/capture.h",
    "sdk/author/testing/include/tenon/testing/device.h",
    "sdk/author/testing/include/tenon/testing/device_bench.h",
    "sdk/author/testing/include/tenon/testing/device_suite.h",
    "tests/device",
    "tests/gpu",
    "tests/perf/gpu",
    "tests/engine/capture_test.cc",
    "tests/engine/gpu_attention.h",
    "tests/engine/gpu_attention_gradient_test.cc",
    "tests/engine/gpu_attention_test.cc",
    "tests/engine/gpu_chain_test.cc",
    "tests/engine/gpu_filter_test.cc",
    "tests/engine/gpu_mixed_precision_test.cc",
    "tests/engine/pinned.h",
    "tests/engine/pinned_life_test.cc",
    "tests/engine/pinned_test.cc",
    "tools/gpu_kit",
)
VENDORS = ("cuda", "rocm")
HEAD = "# With what `make test-gpu-emulated` last passed: written by it, read by .ci/run (tools/gpu_lane.py). Where a merge meets itself here, run it again.\n"


class NoClone(Exception):
    pass


def git(*arguments, text=None):
    done = subprocess.run(["git", *arguments], cwd=ROOT, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoClone(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def files():
    """Every file of the listed paths as (path, mode, git's hash of what it holds)."""
    names = sorted(
        set(filter(None, git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PATHS).split("\0")))
    )
    names = [name for name in names if os.path.lexists(ROOT / name)]  # one that was deleted is in git's index still
    links = [name for name in names if (ROOT / name).is_symlink()]
    plain = [name for name in names if name not in links]
    hashes = dict(zip(plain, git("hash-object", "--stdin-paths", text="".join(f"{name}\n" for name in plain)).split()))
    hashes.update((name, git("hash-object", "--stdin", text=os.readlink(ROOT / name)).strip()) for name in links)
    for name in names:
        mode = "120000" if name in links else "100755" if os.access(ROOT / name, os.X_OK) else "100644"
        yield name, mode, hashes[name]


def state():
    """Of each listed path a hash of all that is below it."""
    sums = {path: hashlib.sha1() for path in PATHS}
    counts = dict.fromkeys(PATHS, 0)
    for name, mode, content in files():
        for path in PATHS:
            if name == path or name.startswith(path + "/"):
                sums[path].update(f"{mode} {content} {name}\n".encode())
                counts[path] += 1
    absent = [path for path in PATHS if not counts[path]]
    if absent:
        sys.exit(
            f"gpu_lane.py: {', '.join(absent)}: no file is there any more: bring PATHS in {pathlib.Path(__file__).name} in line"
        )
    return {path: sums[path].hexdigest() for path in PATHS}


def text_of(hashes):
    return HEAD + "".join(f"{hashes[path]} {path}\n" for path in PATHS)


def kept():
    """What the record has, by path; of a file that is torn what can be read of it."""
    try:
        text = (ROOT / RECORD).read_text()
    except FileNotFoundError:
        return None
    parts = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {part[1]: part[0] for part in parts if len(part) == 2}


def answer():
    try:
        now, then = state(), kept()
        changed = git("status", "--porcelain", "--", *PATHS).strip()
    except NoClone as why:
        return f"needed: what has changed cannot be told ({why})"
    also = ", and changes are not committed yet: they count" if changed else ""
    if then is None:
        return f"needed: {RECORD} is not there, so that it is not known to have passed{also}"
    others = [path for path in PATHS if then.get(path) != now[path]]
    if others:
        return f"needed: it has not passed since these changed: {', '.join(others)}{also}"
    return f"not needed: it has passed with what it tests as it stands ({RECORD}{also})"


def keep(build):
    """Says what it does, which is nothing where less was tested than the record would say."""
    built = (build / "gpu_lane.txt").read_text()
    absent = [vendor for vendor in VENDORS if not (build / f"lib/tenon/plugins/tenon_{vendor}.so").exists()]
    if absent:
        return f"{RECORD} stays as it was: passed without {' and '.join(f'devices/{vendor}' for vendor in absent)}, for which CMake has found no toolkit"
    try:
        now = text_of(state())
    except NoClone as why:
        return f"no {RECORD} is written: {why}"
    if now != built:
        return f"{RECORD} stays as it was: files were changed while the tests ran"
    (ROOT / RECORD).write_text(built)
    return f"{RECORD} is written: commit it with what was tested"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("state", "passed"))
    parser.add_argument("build", nargs="?", type=pathlib.Path)
    arguments = parser.parse_args()
    if (arguments.what == "passed") != (arguments.build is not None):
        parser.error("'passed' takes the build folder, and nothing else does")
    if arguments.what == "passed":
        print(keep(arguments.build))
    elif arguments.what == "state":
        print(text_of(state()), end="")
    else:
        print(answer())


if __name__ == "__main__":
    main()
