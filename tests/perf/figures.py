#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures that were measured: data in figures/, a page of them (FIGURES.md), and what a measurement's output adds.

usage: figures.py                        checks that the page is what the data say; exit code 1 when it is not
       figures.py --write                writes the page
       figures.py take TABLE FILE.json   puts what FILE has into figures/TABLE.tsv, and writes the page

figures/contents.txt names the sections of the page and, below each, its tables in their order. A table is a file of
tab-separated values: lines of '# WORD: text', then the columns' names with their units, then rows. The words are
  title    what the table shows                 machine   where it was measured
  date     when                                 commit    of which version
  command  what measures it                     note      what its reader must know; any number of them
  take     how columns come of a program's JSON: 'COLUMN = EXPRESSION', any number of them
  hide     columns, separated by '|', that the data have and the page does not show
A table that can be taken has a column 'from', which no page shows: of Google Benchmark's JSON the name of a row's
benchmark (of several, with ';' between), of any other JSON the way to its object, 'inference>resnet50'. An EXPRESSION
is a field, 'ns/node' or 'us>float32', of the second benchmark '2:ns/node'; times a number, 'us>float32 * 0.001'; or
one of these over another, 'us>bfloat16 / us>float32'. Of several repetitions the least and the greatest are kept.
"""

import argparse
import datetime
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDEST = 120  # characters of a line of the page
WORDS = ("title", "machine", "date", "commit", "command", "note", "take", "hide")
MANY = ("note", "take")
SOURCE = "from"
ADDED = r"(/(iterations|repeats|min_time|threads):\S+|/(real|manual|process)_time)*"  # to a name, by Google Benchmark
HEAD = """# Figures

Written by `figures.py --write` from the tables in `figures/`; a change is made there. `figures.py take TABLE FILE.json`
puts a new measurement into its table. What each program measures, and beside what, is told in [README.md](README.md).

Ratios say more than times: machines differ and are shared, and both sides of a ratio ran in turn on the same one.
Unless a table says otherwise, it was measured on two shared cores of an AMD Zen 5 with AVX-512, g++ 12, `-O2`.
"""


class Wrong(Exception):
    pass


class Table:
    """A file of figures/: its words, columns and rows."""

    def __init__(self, path, text):
        self.path, self.about, self.columns, self.rows = path, {word: [] for word in WORDS}, [], []
        for number, line in enumerate(text.splitlines(), 1):
            said = re.fullmatch(r"# (\w+): (.*)", line)
            if said and not self.columns:
                if said.group(1) not in WORDS:
                    raise Wrong(f"{path}:{number}: '{said.group(1)}' is none of {', '.join(WORDS)}")
                if said.group(1) not in MANY and self.about[said.group(1)]:
                    raise Wrong(f"{path}:{number}: '{said.group(1)}' is said twice")
                self.about[said.group(1)].append(said.group(2))
            elif not self.columns:
                self.columns = line.split("\t")
            else:
                cells = line.split("\t")
                if len(cells) != len(self.columns):
                    raise Wrong(f"{path}:{number}: {len(cells)} cells; the columns are {len(self.columns)}")
                self.rows.append(cells)
        if not self.about["title"] or not self.rows:
            raise Wrong(f"{path}: a table has '# title: ...', the columns' names, and rows")
        unknown = set(self.hidden()) - set(self.columns) | {column for column, _ in self.takes()} - set(self.columns)
        if unknown:
            raise Wrong(f"{path}: there is no column '{sorted(unknown)[0]}'; the columns are {', '.join(self.columns)}")

    def hidden(self):
        return [name.strip() for line in self.about["hide"] for name in line.split("|")]

    def takes(self):
        """Pairs (column, expression)."""
        pairs = [line.partition(" = ") for line in self.about["take"]]
        wrong = [column for column, equals, _ in pairs if not equals]
        if wrong:
            raise Wrong(f"{self.path}: '# take: {wrong[0]}' is not 'COLUMN = EXPRESSION'")
        return [(column, expression) for column, _, expression in pairs]

    def text(self):
        words = [f"# {word}: {said}" for word in WORDS for said in self.about[word]]
        return "\n".join([*words, *("\t".join(cells) for cells in [self.columns, *self.rows])]) + "\n"

    def page(self):
        """Its part of the page, in lines."""
        shown = [i for i, name in enumerate(self.columns) if name != SOURCE and name not in self.hidden()]
        rows = [[cells[i] for i in shown] for cells in [self.columns, *self.rows]]
        lines = [f"### {self.about['title'][0]}", ""]
        lines += [f"| {' | '.join(cells)} |" for cells in rows[:1]] + ["| " + " | ".join("---" for _ in shown) + " |"]
        lines += [f"| {' | '.join(cells)} |" for cells in rows[1:]]
        told = [f"{word.capitalize()}: {said}." for word in ("machine", "date", "commit") for said in self.about[word]]
        told += self.about["note"]
        if self.about["command"]:
            told.append(f"Measured by `{self.about['command'][0]}`.")
        if told:
            lines += ["", *textwrap.wrap(" ".join(told), WIDEST, break_long_words=False, break_on_hyphens=False)]
        wide = [line for line in lines if len(line) > WIDEST]
        if wide:
            raise Wrong(f"{self.path}: a line of the page would be {len(wide[0])} wide, and {WIDEST} are allowed: "
                        f"{wide[0]}")
        return [*lines, ""]


def tables(folder):
    """{name: Table} of every file."""
    return {path.stem: Table(path.name, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.tsv"))}


def page(folder):
    found, lines, used = tables(folder), HEAD.split("\n"), set()
    for line in (folder / "contents.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            lines += [line, ""]
        elif line and line not in found:
            raise Wrong(f"contents.txt names '{line}', and there is no figures/{line}.tsv")
        elif line:
            lines += found[line].page()
            used.add(line)
    if set(found) - used:
        raise Wrong(f"contents.txt does not name '{sorted(set(found) - used)[0]}'")
    return "\n".join(lines).rstrip() + "\n"


def check(folder, file):
    """What is wrong, as texts."""
    try:
        wanted = page(folder)
    except Wrong as wrong:
        return [str(wrong)]
    there = file.read_text(encoding="utf-8") if file.exists() else ""
    return [] if there == wanted else [f"{file.name} is not what figures/ says; run tests/perf/figures.py --write"]


# ---- What a measurement's output has ----

def is_called(run, name):
    """Whether the benchmark of a record is this one, whatever Google Benchmark adds of how often and by which clock."""
    return re.fullmatch(re.escape(name) + ADDED, run.get("run_name", run["name"])) is not None


def of_benchmarks(document, names):
    """Of each of the names the records that JSON of Google Benchmark has of it."""
    runs = [run for run in document["benchmarks"]
            if run.get("run_type", "iteration") == "iteration" and not run.get("error_occurred")]
    return [[run for run in runs if is_called(run, name)] for name in names]


def of_path(document, way):
    for word in way.split(">"):
        if not isinstance(document, dict) or word not in document:
            return []
        document = document[word]
    return [document]


def field(record, name):
    for word in name.split(">"):
        record = record[word] if isinstance(record, dict) else None
        if record is None:
            raise KeyError(name)
    return float(record)


def values(records, term):
    """The numbers that one term of an expression is, one a repetition."""
    term, _, factor = term.partition(" * ")
    index, _, name = term.rpartition(":") if re.match(r"\d:", term) else ("1", "", term)
    if int(index) > len(records):
        return []  # this row has no such source
    return [field(record, name.strip()) * float(factor or 1) for record in records[int(index) - 1]]


def shown(number):
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def evaluate(records, expression):
    over, _, under = expression.partition(" / ")
    numbers = values(records, over)
    if under:
        numbers = [one / other for one, other in zip(numbers, values(records, under), strict=True)]
    if not numbers:
        return None
    least, most = shown(min(numbers)), shown(max(numbers))
    return least if least == most else f"{least} - {most}"


def take(table, document):
    """Puts the document's numbers into the rows that it has; gives the sources that it has not."""
    if SOURCE not in table.columns or not table.takes():
        raise Wrong(f"{table.path} has no column '{SOURCE}' and no '# take: ...': its figures are written by hand")
    source, missing = table.columns.index(SOURCE), []
    for cells in table.rows:
        names = [name.strip() for name in cells[source].split(";")]
        if "benchmarks" in document:
            records = of_benchmarks(document, names)
        else:
            records = [of_path(document, name) for name in names]
        if not names[0] or not all(records):
            missing.append(cells[source])
            continue
        for column, expression in table.takes():
            try:
                cells[table.columns.index(column)] = evaluate(records, expression) or cells[table.columns.index(column)]
            except KeyError as error:
                raise Wrong(f"'{cells[source]}' has no field {error}, which the column '{column}' is made of") from None
    if len(missing) == len(table.rows):
        raise Wrong(f"the file has none of the sources of {table.path}: {table.rows[0][source]}, ...")
    return missing


