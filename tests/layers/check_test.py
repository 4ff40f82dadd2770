#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/check.py takes for near and for far of a change, from a small build's own graph. Usage: check_test.py"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import check  # noqa: E402

NINJA = """rule CXX
  command = c++
build ops/a.o: CXX /tree/ops/a.cc || cmake_object_order
build ops/batch.o: CXX /tree/build/ops/batch.cxx
build lib/plugin.so: LINK ops/a.o ops/batch.o | lib/base.so || lib/order.so
build include/ops.h | ${cmake_ninja_workdir}include/ops.h: CUSTOM bin/tool lib/plugin.so
build tests/near.o: CXX /tree/ops/a_test.cc
build tests/bin/near: LINK tests/near.o ops/a.o
build tests/far.o: CXX /tree/tests/far.cc || include/ops.h
build tests/bin/far: LINK tests/far.o $
  | lib/host.so || include/ops.h
build tests/bin/other: LINK tests/other.o
"""
DEPS = """ops/a.o: #deps 2, deps mtime 1 (VALID)
    ../ops/a.cc
    ../ops/a.h

ops/batch.o: #deps 1, deps mtime 1 (VALID)
    /tree/ops/b.cc

tests/far.o: #deps 1, deps mtime 1 (VALID)
    include/ops.h

"""
TESTS = [
    ("slow", "tests/bin/far", ["/tree/build/tests/bin/far"], 9.0),
    ("near", "tests/bin/near", ["/tree/build/tests/bin/near"], 3.0),
    ("other", "tests/bin/other", ["/tree/build/tests/bin/other"], 1.0),
    ("script", None, ["/usr/bin/python3", "/tree/ops/look.py", "/tree/build"], 2.0),
    ("named", None, ["sh", "/tree/tests/s/x.sh", "/tree/build/lib/plugin.so"], 4.0),
]


class Check(unittest.TestCase):
    def chosen(self, *files):
        graph = check.Graph(NINJA, DEPS, "/tree/build", "/tree")
        first, then = check.choose(
            TESTS, graph.made_of(files, False), graph.made_of(files, True), files, "/tree/build", "/tree"
        )
        return [test[0] for test in first], [test[0] for test in then]

    def test_programs_that_are_linked_of_a_file_are_near_and_those_that_load_it_far(self):
        self.assertEqual((["near"], ["script", "named", "slow"]), self.chosen("ops/a.cc"))

    def test_headers_and_files_of_a_batch_are_found(self):
        self.assertEqual((["near"], ["script", "named", "slow"]), self.chosen("ops/a.h"))
        self.assertEqual(([], ["script", "named", "slow"]), self.chosen("ops/b.cc"))

    def test_what_touches_nothing_runs_nothing(self):
        self.assertEqual(([], []), self.chosen("docs/page.md"))

    def test_a_script_runs_for_what_lies_beside_it(self):
        self.assertEqual(([], ["named"]), self.chosen("tests/s/data.txt"))


if __name__ == "__main__":
    unittest.main()
