# SPDX-License-Identifier: Apache-2.0
"""Plugins that come as Python packages: found by Python and by the command through their entry points, however broken
others are."""

import os
import shutil
import subprocess
import sys

import pytest

import tenon
from tenon.plugin_packages import PluginPackageWarning, plugin_paths


INSTALLED = plugin_paths()  # what this Python has anyway


def found():
    return [path for path in plugin_paths() if path not in INSTALLED]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, first on sys.path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def install(site, name, entry_point, version="1.0", **files):
    """A distribution with an entry point, and modules by their texts."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[console_scripts]\nx = y:z\n[tenon.plugins]\n{entry_point}\n")
    for module, text in files.items():
        (site / f"{module}.py").write_text(text)


def package(site, name, text="raise RuntimeError('nobody imports this')"):
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(text)
    return site / name


def test_a_module_stands_for_its_folder_and_is_not_imported(site, recwarn):
    folder = package(site, "halves_package")
    install(site, "halves", "a = halves_package")
    assert found() == [str(folder)] and not recwarn.list and "halves_package" not in sys.modules


def test_a_function_gives_a_folder_or_a_list(site, recwarn):
    one, two, library = site / "one", site / "two", site / "tenon_x.so"
    one.mkdir(), two.mkdir(), library.touch()
    install(
        site,
        "functions",
        "a = functions_of_plugins:one\nb = functions_of_plugins:some",
        functions_of_plugins=(
            f"import pathlib\none = lambda: {str(one)!r}\nsome = lambda: [pathlib.Path({str(two)!r}), {str(library)!r}, {str(one)!r}]"
        ),
    )
    assert found() == [str(one), str(two), str(library)] and not recwarn.list


@pytest.mark.parametrize("value, text, said", [
    ("no_such_module_of_plugins", "", "ModuleNotFoundError: there is no module 'no_such_module_of_plugins'"),
    ("broken_plugins:f", "import no_such_module_of_theirs", "No module named 'no_such_module_of_theirs'"),
    ("broken_plugins:f", "raise SystemExit(3)", "SystemExit: 3"),
    ("broken_plugins:f", "", "has no attribute 'f'"),
    ("broken_plugins:f", "def f(): raise RuntimeError('out of order')", "RuntimeError: out of order"),
    ("broken_plugins:f", "f = lambda: 7", "TypeError: it gives 7, not a folder, a library, or a list of them"),
    ("broken_plugins:f", "f = lambda: ['/', None]", "TypeError: it gives ['/', None]"),
    ("broken_plugins:f", "f = lambda: 'plugins'", "ValueError: it gives 'plugins', which is not absolute"),
    ("broken_plugins:f", "f = lambda: '/no_such_folder'", "FileNotFoundError: it gives '/no_such_folder'"),
    ("broken_plugins:f", "f = lambda: [__file__]", "which is neither a folder nor a library (.so)"),
    ("sys", "", "stands in no folder"),
])
def test_a_broken_entry_point_is_named_and_the_others_count(site, value, text, said):
    install(site, "Broken.One", f"a = {value}", version="2.5", broken_plugins=text)
    folder = package(site, "good_package")
    install(site, "good", "a = good_package")
    sys.modules.pop("broken_plugins", None)
    with pytest.warns(PluginPackageWarning) as caught:
        assert found() == [str(folder)]
    (warning,) = caught
    text = str(warning.message)
    assert said in text and text.startswith(
        "plugins of the distribution 'broken-one 2.5' are left out: its entry point a = " + value
    ), text


def test_metadata_that_cannot_be_read_is_named(site):
    install(site, "unreadable", "a = b")
    (site / "unreadable-1.0.dist-info" / "entry_points.txt").write_bytes(b"[tenon.plugins]\n\xff\xfe = x\n")
    folder = package(site, "good_package")
    install(site, "good", "a = good_package")
    with pytest.warns(PluginPackageWarning, match="distribution 'unreadable 1.0'"):
        assert found() == [str(folder)]


def test_the_first_of_two_copies_counts(site, tmp_path, monkeypatch, recwarn):
    later = tmp_path / "later"
    later.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(later)])
    folder = package(site, "first_package")
    package(later, "second_package")
    install(site, "Some_Name", "a = first_package")
    install(later, "some.name", "a = second_package")
    assert found() == [str(folder)] and not recwarn.list


def test_nobody_looks_before_a_runtime_searches(tmp_path):
    code = """
import sys, tenon
assert "tenon.plugin_packages" not in sys.modules
tenon.Runtime(search=False)
assert "tenon.plugin_packages" not in sys.modules
tenon.Runtime()
assert "tenon.plugin_packages" in sys.modules and "importlib.metadata" not in sys.modules, sorted(sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_python_and_the_command_have_the_ops(site, cube):
    folder = package(site, "cube_package")
    shutil.copy(cube, folder)
    subprocess.run(
        [
            os.path.join(os.path.dirname(tenon.folders.program()), "tenon-manifest"),
            str(folder / cube.name),
            "--json",
            str(folder / (cube.name + ".json")),
        ],
        check=True,
    )
    install(site, "cubes", "a = cube_package")
    install(site, "broken", "a = no_such_module_of_plugins")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    code = "import tenon; print(*(op.name for op in tenon.Runtime().ops() if 'Cube' in op.name))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "Cube" in ran.stdout and "'broken 1.0'" in ran.stderr, ran
    name = ran.stdout.strip()
    ran = subprocess.run([sys.executable, "-m", "tenon", "ops", name], capture_output=True, text=True, env=environment)
    assert (
        ran.returncode == 0
        and name in ran.stdout
        and ran.stderr.startswith("tenon: warning: ")
        and "'broken 1.0'" in ran.stderr
    ), ran
