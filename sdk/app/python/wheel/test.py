# SPDX-License-Identifier: Apache-2.0
"""test.py --dist FOLDER --work FOLDER [--pythons "PATH ..."] [--quick]: does with the wheels what their users do, in a
fresh environment of each Python at hand.

They are installed from the folder alone (NumPy comes from pip's index); a model is run; the command `tenon` is run;
programs and an op package are built against the wheel, and this is made a Python package with an entry point, installed
and used, beside one whose entry point is broken; pip builds the same from its template; the tests of sdk/app/python
run; all is uninstalled, and nothing may be left. --quick leaves out what takes more from the index: the template, and
the tests.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile

import plugin_wheels
import pythons

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[3]
MODELS = SOURCE / "tests" / "golden" / "models"
DISTRIBUTION = "tenon-engine"

# What a wheel may take from the system: what Python itself loads later, and libraries that manylinux has everywhere.
SYSTEM = re.compile(
    r"/lib-dynload/|/(ld-linux-x86-64|libc|libm|libmvec|libdl|librt|libpthread|libutil|libstdc\+\+|libgcc_s|libz)[-.]"
)

# A model that is loaded and run, beside its own numbers; prints the libraries that Tenon brought into the process.
USE_MODEL = """
import bz2, ctypes, json, lzma, pathlib, sys, numpy, importlib.metadata
libraries = lambda: {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
pythons = libraries()
import tenon
models = pathlib.Path(sys.argv[1])
assert tenon.__version__ == importlib.metadata.version("tenon-engine"), (tenon.__version__, importlib.metadata.version("tenon-engine"))
case = next(case for case in json.loads((models / "models.json").read_text())["keras_dense"] if case["signature"] == "serving_default")
array = lambda value: numpy.array(value["values"], value["dtype"]).reshape(value["shape"])
got = tenon.load(models / "keras_dense")(**{key: array(value) for key, value in case["inputs"].items()})
for key, value in case["outputs"].items():
    numpy.testing.assert_allclose(got[key], array(value), rtol=1e-5, atol=1e-5)
x = tenon.placeholder("float32", [2, 3, 8, 8], name="x")
tenon.Session(tenon.default_graph()).run(tenon.ops.Conv2D(tenon.ops.Transpose(x, [0, 2, 3, 1]), numpy.ones((3, 3, 3, 4), "f"), [1, 1, 1, 1], "SAME"), {x: numpy.ones((2, 3, 8, 8), "f")})
words = tenon.ops.StringUpper(tenon.placeholder("string", [None], name="words"), encoding="utf-8")
assert tenon.Session(tenon.default_graph()).run(words, {"words:0": ["größe"]}).tolist() == ["GRÖSSE".encode()]
cpu = [report for report in tenon.default_runtime().reports() if report.id == "tenon.cpu" and report.outcome == "loaded"]
print("cpu", *(pathlib.Path(report.path).name for report in cpu))
for report in tenon.default_runtime().reports():
    assert report.outcome != "rejected", report
for path in sorted(libraries() - pythons):
    print("library", path)
"""

USE_PLUGIN = """
import sys, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tenon
    assert not caught and "tenon.plugin_packages" not in sys.modules  # nobody looks before a runtime is made
    x = tenon.placeholder("float32", [None], name="x")
    y = tenon.ops.halves(x)
    dx = tenon.grad(y, x)[0]
    answer = tenon.Session(tenon.default_graph()).run([y, dx], {x: [4.0, 6.0]})
assert [value.tolist() for value in answer] == [[2, 3], [0.5, 0.5]], answer
for warning in caught:
    print(warning.category.__name__, warning.message)
"""


def fail(message):
    sys.exit(f"make wheel-test: {message}")


class Environment:
    """A fresh virtual environment of one Python, without anything of this process's surroundings."""

    def __init__(self, python, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder, self.prefix = folder, folder / "env"
        (folder / "here").mkdir()
        self.variables = {
            "PATH": f"{self.prefix}/bin:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(folder / "here"),
            "LANG": "C.UTF-8",
            **{
                key: value
                for key, value in os.environ.items()
                if key.startswith(("PIP_", "SSL_", "HTTP", "http", "no_proxy"))
            },
        }
        pip_of_user = pathlib.Path.home() / ".config" / "pip" / "pip.conf"
        if "PIP_CONFIG_FILE" not in self.variables and pip_of_user.is_file():
            self.variables["PIP_CONFIG_FILE"] = str(pip_of_user)
        self.run(python.path, "-m", "venv", self.prefix)

    def run(self, *command, expect=0, **more):
        words = [str(word) for word in command]
        done = subprocess.run(
            words, capture_output=True, text=True, cwd=self.folder / "here", env={**self.variables, **more}
        )
        if expect is not None and done.returncode != expect:
            fail(
                f"{' '.join(words)}\nended with {done.returncode}, not {expect}:\n{(done.stdout + done.stderr)[-4000:]}"
            )
        return done

    def python(self, *arguments, **more):
        return self.run(self.prefix / "bin" / "python", *arguments, **more)

    def pip(self, *arguments):
        return self.python("-m", "pip", "--disable-pip-version-check", "--no-input", *arguments)

    def files(self):
        return {path for path in self.prefix.rglob("*") if path.is_file() or path.is_symlink()}


def package_as_wheel(folder, name, files, entry_point, metadata="", tag="py3-none-any"):
    """A wheel of a stranger: files {path in it: bytes or a file}, and one entry point."""
    info = f"{name}-1.0.dist-info"
    contents = {path: data if isinstance(data, bytes) else data.read_bytes() for path, data in files.items()}
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}".encode()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    contents[f"{info}/entry_points.txt"] = f"[tenon.plugins]\n{entry_point}\n".encode()
    record = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}"
        for path, data in contents.items()
    ]
    contents[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    wheel = folder / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in contents.items():
            archive.writestr(path, data)
    return wheel


def check_model(env):
    lines = [line.split(maxsplit=1) for line in env.python("-c", USE_MODEL, MODELS).stdout.splitlines()]
    home = os.path.realpath(env.prefix)
    mapped = [what for kind, what in lines if kind == "library"]
    strangers = [path for path in mapped if not path.startswith(home) and not SYSTEM.search(path)]
    if strangers:
        fail(f"libraries came from the system, not from the wheel: {strangers}")
    for library in ("tenon_onednn/libtenon_dnnl", "tenon_unicode/libtenon_icuuc"):
        if not any(library in path for path in mapped):
            fail(f"{library} is not the wheel's own: {mapped}")
    return next(what for kind, what in lines if kind == "cpu")


def check_command(env):
    version = env.python("-c", "import tenon; print(tenon.__version__)").stdout.strip()
    said = env.run("tenon", "--version").stdout
    if not re.fullmatch(
        rf"tenon {re.escape(version)}\nworkers: protocol \d+\nplugins: ABI \d+\.\d+, layout [0-9a-f]{{16}}\n", said
    ):
        fail(f"tenon --version says {said!r}; tenon.__version__ is {version!r}")
    if env.python("-m", "tenon", "--version").stdout != said:
        fail("python -m tenon --version says something else than tenon --version")
    env.run("tenon", "no-such-command", expect=2)
    ran = env.run("tenon", "train", "digits", "--steps", "20", "--folder", env.folder / "digits")
    if "loss" not in ran.stdout + ran.stderr:
        fail(f"tenon train digits says nothing of its loss: {ran.stdout}{ran.stderr}")
    shown = env.run("tenon", "plugins").stdout
    for plugin in (
        "tenon.ops.math",
        "tenon.ops.unicode",
        "tenon.cpu",
        "tenon.cpu_onednn",
        "tenon.net.shm",
        "tenon.net.loopback",
        "tenon.net.grpc",
        "tenon.files.memory",
    ):
        if not re.search(rf"^{re.escape(plugin)} +\S+ +loaded ", shown, re.M):
            fail(f"tenon plugins has not loaded {plugin}:\n{shown}")
    for option in ("--cmake-dir", "--include-dir"):
        folder = env.python("-m", "tenon", option).stdout.strip()
        if not folder.startswith(str(env.prefix)) or env.run("tenon", option).stdout.strip() != folder:
            fail(f"{option} gives '{folder}'")
    return version


def check_programs(env, version):
    source, build = HERE / "test_program", env.folder / "program_build"
    found = env.python("-m", "tenon", "--cmake-dir").stdout.strip()
    env.run("cmake", "-S", source, "-B", build, f"-DTenon_DIR={found}", "-DCMAKE_BUILD_TYPE=Release")
    env.run("cmake", "--build", build)
    flags = env.run(
        "pkg-config",
        "--cflags",
        "--libs",
        "tenon-model_c",
        PKG_CONFIG_PATH=os.path.join(found, "..", "..", "pkgconfig"),
    ).stdout.split()
    by_hand = env.folder / "by_pkg_config"
    env.run("g++", "-std=c++20", source / "versions.cc", *flags, f"-Wl,-rpath,{found}/../..", "-o", by_hand)
    for program in (build / "versions", by_hand):
        said = env.run(program).stdout.split()
        if said[0] != version or int(said[1]) < 1:
            fail(f"{program}, built against the wheel, says {said}; the wheel is {version}")


def check_plugin(env):
    """The template that the wheel brings, built by its CMake."""
    found = env.python("-c", "import tenon; print(tenon.cmake_dir(), tenon.share_dir())").stdout.split()
    build = env.folder / "plugin_build"
    env.run(
        "cmake",
        "-S",
        pathlib.Path(found[1]) / "templates/python_plugin",
        "-B",
        build,
        f"-DTenon_DIR={found[0]}",
        "-DCMAKE_BUILD_TYPE=Release",
    )
    env.run("cmake", "--build", build)
    library = next(build.rglob("tenon_halves.so"))
    good = package_as_wheel(
        env.folder,
        "halves_ops",
        {"halves_ops/__init__.py": b"raise SystemExit('nobody imports this')\n", "halves_ops/tenon_halves.so": library},
        "halves = halves_ops",
        tag="py3-none-" + sysconfig.get_platform().replace("-", "_"),
    )
    broken = package_as_wheel(
        env.folder,
        "example_broken",
        {"example_broken.py": b"def plugins():\n    raise RuntimeError('out of order')\n"},
        "broken = example_broken:plugins",
    )
    env.pip("install", "--no-index", "--no-deps", good, broken)
    use_plugin(env, "PluginPackageWarning .*example-broken 1\\.0.*out of order\n", "example-broken 1.0")
    env.pip("uninstall", "--yes", "halves_ops", "example_broken")


def use_plugin(env, warned, said):
    python = env.python("-c", USE_PLUGIN).stdout
    if not re.fullmatch(warned, python):
        fail(f"what Python warned of is not as it should be: {python!r}")
    command = env.run("tenon", "ops", "Halves")
    if "Half of each number" not in command.stdout or said not in command.stderr:
        fail(f"tenon ops Halves: {command.stdout!r}, {command.stderr!r}")


def check_other_plugins(env, dist):
    """Those whose wheels were made: found, and either with a device or with the reason why there is none. Uninstalled
    again."""
    wheels = [
        wheel
        for wheel in sorted(dist.glob("tenon_engine_*.whl"))
        if not wheel.name.startswith(tuple(f"tenon_engine_{name}-" for name in plugin_wheels.NEEDED))
    ]
    names = [wheel.name.split("-")[0].removeprefix("tenon_engine_") for wheel in wheels]
    for name in names:
        env.pip("install", "--no-index", "--find-links", dist, f"{DISTRIBUTION}[{name.replace('_', '-')}]")
        shown = env.run("tenon", "plugins").stdout
        if not re.search(rf"^tenon\.{name} +\S+ +(loaded|not opened) ", shown, re.M):
            fail(f"tenon plugins does not know tenon.{name}:\n{shown}")
        devices = env.run("tenon", "devices", "--devices", f"{name}:1", expect=None)
        if devices.returncode != 0 and not re.search("driver|lib(cuda|amdhip64)", devices.stderr):
            fail(f"tenon devices --devices {name}:1 does not say why there is none: {devices.stdout}{devices.stderr}")
        env.pip("uninstall", "--yes", f"{DISTRIBUTION}-{name}")
    return names


def check_template(env):
    """The same template, built by pip as its user would."""
    env.pip("install", "--quiet", "--only-binary", ":all:", "scikit-build-core")
    source = (
        pathlib.Path(env.python("-c", "import tenon; print(tenon.share_dir())").stdout.strip())
        / "templates/python_plugin"
    )
    shutil.copytree(source, env.folder / "template")
    env.pip(
        "wheel",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        env.folder / "made",
        env.folder / "template",
    )
    env.pip("install", "--no-index", "--no-deps", next((env.folder / "made").glob("*.whl")))
    use_plugin(env, "", "")
    env.pip("uninstall", "--yes", "halves_ops")


def check_tests(env):
    env.pip("install", "--quiet", "--only-binary", ":all:", "pytest", "ml_dtypes")
    ran = env.python(
        "-B",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-rs",
        SOURCE / "sdk/app/python/tests",
        TENON_SOURCE_DIR=str(SOURCE),
    )
    lines = ran.stdout.splitlines()
    for line in lines:
        if line.startswith("SKIPPED"):
            print("    " + line)
    return lines[-1]


def check(python, dist, work, quick):
    begun = time.monotonic()
    env = Environment(python, work / python.tag)
    env.pip("install", "--quiet", "--only-binary", ":all:", "numpy")
    before = env.files()
    env.pip("install", "--no-index", "--find-links", dist, DISTRIBUTION)
    cpu = check_model(env)
    version = check_command(env)
    check_programs(env, version)
    check_plugin(env)
    others = check_other_plugins(env, dist)
    tests = "sdk/app/python/tests left out (--quick)"
    if not quick:
        installed = env.files()
        check_template(env)
        env.pip("install", "--no-index", "--find-links", dist, f"{DISTRIBUTION}[tpu-sim]")  # tests have devices of it
        tests = check_tests(env)
        env.pip("uninstall", "--yes", f"{DISTRIBUTION}-tpu_sim")
        before |= {path for path in env.files() - installed if "tenon" not in path.relative_to(env.prefix).as_posix()}
    env.pip("uninstall", "--yes", DISTRIBUTION, *(f"{DISTRIBUTION}-{name}" for name in plugin_wheels.NEEDED))
    left = sorted(
        path
        for path in env.files() - before
        if "__pycache__" not in path.parts or "tenon" in str(path.relative_to(env.prefix))
    )
    if left:
        fail(f"uninstalling leaves {len(left)} files: {[str(path) for path in left[:5]]}")
    print(
        f"Python {python.tag}: {version}, {cpu}; {'other wheels: ' + ' '.join(others) + '; ' if others else ''}{tests}; nothing left; {time.monotonic() - begun:.0f} s",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dist", type=pathlib.Path, required=True)
    parser.add_argument(
        "--work", type=pathlib.Path, required=True, help="a folder for the environments; its folders are made anew"
    )
    parser.add_argument("--pythons", default="")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    dist = given.dist.resolve()
    if not list(dist.glob("*.whl")):
        fail(f"there is no wheel in {dist}; `make wheel` makes them")
    found = pythons.find(given.pythons)
    if not found:
        fail("no Python of 3.10 or later is at hand")
    for tag in [*pythons.OLD, *pythons.STABLE, *pythons.FREE_THREADED]:
        if tag not in found:
            print(f"make wheel-test: Python {tag} is not at hand: not tested", file=sys.stderr)
    for python in found.values():
        check(python, dist, given.work.resolve(), given.quick)


if __name__ == "__main__":
    main()
