#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the table of requirements, and plants faults to prove that each check can fail. Usage: requirements_test.py
[ROOT]"""

import sys
import tempfile
import unittest
from pathlib import Path

import requirements

ROOT = Path(__file__).resolve().parents[2]


class TheTree(unittest.TestCase):
    def test_every_check_passes(self):
        tree = requirements.Tree(ROOT)
        for check in requirements.CHECKS:
            with self.subTest(check.__name__):
                problems = check(tree)
                self.assertFalse(problems, "\n" + "\n".join(problems))


class Planted(unittest.TestCase):
    """Each check fails where its fault is, and the tree without it passes."""

    TABLE = ("# Requirements\n\n| id | what must hold | held by | missing |\n| --- | --- | --- | --- |\n"
             "| A1 | one graph | `core/a_test.cc` |  |\n| A2 | nodes | `core/a_test.cc`, `sdk/test_b.py` |  |\n"
             "| A3 | none |  | Nobody does it. |\n")
    A = "// SPDX\n// About it.\n// Covers A1,\n// A2. More.\n#include <x>\n"
    B = '# SPDX\n"""About it. Covers A2."""\n'

    def tree(self, files=None, table=None, write=False):
        files = {
            "core/a_test.cc": self.A,
            "sdk/test_b.py": self.B,
            **(files or {}),
            requirements.TABLE: table or self.TABLE,
        }
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            tree = requirements.Tree(folder)
            if write:
                tree.write()
                tree = requirements.Tree(folder)
            return tree

    def problems(self, **changes):
        tree = self.tree(**changes)
        return {check.__name__: found for check in requirements.CHECKS if (found := check(tree))}

    def expect(self, check, *parts, **changes):
        problems = self.problems(**changes)
        self.assertEqual([check], list(problems), problems)
        for part in parts:
            self.assertIn(part, "\n".join(problems[check]))

    def test_the_tree_without_a_fault_passes(self):
        self.assertEqual({}, self.problems())

    def test_what_no_test_claims_needs_a_reason(self):
        self.expect("check_held", "A3", table=self.TABLE.replace("Nobody does it.", ""))

    def test_what_the_table_does_not_have_is_no_claim(self):
        self.expect("check_known", "sdk/test_b.py", "B7", files={"sdk/test_b.py": self.B.replace("A2", "A2, B7")})
        self.expect(
            "check_known",
            "A4",
            files={"sdk/test_b.py": self.B.replace("A2.", "A2, C1 to C3, A4.")},
            table=self.TABLE + "".join(f"| C{i} | x | `sdk/test_b.py` |  |\n" for i in (1, 2, 3)),
        )

    def test_a_file_that_does_not_claim_it_is_named(self):
        self.expect(
            "check_files",
            "A1",
            "sdk/test_b.py",
            table=self.TABLE.replace("| `core/a_test.cc` |", "| `core/a_test.cc`, `sdk/test_b.py` |"),
        )
        self.expect("check_files", "A2", "sdk/test_b.py", files={"sdk/test_b.py": "# nothing\n"})
        self.expect(
            "check_files",
            "A3",
            "gone_test.cc",
            table=self.TABLE.replace("| none |  |", "| none | `core/gone_test.cc` |"),
        )

    def test_a_file_that_claims_it_is_not_left_out(self):
        self.expect("check_files", "A2", "leaves out sdk/test_b.py", table=self.TABLE.replace(", `sdk/test_b.py`", ""))

    def test_more_than_four_are_counted(self):
        files = {f"core/m{i}_test.cc": "// Covers A1.\n" for i in range(5)}
        names = "`core/a_test.cc`, `core/m0_test.cc`, `core/m1_test.cc`, `core/m2_test.cc`"
        right = self.TABLE.replace("| one graph | `core/a_test.cc` |", f"| one graph | {names} and 2 more |")
        self.assertEqual({}, self.problems(files=files, table=right))
        self.expect("check_files", "A1", "they are 2", files=files, table=right.replace("and 2", "and 3"))
        self.expect("check_files", "A1", "they are 2", files=files, table=right.replace(" and 2 more", ""))

    def test_what_cannot_be_read_is_a_fault(self):
        for text in (
            "// Covers A1, the rest.\n",
            "// Covers A2 to B3.\n",
            "// Covers A1\n",
            "// Ids: A1.\n",
            "// Covers A3 to A1.\n",
        ):
            with self.subTest(text):
                self.assertIn("check_reading", self.problems(files={"core/c_test.cc": text}))
        self.expect("check_reading", "A1", "twice", table=self.TABLE + "| A1 | one graph | `core/a_test.cc` |  |\n")
        self.expect("check_reading", "A3", table=self.TABLE.replace("| none |", "|  |"))
        self.assertIn("check_reading", self.problems(table=self.TABLE.replace("| A3 | none |", "| A3 | no | ne |")))
        self.assertIn("check_reading", self.problems(table="# Requirements\n"))

    def test_what_is_no_claim_is_none(self):
        for path, text in (
            ("core/c_test.cc", "// Covers devices and queues.\n"),
            ("core/c_test.cc", "\n" * 20 + "// Covers B9.\n"),
            ("core/c.cc", "// Covers B9.\n"),
            ("core/c_test.cc", 'x = "Covers B9.";\n'),
            ("core/build/c_test.cc", "// Covers B9.\n"),
            ("sdk/test_c.py", '"""Text."""\nsay("Covers B9.")\n'),
        ):
            with self.subTest(path=path, text=text):
                self.assertEqual({}, self.problems(files={path: text}))

    def test_writing_brings_the_files_in_line_and_keeps_the_rest(self):
        tree = self.tree(
            write=True,
            table=self.TABLE.replace("`core/a_test.cc`, `sdk/test_b.py`", "`sdk/test_b.py`").replace(
                "| one graph | `core/a_test.cc` |", "| one graph | `core/gone_test.cc` |"
            ),
        )
        self.assertEqual([], [fault for check in requirements.CHECKS for fault in check(tree)])
        rows = {row.name: row for row in tree.rows.values()}
        self.assertEqual(["sdk/test_b.py", "core/a_test.cc"], rows["A2"].files)
        self.assertEqual(["core/a_test.cc"], rows["A1"].files)
        self.assertEqual("Nobody does it.", rows["A3"].missing)
        self.assertEqual("# Requirements", tree.lines[0])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        ROOT = Path(sys.argv.pop(1)).resolve()
    unittest.main()
