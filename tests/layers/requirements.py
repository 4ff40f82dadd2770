#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the two papers ask for, and which tests hold it: tests/requirements.md against what the tests say of themselves.

A test names the requirements that it holds at its head: the word Covers, ids ("M5, M8", "C1 to C4"), a full stop. A
check returns a list of texts, one for each fault; an empty list is success.

usage: requirements.py [--write] [ROOT]
    Says what is wrong, with exit code 1. --write first brings the column of files in line with the tests: files that
    the table names already keep their order, since the most telling one comes first.
"""

import argparse
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = "tests/requirements.md"
ROOMS = ("plugin_api", "bytes", "core", "plugins", "ops", "passes", "devices", "net", "files", "sdk", "tests")
HEAD = 15  # lines of a test in which it says what it holds
NAMED = 4  # files that a row names; of more it says how many

UNIT_TEST = re.compile(r"(_test\.(cc|c|py|sh)|(^|/)test_\w+\.py)$")  # anywhere
IN_TESTS = re.compile(r"\.(cc|c|py|sh|cmake)$")  # below tests/
COMMENT = re.compile(r'\s*(?://|#(?!\s*include\b)|""")')
CLAIM = re.compile(r"\b(?:Covers|Ids?:) (?=[A-Z]\d)([^.]*)(\.?)")
ITEM = re.compile(r"([A-Z])(\d+)(?: to ([A-Z])?(\d+))?")
ROW = re.compile(r"\| *([A-Z]\d+) *\|(.*)\| *$")
MORE = re.compile(r"and (\d+) more$")


def is_test(path):
    return bool(UNIT_TEST.search(path)) or (path.startswith("tests/") and bool(IN_TESTS.search(path)))


def order(name):
    return name[0], int(name[1:])


def head_of(text):
    """The comments at the head of a file, as one line. A docstring counts until it ends."""
    comments, in_text = [], False
    for line in text.split("\n")[:HEAD]:
        begins = line.startswith('"""') and not in_text
        if in_text or COMMENT.match(line):
            comments.append(line.strip().strip('"').lstrip("/# "))
        if begins or in_text:
            in_text = line.count('"""') == (0 if in_text else 1)
    return " ".join(comments)


def ids_of(text):
    """The ids of a list such as "A1, C4 to C6", and what of it is no id and no range."""
    ids, wrong = [], []
    for item in re.split(r", *", text.strip()):
        match = ITEM.fullmatch(item)
        if not match:
            wrong.append(item)
            continue
        letter, first, other, last = match.groups()
        if last is None:
            ids.append(letter + first)
        elif (other or letter) != letter or int(last) <= int(first) or int(last) > 99:
            wrong.append(item)
        else:
            ids += [f"{letter}{number}" for number in range(int(first), int(last) + 1)]
    return ids, wrong


class Row:
    """A line of the table: id, what must hold, the files, and what is missing."""

    def __init__(self, name, cells):
        self.name = name
        self.what, files, self.missing = (cell.strip() for cell in cells)
        self.files = re.findall(r"`([^`]+)`", files)
        more = MORE.search(files)
        self.more = int(more.group(1)) if more else 0

    def text(self):
        files = ", ".join(f"`{file}`" for file in self.files) + (f" and {self.more} more" if self.more else "")
        return f"| {self.name} | {self.what} | {files} | {self.missing} |"


