# SPDX-License-Identifier: Apache-2.0
"""What the tests share: the build tree, and sessions of graphs that are built in a line."""

import os
import pathlib
import shutil
import subprocess

import pytest

import tenon

BUILD = (
    pathlib.Path(os.environ["TENON_BUILD_DIR"]) if "TENON_BUILD_DIR" in os.environ else None
)  # None: the package is installed, from a wheel
SOURCE = pathlib.Path(os.environ["TENON_SOURCE_DIR"])
MODELS = SOURCE / "tests" / "golden" / "models"


@pytest.fixture
def graph():
    """A graph that nodes of the test go to."""
    with tenon.Graph() as made:
        yield made


@pytest.fixture
def run(graph):
    """run(fetches, feeds): one step of a new session."""
    return lambda fetches, feeds=None, **options: tenon.Session(graph).run(fetches, feeds, **options)


@pytest.fixture(scope="session")
def cube(tmp_path_factory):
    """A stranger's plugin: the template, built with nothing but a C compiler and the headers."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler `cc`")
    path = tmp_path_factory.mktemp("plugin") / "tenon_cube.so"
    source = SOURCE / "sdk" / "author" / "templates" / "op_plugin" / "cube.c"
    subprocess.run(
        ["cc", "-O1", "-shared", "-fPIC", f"-I{tenon.include_dir()}", str(source), "-o", str(path)], check=True
    )
    return path


@pytest.fixture
def endless(graph):
    """A callable of one float: ends at once for 2e30, and never for less. `small` turns on turns."""
    x = tenon.placeholder("float32", [], name="x")
    last = tenon.while_loop(lambda i: i < 1e30, lambda i: i * 1.0, x, name="endless")
    session = tenon.Session(graph)
    return session.prepare(last, [x])
