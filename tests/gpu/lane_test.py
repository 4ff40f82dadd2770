# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_lane.py and .ci/run, in a repository of the test's own: when the lane of GPUs runs, and what it keeps.

usage: lane_test.py
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import gpu_lane  # noqa: E402

# Nothing of the user's own settings, which might sign or hook commits.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.fsync",
    "GIT_CONFIG_VALUE_0": "none",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "a"), ("EMAIL", "a@b"))
    },
}
MAKE = """#!/bin/sh
echo "$@" >>made
"""


def run(*command, at, **more):
    return subprocess.run(
        command, cwd=at, env={**ENVIRONMENT, **more}, check=True, capture_output=True, text=True
    ).stdout


class Lane(unittest.TestCase):
    def setUp(self):
        if shutil.which("git") is None:
            self.skipTest("there is no git here")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.tree = self.home / "tree"
        for path in gpu_lane.PATHS:
            self.write(path if "." in pathlib.Path(path).name else f"{path}/some.cc", path)
        self.write("ops/math/add.cc", "x + y")
        self.write(".gitignore", "/build/\n/made\n")
        for path in ("tools/gpu_lane.py", ".ci/run"):
            (self.tree / path).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / path, self.tree / path)
        run("git", "init", "-q", at=self.tree)
        self.commit()
        make = self.home / "bin/make"
        make.parent.mkdir()
        make.write_text(MAKE)
        make.chmod(0o755)

    def write(self, path, text, at=None):
        file = (at or self.tree) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self):
        run("git", "add", "-A", at=self.tree)
        run("git", "commit", "-q", "-m", "one", at=self.tree)

    def lane(self, *arguments, at=None):
        return run(sys.executable, "-B", "tools/gpu_lane.py", *arguments, at=at or self.tree).strip()

    # What `make test-gpu-emulated` does, of a build with the plugins of these vendors.
    def keep(self, vendors=gpu_lane.VENDORS, meanwhile=None):
        self.write("build/release/gpu_lane.txt", self.lane("state") + "\n")
        for vendor in vendors:
            self.write(f"build/release/lib/tenon/plugins/tenon_{vendor}.so", "")
        if meanwhile:
            self.write(*meanwhile)
        return self.lane("passed", "build/release")

    def passed(self):
        self.assertIn("is written", self.keep())
        self.commit()
        self.assertTrue(self.lane().startswith("not needed: "), self.lane())

    def made(self, at):
        run("bash", ".ci/run", at=at, PATH=f"{self.home / 'bin'}:{os.environ['PATH']}")
        return (at / "made").read_text().splitlines()

    def test_runs_where_it_is_not_known_to_have_passed(self):
        self.assertTrue(self.lane().startswith("needed: .ci/gpu_lane.txt is not there"), self.lane())

    def test_runs_after_a_change_of_each_listed_path_and_of_no_other(self):
        self.passed()
        self.write("ops/math/add.cc", "y + x")
        self.write("devices/gpus/some.cc", "a name that begins as a listed one")
        self.commit()
        self.assertTrue(self.lane().startswith("not needed: "), self.lane())
        with unittest.mock.patch.object(gpu_lane, "ROOT", self.tree):
            passed = gpu_lane.state()
            for path in gpu_lane.PATHS:
                file = self.tree / (path if (self.tree / path).is_file() else f"{path}/some.cc")
                old = file.read_text()
                file.write_text("changed")
                self.assertEqual([each for each, now in gpu_lane.state().items() if now != passed[each]], [path])
                file.write_text(old)
        self.assertTrue(self.lane().startswith("not needed: "), self.lane())
        for path in ("devices/rocm/deep/new.cc", "tests/engine/pinned_test.cc"):
            self.write(path, "changed")
            self.commit()
            self.assertTrue(self.lane().endswith(path.replace("/deep/new.cc", "")), self.lane())

    def test_sees_names_and_rights_and_what_is_gone(self):
        self.passed()
        some = self.tree / "devices/gpu/some.cc"
        some.chmod(0o755)
        self.assertIn("needed: it has not passed since these changed: devices/gpu", self.lane())
        some.chmod(0o644)
        some.rename(some.with_name("other.cc"))
        self.assertIn("needed: it has not passed since these changed: devices/gpu", self.lane())
        some.with_name("other.cc").rename(some)
        self.assertTrue(self.lane().startswith("not needed: "), self.lane())

    def test_counts_what_is_not_committed_and_says_so(self):
        self.passed()
        self.write("devices/cuda/new.cc", "git does not know it")
        self.assertEqual(
            self.lane(),
            "needed: it has not passed since these changed: devices/cuda, and changes are not committed yet: they count",
        )
        # The lane passes before the commit; the commit changes nothing.
        self.assertIn("is written", self.keep())
        self.assertIn("not committed yet", self.lane())
        self.commit()
        self.assertTrue(self.lane().startswith("not needed: "), self.lane())
        self.assertNotIn("not committed", self.lane())

    def test_a_clone_says_the_same_whenever_its_files_were_written(self):
        self.passed()
        run("git", "clone", "-q", self.tree, self.home / "clone", at=self.home)
        self.assertEqual(self.lane(at=self.home / "clone"), self.lane())
        for file in (self.home / "clone").rglob("*.cc"):
            os.utime(file, (1, 1))
        self.assertTrue(self.lane(at=self.home / "clone").startswith("not needed: "))

    def test_keeps_nothing_where_less_was_tested(self):
        self.assertIn("stays as it was: passed without devices/cuda", self.keep(vendors=("rocm",)))
        self.assertIn("stays as it was: files were changed", self.keep(meanwhile=("tests/gpu/some.cc", "changed")))
        self.assertFalse((self.tree / gpu_lane.RECORD).exists())

    def test_runs_where_the_record_is_torn_and_where_there_is_no_git(self):
        self.passed()
        record = self.tree / gpu_lane.RECORD
        lines = record.read_text().splitlines()
        record.write_text("\n".join([lines[0], "<<<<<<< ours", *lines[3:]]))
        self.assertTrue(
            self.lane().startswith("needed: it has not passed since these changed: " + ", ".join(gpu_lane.PATHS[:2])),
            self.lane(),
        )
        shutil.rmtree(self.tree / ".git")
        self.assertTrue(self.lane().startswith("needed: what has changed cannot be told"), self.lane())

    def test_says_that_its_list_is_out_of_date(self):
        shutil.rmtree(self.tree / "tests/device")
        done = subprocess.run(
            [sys.executable, "-B", "tools/gpu_lane.py"], cwd=self.tree, env=ENVIRONMENT, capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("tests/device: no file is there any more", done.stderr)

    def test_the_listed_paths_are_in_this_tree(self):
        for path in gpu_lane.PATHS:
            self.assertTrue((ROOT / path).exists(), path)

    def test_ci_runs_the_lane_where_it_is_needed_alone(self):
        self.assertEqual(self.made(self.tree), ["test", "benchmarks", "test-outside", "test-gpu-emulated"])
        (self.tree / "made").unlink()
        self.passed()
        self.assertEqual(self.made(self.tree), ["test", "benchmarks", "test-outside"])


if __name__ == "__main__":
    unittest.main()