def machine_of(document):
    """What the output tells of the machine, without its name."""
    about = document.get("context", {})
    if "num_cpus" not in about or "mhz_per_cpu" not in about:
        return ""
    return f"{about['num_cpus']} cores at {about['mhz_per_cpu'] / 1000:.1f} GHz"


def this_commit():
    done = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--folder", type=Path, default=HERE / "figures", help="of the tables (default: %(default)s)")
    parser.add_argument("--page", type=Path, default=HERE / "FIGURES.md", help="default: %(default)s")
    words = parser.add_subparsers(dest="word").add_parser("take", help="put a measurement into its table")
    words.add_argument("table")
    words.add_argument("file", type=Path)
    words.add_argument("--machine", help="what it was measured on, where the file does not tell")
    options = parser.parse_args(arguments)
    try:
        if options.word == "take":
            path = options.folder / f"{options.table}.tsv"
            if not path.exists():
                raise Wrong(f"there is no table '{options.table}'; there are {', '.join(tables(options.folder))}")
            table = Table(path.name, path.read_text(encoding="utf-8"))
            try:
                document = json.loads(options.file.read_text(encoding="utf-8"))
            except json.JSONDecodeError as error:
                raise Wrong(f"{options.file} is no JSON: {error}") from None
            missing = take(table, document)
            for name in missing:
                print(f"not in {options.file.name}, left as it is: {name}", file=sys.stderr)
            machine = options.machine or machine_of(document)
            table.about["machine"] = [machine] if machine else table.about["machine"]
            day = document.get("context", {}).get("date", datetime.date.today().isoformat())[:10]
            taken = len(table.rows) - len(missing)
            table.about["date"] = [f"{day}, {taken} of {len(table.rows)} rows" if missing else day]
            table.about["commit"] = [this_commit()] if this_commit() else []
            path.write_text(table.text(), encoding="utf-8")
        if options.write or options.word:
            options.page.write_text(page(options.folder), encoding="utf-8")
    except Wrong as wrong:
        print(wrong, file=sys.stderr)
        return 1
    problems = check(options.folder, options.page)
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
