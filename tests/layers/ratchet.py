# SPDX-License-Identifier: Apache-2.0
"""Numbers that may fall and never grow: a file has lines "number name" below a head of comments. Names that do not
stand there have none."""

import sys
from pathlib import Path


def lines(root, path):
    file = Path(root, path)
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def allowed(root, path):
    """{name: number} as the file has it."""
    rows = [line.split(None, 1) for line in lines(root, path) if line and not line.startswith("#")]
    return {name: int(number) for number, name in rows}


def grown(root, path, found):
    """(name, found, allowed) of what is more than the file allows."""
    most = allowed(root, path)
    return [(name, number, most.get(name, 0)) for name, number in found.items() if number > most.get(name, 0)]


def fallen(root, path, found):
    """(name, found, allowed) of what is less."""
    return [(name, found.get(name, 0), number) for name, number in allowed(root, path).items()
            if found.get(name, 0) < number]


def lower(root, path, found):
    """Writes the numbers that are fewer now; what has more, or does not stand there, stays as it is."""
    heads = [line for line in lines(root, path) if line.startswith("#")]
    kept = {name: min(number, found.get(name, 0)) for name, number in allowed(root, path).items()}
    rows = [f"{number:5} {name}" for name, number in sorted(kept.items()) if number]
    Path(root, path).write_text("\n".join([*heads, *rows]) + "\n", encoding="utf-8")


def command(arguments, usage, path, count):
    """`--lower [ROOT]`: count(root) gives {name: number}."""
    if arguments[:1] != ["--lower"]:
        sys.exit(usage)
    root = Path(arguments[1]) if len(arguments) > 1 else Path(__file__).resolve().parents[2]
    lower(root, path, count(root))
