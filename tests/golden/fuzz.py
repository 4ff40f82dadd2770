# SPDX-License-Identifier: Apache-2.0
"""Fresh cases from seeds, asked of TensorFlow on the spot and replayed: `make fuzz-golden`.

    fuzz.py --replay build/release/tests/bin/golden_replay --folder build/release/fuzz --count 2000 SEED...

Exits with 0 when nothing differs, 1 when something does, 2 when it could not ask. A file of cases that differ is kept.
"""
import argparse
import importlib.util
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MODES = (["--plain"], ["--onednn"], ["--no-optimize"])


def differs(replay, path):
    """Whether a replay, of each set of kernels, finds a difference; what it finds is printed once a mode."""
    found = False
    for mode in MODES:
        run = subprocess.run([replay, *mode, path], capture_output=True, text=True)
        print(f"{mode[0]:14} {run.stdout}{run.stderr}", end="", flush=True)
        if run.returncode not in (0, 1):
            print(f"golden_replay ended with {run.returncode}")
        found |= run.returncode != 0
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=pathlib.Path, required=True, help="the program golden_replay")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where the drawn cases go")
    parser.add_argument("--count", type=int, default=2000, help="cases a seed")
    parser.add_argument("--only", action="append", default=[], help="only this op (may come several times)")
    parser.add_argument("seeds", type=int, nargs="+")
    options = parser.parse_args()
    if importlib.util.find_spec("tensorflow") is None:
        print(
            f"{sys.executable} has no TensorFlow, which this compares with: pip install tensorflow-cpu==2.21.0 in an environment, "
            "and make fuzz-golden PYTHON=/path/to/its/bin/python",
            file=sys.stderr,
        )
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    bad = []
    for seed in options.seeds:
        path = options.folder / f"seed_{seed}.jsonl"
        ops = [word for name in options.only for word in ("--op", name)]
        if subprocess.run(
            [
                sys.executable,
                HERE / "make_cases.py",
                "--seed",
                str(seed),
                "--count",
                str(options.count),
                "-o",
                path,
                *ops,
            ]
        ).returncode:
            return 2
        if differs(options.replay, path):
            bad.append(seed)
        else:
            path.unlink()
    print(f"{len(options.seeds)} seeds of {options.count} cases; seeds with differences: {bad or 'none'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
