#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of figures is what the data say, and figures.py takes what a measurement wrote."""

import contextlib
import io
import json
import tempfile
import unittest
from pathlib import Path

import figures

TABLE = """# title: Steps
# machine: two cores
# note: In turn.
# take: ours, ns = ns/node
# take: theirs = 2:real_time * 2
# take: ratio = ns/node / ns/call
what\tours, ns\ttheirs\tratio\tfrom
chain\t1\t2\t3\tChain/1; TbbChain/1
loop\t4\t5\t6\tLoop/1
"""
BY_PATH = "# title: Networks\n# take: share = us>int8 / us>float\nnetwork\tshare\tfrom\nlenet\t1\tinference>lenet\n"


class TheData(unittest.TestCase):
    def test_the_page_is_what_they_say(self):
        self.assertEqual([], figures.check(figures.HERE / "figures", figures.HERE / "FIGURES.md"))

    def test_what_is_taken_has_a_source_in_every_row(self):
        for name, table in figures.tables(figures.HERE / "figures").items():
            with self.subTest(name):
                self.assertEqual(bool(table.takes()), figures.SOURCE in table.columns)
                if figures.SOURCE in table.columns:
                    self.assertTrue(all(cells[table.columns.index(figures.SOURCE)] for cells in table.rows))


class Planted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root, self.file = Path(folder.name), Path(folder.name, "PAGE.md")
        self.put("steps.tsv", TABLE)
        self.put("contents.txt", "## The engine\n\nsteps\n")

    def put(self, name, text):
        (self.root / name).write_text(text)

    def run_it(self, *words):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = figures.main([f"--folder={self.root}", f"--page={self.file}", *words])
        return code, said.getvalue()

    def take(self, table, document):
        self.put("out.json", document if isinstance(document, str) else json.dumps(document))
        return self.run_it("take", table, str(self.root / "out.json"))

    def row(self, name, number):
        return figures.Table(name, (self.root / f"{name}.tsv").read_text()).rows[number]

    def test_a_page_that_says_something_else_is_refused(self):
        self.assertEqual((0, ""), self.run_it("--write"))
        self.assertNotIn("Chain/1", self.file.read_text())
        self.assertEqual((0, ""), self.run_it())
        self.file.write_text(self.file.read_text().replace("| loop | 4", "| loop | 9"))
        code, said = self.run_it()
        self.assertEqual(1, code)
        self.assertIn("--write", said)

    def test_what_is_wrong_with_a_table_is_said(self):
        for text, part in ((TABLE.replace("# note", "# nota"), "'nota' is none of"), (TABLE + "short\t1\n", "2 cells"),
                           (TABLE.replace("# take: ours, ns", "# take: us"), "no column 'us'"),
                           ("# title: Nothing\nwhat\n", "rows"), (TABLE.replace("# title: Steps\n", ""), "title"),
                           (TABLE.replace("chain", "chain" + "x" * 120), "wide"),
                           (TABLE.replace(" = ns/node\n", "\n"), "COLUMN")):
            with self.subTest(part):
                self.put("steps.tsv", text)
                code, said = self.run_it("--write")
                self.assertEqual(1, code)
                self.assertIn(part, said)

    def test_each_table_has_its_place(self):
        self.put("contents.txt", "## The engine\n")
        self.assertIn("does not name 'steps'", self.run_it("--write")[1])
        self.put("contents.txt", "steps\nothers\n")
        self.assertIn("others.tsv", self.run_it("--write")[1])

    def test_benchmarks_are_taken(self):
        runs = [{"name": "Chain/1/iterations:5/real_time", "run_type": "iteration", "ns/node": one, "ns/call": 2}
                for one in (4, 6)]
        runs += [{"name": "TbbChain/1", "ns/node": 7, "real_time": 5.5}, {"name": "Chain/10", "ns/node": 99},
                 {"name": "Chain/1", "run_type": "aggregate", "ns/node": 77, "ns/call": 1}]
        context = {"date": "2030-01-02T03:04:05", "num_cpus": 4, "mhz_per_cpu": 3100}
        code, said = self.take("steps", {"context": context, "benchmarks": runs})
        self.assertEqual((0, "not in out.json, left as it is: Loop/1\n"), (code, said))
        self.assertEqual(["chain", "4 - 6", "11", "2 - 3"], self.row("steps", 0)[:4])
        self.assertEqual(["loop", "4", "5", "6"], self.row("steps", 1)[:4])
        self.assertIn("Machine: 4 cores at 3.1 GHz. Date: 2030-01-02, 1 of 2 rows.", self.file.read_text())

    def test_other_json_is_taken(self):
        self.put("networks.tsv", BY_PATH)
        self.put("contents.txt", "steps\nnetworks\n")
        self.assertEqual(0, self.take("networks", {"inference": {"lenet": {"us": {"int8": 1, "float": 4}}}})[0])
        self.assertEqual("0.25", self.row("networks", 0)[1])

    def test_what_cannot_be_taken_changes_nothing(self):
        self.put("hand.tsv", "# title: By hand\nwhat\nthis\n")
        for table, document, part in (("steps", {"benchmarks": []}, "none of the sources"), ("steps", "{", "no JSON"),
                                      ("hand", {"benchmarks": []}, "by hand"),
                                      ("absent", {}, "there is no table 'absent'"),
                                      ("steps", {"benchmarks": [{"name": "Loop/1", "ns/node": 1}]}, "ns/call")):
            with self.subTest(part):
                code, said = self.take(table, document)
                self.assertEqual(1, code)
                self.assertIn(part, said)
                self.assertEqual(TABLE, (self.root / "steps.tsv").read_text())


if __name__ == "__main__":
    unittest.main()
