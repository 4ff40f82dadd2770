#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tenon-manifest writes, and what it refuses. Usage: manifest_test.py TOOL FIXTURES"""

import json
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL, FIXTURES = sys.argv.pop(1), Path(sys.argv.pop(1))


def fixture(name):
    return str(FIXTURES / f"tenon_fixture_{name}.so")


def run(*arguments):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=False, cwd=FIXTURES)


class Manifest(unittest.TestCase):
    def test_says_what_a_library_is_needs_and_provides(self):
        done = run(fixture("good"), "--cpu-feature", "x86-64-v3")
        self.assertEqual(0, done.returncode, done.stderr)
        manifest = json.loads(done.stdout)
        self.assertEqual(("test.good", "1.2.3"), (manifest["id"], manifest["version"]))
        self.assertEqual(["x86-64-v3"], manifest["cpu_features"])
        self.assertEqual(["Good"], manifest["provides"]["ops"])
        self.assertEqual(["Good"], manifest["provides"]["kernels"])
        self.assertEqual(["greeting", "count", "ratio", "loud"], [option["key"] for option in manifest["options"]])

    def test_writes_what_kernels_are_registered_for(self):
        with tempfile.TemporaryDirectory() as folder:
            kernels = Path(folder, "kernels.json")
            done = run(fixture("good"), "--kernels", str(kernels))
            self.assertEqual((0, ""), (done.returncode, done.stdout), done.stderr)
            self.assertEqual(
                [
                    {
                        "op": "Good",
                        "device_type": "CPU",
                        "label": "",
                        "priority": -3,
                        "constraints": {"T": ["float", "double"]},
                    }
                ],
                json.loads(kernels.read_text()),
            )
            self.assertEqual(2, run(fixture("good"), "--kernels").returncode)
            self.assertEqual(1, run(fixture("good"), "--kernels", folder).returncode)

    def test_is_the_same_twice(self):
        self.assertEqual(run(fixture("good")).stdout, run(fixture("good")).stdout)

    def test_names_the_libraries_that_are_needed(self):
        done = run(fixture("missing_library"), "--provides-from", fixture("good"))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("libtenon_test_absent.so", json.loads(done.stdout)["libraries"])

    def test_writes_a_note_that_holds_the_json(self):
        with tempfile.TemporaryDirectory() as folder:
            note, text = Path(folder, "note"), Path(folder, "json")
            self.assertEqual(0, run(fixture("good"), "--note", str(note), "--json", str(text)).returncode)
            data = note.read_bytes()
            name_size, size, kind = struct.unpack_from("<III", data)
            self.assertEqual((6, 1, b"Tenon\0"), (name_size, kind, data[12:18]))
            self.assertEqual(text.read_bytes(), data[20:20 + size])
            self.assertEqual(0, len(data) % 4)

    def test_survives_a_library_that_ends_in_a_signal(self):
        done = run(fixture("variant_beyond"), "--cpu-feature", "x86-64-v4")
        self.assertEqual(1, done.returncode)
        self.assertIn("ended in signal 4", done.stderr)
        self.assertIn("name a sibling that it can (PROVIDES_FROM)", done.stderr)
        done = run(fixture("variant_beyond"), "--provides-from", fixture("variant_v2"))
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(["Varied"], json.loads(done.stdout)["provides"]["ops"])

    def test_refuses_what_would_be_wrong_on_every_machine(self):
        for name, words in (("nothing", "it provides no capability at all"),
                            ("layout", "other headers (layout hash)"),
                            ("raw_major", "another major version"),
                            ("major", "it refuses, code 1: it was built for ABI 7.3"),
                            ("short", "shorter than tenon_plugin"),
                            ("no_load", "load or unload is NULL"),
                            ("null_table", "the table of a capability is NULL"),
                            ("missing_symbol", "undefined symbol: tenon_test_defined_nowhere"),
                            ("missing_library", "libtenon_test_absent.so: cannot open shared object file"),
                            ("no_entry", "it does not export tenon_plugin_query")):
            with self.subTest(name):
                done = run(fixture(name))
                self.assertEqual(1, done.returncode)
                self.assertIn(words, done.stderr)
                self.assertEqual("", done.stdout)

    def test_refuses_what_is_no_library_and_arguments_that_it_does_not_know(self):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "x.so")
            text.write_text("text")
            self.assertIn("not a 64-bit ELF shared library", run(str(text)).stderr)
            self.assertIn("No such file", run(str(Path(folder, "none.so"))).stderr)
        for arguments in (
            [],
            ["--nonsense", "x", fixture("good")],
            [fixture("good"), "--note"],
            [fixture("good"), fixture("bare")],
        ):
            self.assertEqual(2, run(*arguments).returncode, arguments)


if __name__ == "__main__":
    unittest.main()