class Tree:
    def __init__(self, root):
        self.root = Path(root)
        self.claims = {}  # of each id, the files that claim it
        self.faults = []  # of what cannot be read
        for path in sorted(self.tests()):
            text = (self.root / path).read_text(encoding="utf-8", errors="replace")
            for match in CLAIM.finditer(head_of(text)):
                ids, wrong = ids_of(match.group(1))
                if wrong or not match.group(2) or not match.group().startswith("Covers"):
                    self.faults.append(f"{path}: '{match.group()}' is no list of ids as \"Covers A1, C4 to C6.\"")
                for name in ids:
                    files = self.claims.setdefault(name, [])
                    if path not in files:
                        files.append(path)
        table = self.root / TABLE
        self.lines = table.read_text(encoding="utf-8").split("\n") if table.is_file() else []
        self.rows = {}  # of each number of a line
        for number, line in enumerate(self.lines):
            match = ROW.match(line)
            if not match:
                continue
            cells = match.group(2).split("|")
            if len(cells) != 3:
                self.faults.append(
                    f"{TABLE}:{number + 1}: {match.group(1)} has {len(cells) + 1} columns; they are four"
                )
                continue
            self.rows[number] = Row(match.group(1), cells)

    def tests(self):
        for room in ROOMS:
            for folder, folders, files in os.walk(self.root / room):
                folders[:] = sorted(f for f in folders if f not in ("build", "__pycache__"))
                for name in files:
                    path = (Path(folder) / name).relative_to(self.root).as_posix()
                    if is_test(path):
                        yield path

    def write(self):
        """Brings the files of each row in line with what the tests claim."""
        for number, row in self.rows.items():
            claimed = self.claims.get(row.name, [])
            files = [file for file in row.files if file in claimed]
            files += [file for file in claimed if file not in files]
            row.files, row.more = files[:NAMED], max(0, len(files) - NAMED)
            self.lines[number] = row.text()
        (self.root / TABLE).write_text("\n".join(self.lines), encoding="utf-8")


def check_reading(tree):
    """Claims and rows are written as they must be, each id once, and there are some."""
    faults, seen = list(tree.faults), set()
    for row in tree.rows.values():
        if row.name in seen:
            faults.append(f"{TABLE}: {row.name} stands there twice")
        seen.add(row.name)
        if not row.what:
            faults.append(f"{TABLE}: {row.name} does not say what must hold")
    if not tree.rows:
        faults.append(f"{TABLE} has no row")
    if not tree.claims:
        faults.append("no test claims anything; teach CLAIM in tests/layers/requirements.py how that is written")
    return faults


def check_held(tree):
    """Each requirement is held by a test, or the table says why none does."""
    return [f"{TABLE}: {row.name} ({row.what}) is claimed by no test, and the table does not say why"
            for row in tree.rows.values() if row.name not in tree.claims and not row.missing]


def check_known(tree):
    """What tests claim stands in the table."""
    known = {row.name for row in tree.rows.values()}
    return [f"{file} claims {name}, which {TABLE} does not have"
            for name in sorted(tree.claims, key=order) if name not in known for file in tree.claims[name]]


def check_files(tree):
    """The files of a row are those that claim it, or four of them and the number of the others."""
    faults = []
    for row in tree.rows.values():
        claimed = tree.claims.get(row.name, [])
        faults += [
            f"{TABLE}: {row.name} names {file}, which does not claim it" for file in row.files if file not in claimed
        ]
        others = [file for file in claimed if file not in row.files]
        if len(set(row.files)) != len(row.files) or len(row.files) > NAMED:
            faults.append(f"{TABLE}: {row.name} names a file twice, or more than {NAMED}")
        elif others and len(row.files) < NAMED:
            faults.append(f"{TABLE}: {row.name} leaves out {', '.join(others)} (requirements.py --write adds it)")
        elif len(others) != row.more:
            faults.append(
                f"{TABLE}: {row.name} says that {row.more} more claim it; they are {len(others)}: {', '.join(others)}"
            )
    return faults


CHECKS = (check_reading, check_held, check_known, check_files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="bring the column of files in line with the tests first")
    parser.add_argument("root", nargs="?", default=ROOT, metavar="ROOT")
    given = parser.parse_args()
    tree = Tree(given.root)
    if given.write:
        tree.write()
        tree = Tree(given.root)
    faults = [fault for check in CHECKS for fault in check(tree)]
    for fault in faults:
        print(fault)
    if not faults:
        held = sum(row.name in tree.claims for row in tree.rows.values())
        print(f"{len(tree.rows)} requirements, {held} of them held by {len(set(sum(tree.claims.values(), [])))} tests")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
