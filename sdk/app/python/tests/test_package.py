# SPDX-License-Identifier: Apache-2.0
"""The package itself: its command, its folders, its stubs, what importing it brings, and other libraries' arrays."""

import os
import pathlib
import subprocess
import sys
import sysconfig

import numpy
import pytest
from conftest import MODELS

import tenon


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


def test_python_m_tenon_is_the_command():
    ran = python("-m", "tenon", "--version")
    assert ran.returncode == 0 and tenon.__version__ in ran.stdout
    assert python("-m", "tenon", "no-such-command").returncode == 2


sanitized = pytest.mark.skipif(
    "TENON_UNDER_SANITIZER" in os.environ,
    reason="a build with a sanitizer: its library is loaded first, and it has no stubs",
)


@sanitized
def test_a_library_of_another_version_is_named(tmp_path):
    library = pathlib.Path(tenon.plugin_dir()).parents[1] / "libtenon.so.0"
    other = tenon.__version__[:-1] + ("9" if tenon.__version__[-1] != "9" else "8")
    (tmp_path / "libtenon.so.0").write_bytes(library.read_bytes().replace(tenon.__version__.encode(), other.encode()))
    others = [
        library.parent / "tenon" / "private",
        pathlib.Path(tenon.__file__).parents[1] / "tenon_engine.libs",
    ]  # where it looks beside itself, and a wheel's
    there = {"LD_PRELOAD": str(tmp_path / "libtenon.so.0"), "LD_LIBRARY_PATH": ":".join(map(str, others))}
    ran = subprocess.run(
        [sys.executable, "-c", "import tenon"], capture_output=True, text=True, env={**os.environ, **there}
    )
    assert (
        ran.returncode == 1
        and f"tenon._core is of Tenon {tenon.__version__}, and the libtenon.so.0 that this process has is of {other}"
        in ran.stderr
    ), ran


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has its lock always")
def test_a_free_threaded_python_turns_its_lock_on():
    ran = python("-c", "import sys, tenon; print(sys._is_gil_enabled())")  # until somebody has tried the module without
    assert ran.returncode == 0 and ran.stdout.strip() == "True", ran


def test_folders():
    assert os.path.isfile(os.path.join(tenon.include_dir(), "tenon", "plugin.h"))
    assert os.path.isfile(os.path.join(tenon.cmake_dir(), "TenonConfig.cmake"))
    assert any(name.endswith(".so") for name in os.listdir(tenon.plugin_dir()))
    assert os.path.isfile(os.path.join(tenon.share_dir(), "digits.npy"))


@sanitized
def test_stubs_are_beside_the_module():
    folder = pathlib.Path(tenon.__file__).parent
    stub = (folder / "_core.pyi").read_text()
    assert (folder / "py.typed").exists()
    compile(stub, "_core.pyi", "exec")
    for name in ("class Tensor", "class Output", "class Callable", "def from_dlpack"):
        assert name in stub


def test_importing_needs_numpy_alone():
    code = "import sys, numpy; before = set(sys.modules); import tenon; print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    assert python("-c", code).stdout.split() == ["tenon"]
    lazily = python(
        "-c", "import sys, tenon; print('tenon.train' in sys.modules, tenon.train.Adam().kind, tenon.float8_e5m2)"
    )
    assert lazily.stdout.split() == ["False", "adam", "float8_e5m2"]


def test_leaving_python_in_the_middle_of_things_is_quiet():
    code = """
import threading, numpy, tenon
with tenon.Graph() as graph:
    x = tenon.placeholder("float32", [], name="x")
    y = tenon.while_loop(lambda v: v < 1e30, lambda v: v * 1.0, x)
step = tenon.Session(graph).prepare(y, [x])
step(2e30)
kept = tenon.Tensor(numpy.ones(3))
threading.Thread(target=step, args=(0.5,), daemon=True).start()
print("end")
"""
    ran = python("-c", code)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "end\n", "")


def test_daemons_in_the_middle_of_steps_do_not_break_the_end():
    code = """
import threading, time, tenon
with tenon.Graph() as graph:
    x = tenon.placeholder("float32", [], name="x")
    y = x + 1
step = tenon.Session(graph).prepare(y, [x])
model = tenon.load(MODEL)
def work():
    while True:
        step(1.0), model([[1.0, 2.0, 3.0]])
[threading.Thread(target=work, daemon=True).start() for _ in range(4)]
time.sleep(0.1)
print("end")
""".replace("MODEL", repr(str(MODELS / "keras_dense")))
    for _ in range(5):
        ran = python("-c", code)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "end\n", "")


def test_pytorch_shares_memory():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    given = torch.arange(6, dtype=torch.float32)
    tensor = tenon.from_dlpack(given)
    assert tensor.address == given.data_ptr() and torch.from_dlpack(tensor).data_ptr() == given.data_ptr()
    half = torch.ones(3, dtype=torch.bfloat16)
    assert tenon.from_dlpack(half).dtype == "bfloat16"
    with tenon.Graph() as graph:
        x = tenon.placeholder("float32", [None], name="x")
        y = x * 2.0
    numpy.testing.assert_array_equal(tenon.Session(graph).run(y, {x: given}), numpy.arange(6) * 2)
    result = tenon.Session(graph).run(y, {x: given})
    assert torch.from_dlpack(result.base).data_ptr() == result.__array_interface__["data"][0]


def test_jax_shares_memory():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    given = jax.numpy.arange(6, dtype="float32")
    assert tenon.from_dlpack(given).address == given.unsafe_buffer_pointer()
    back = jax.numpy.from_dlpack(tenon.Tensor(numpy.arange(64, dtype=numpy.float32)))
    numpy.testing.assert_array_equal(back, numpy.arange(64))
