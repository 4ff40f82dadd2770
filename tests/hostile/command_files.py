# SPDX-License-Identifier: Apache-2.0
"""Damaged and lying files for the command line: models, checkpoints, arrays, graphs. Each command ends by itself, with
an exit code of its own, whatever the files hold.

usage: command_files.py TENON [--seed N] [--count N] [--only N]     only: one trial again, whose folder is kept
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

MODELS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "models"
BOUNDS = ["--memory-limit", "256M", "--deadline", "2s"]
SECONDS = 60  # far beyond any deadline: what does not end is killed and told of
CODES = (0, 1, 2)


def npy(values, shape, kind="<f4"):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + values


def huge(dice):
    """A number as files hold them, of a size that cannot be."""
    value = dice.choice([2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1])
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def damage(data, dice):
    data = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 4, 16])):
        at = dice.randrange(len(data) + 1)
        kind = dice.randrange(7)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << dice.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = dice.choice([0, 255, 127, 128, dice.randrange(256)])
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            data[at:at] = huge(dice)
        elif kind == 4:
            data[at : at + 10] = huge(dice)
        elif kind == 5:
            piece = data[at : at + dice.randrange(1, 200)]
            data[at:at] = piece * dice.choice([1, 2, 50])
        else:
            del data[at : at + dice.randrange(1, 64)]
    return bytes(data)


def spoil(folder, dice):
    """Changes one thing in a folder; says what."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    path = dice.choice(files)
    name = path.relative_to(folder)
    kind = dice.randrange(12)
    if kind < 8:
        path.write_bytes(damage(path.read_bytes(), dice))
        return f"damaged {name}"
    if kind == 8:
        other = dice.choice(files)
        path.write_bytes(other.read_bytes())
        return f"{name} is {other.relative_to(folder)}"
    path.unlink()
    if kind == 9:
        path.mkdir()
        return f"{name} is a folder"
    if kind == 10:
        os.mkfifo(path)
        return f"{name} is a pipe"
    path.symlink_to(dice.choice(["/dev/zero", "/proc/self/mem", str(path), "nowhere", "/etc"]))
    return f"{name} leads to {os.readlink(path)}"


def commands(model, dice):
    x = model / "x.npy"
    return dice.choice(
        [
            ["inspect", model],
            ["inspect", model, "--json"],
            ["inspect", model / "variables" / "variables"],
            ["ops", "--coverage", model],
            ["run", model, "--feed", f"x={x}", *BOUNDS],
            ["run", model, "--signature", "serving_default", "--feed", f"keras_tensor={x}", *BOUNDS],
            ["run", model / "saved_model.pb", "--fetch", "y", *BOUNDS],
            ["place", model / "graph.pb", "--explain"],
            ["run", model / "graph.pbtxt", "--fetch", "y", *BOUNDS],
            ["compare", model, "--feed", f"keras_tensor={x}", *BOUNDS],
            ["train", "model", "--help"],
            [
                "train",
                model,
                "--data",
                f"keras_tensor={x}",
                "--minimize",
                "loss",
                "--steps",
                "2",
                "--memory-limit",
                "256M",
            ],
            ["inspect", x],
        ]
    )


def trial(tenon, seed, number, keep):
    dice = random.Random(f"{seed}/{number}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tenon_command_files_"))
    model = folder / "model"
    shutil.copytree(dice.choice(sorted(path for path in MODELS.iterdir() if path.is_dir())), model)
    shape = dice.choice([(2, 3), (4, 5, 3), (1,), (), (2**40, 2**40), (0, 2**62)])
    (model / "x.npy").write_bytes(npy(bytes(range(240)), shape))
    (model / "graph.pb").write_bytes((model / "saved_model.pb").read_bytes()[8:])
    (model / "graph.pbtxt").write_text(
        'node { name: "y" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT '
        'tensor_shape { dim { size: 2 } } float_val: 1 } } } }\n'
    )
    what = [spoil(model, dice) for _ in range(dice.choice([1, 1, 2]))]
    line = [str(word) for word in [tenon, *commands(model, dice)]]
    fault = ""
    try:
        done = subprocess.run(line, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL, cwd=folder)
        said = (done.stdout + done.stderr).decode(errors="replace")
        if done.returncode not in CODES or "crashed (SIG" in said:
            fault = f"ended with {done.returncode}: {said[-400:]}"
    except subprocess.TimeoutExpired:
        fault = f"did not end in {SECONDS} s"
    if fault or keep:
        print(
            f"--seed {seed} --only {number}: {', '.join(what)}\n  {' '.join(line)}\n  {fault or 'as it should be'}",
            flush=True,
        )
    if not fault and not keep:
        shutil.rmtree(folder)
    return bool(fault)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tenon", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--only", type=int)
    given = parser.parse_args()
    numbers = range(given.count) if given.only is None else [given.only]
    faults = sum(trial(given.tenon.resolve(), given.seed, number, given.only is not None) for number in numbers)
    print(f"{len(numbers)} trials, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
