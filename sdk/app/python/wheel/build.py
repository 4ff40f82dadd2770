# SPDX-License-Identifier: Apache-2.0
"""build.py --prefix PREFIX --work FOLDER --dist FOLDER [--pythons "PATH ..."]: wheels of an installed Tenon for every
Python at hand. `make wheel` runs it.

The prefix is built once; of each Python there is its module alone (sdk/app/python/pyproject.toml). auditwheel puts in
what a manylinux system does not have, and says for which systems the wheel is; notices.py adds the licences.
"""

import argparse
import functools
import pathlib
import re
import shutil
import subprocess
import sys
import time
import zipfile

import plugin_wheels
import pythons

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[3]
MOST_BYTES = 25_000_000  # of a wheel
MOST_BYTES_OF_GPU = 100_000_000  # of one with code for GPUs: what PyPI takes

GPU = plugin_wheels.GPU


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(map(str, command))}\n{done.stdout}\nmake wheel: that command failed with {done.returncode}"
        )
    return done.stdout


def environment_of(python, work):
    folder = work / "environments" / python.tag
    run(SOURCE / "tools" / "python_environment.sh", folder, HERE / "requirements.txt", python.path)
    return folder / "bin" / "python"


def made_wheel(folder):
    (wheel,) = folder.glob("*.whl")
    return wheel


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def deflate_better(wheel):
    """The same files, modes and dates in the same format; 3 % less, after minutes."""
    with zipfile.ZipFile(wheel) as archive:
        before = {info.filename: (info.external_attr, info.CRC, info.date_time) for info in archive.infolist()}
    run("advzip", "--recompress", "--shrink-extra", "--quiet", wheel)
    with zipfile.ZipFile(wheel) as archive:
        after = {info.filename: (info.external_attr, info.CRC, info.date_time) for info in archive.infolist()}
        if before != after or archive.testzip() is not None:
            sys.exit(f"make wheel: advzip has changed more of {wheel.name} than how it is packed")


def finish(raw, own, work, tag):
    """A wheel that needs nothing of this machine, with the licences of what was put in; gives its path, and what
    auditwheel says of it."""
    repaired, unpacked, packed = (fresh(work / step / tag) for step in ("repaired", "unpacked", "packed"))
    path = {"PATH": f"{own.parent}:/usr/local/bin:/usr/bin:/bin"}
    run(own, "-m", "auditwheel", "repair", "--plat", "auto", "--wheel-dir", repaired, raw, env=path)
    run(own, "-m", "wheel", "unpack", "--dest", unpacked, made_wheel(repaired))
    (tree,) = unpacked.iterdir()
    run(own, "-B", "-c", "import sys, notices; print(*notices.add(sys.argv[1]))", tree, cwd=HERE)
    run(own, "-m", "wheel", "pack", "--dest-dir", packed, tree)
    return made_wheel(packed), run(own, "-m", "auditwheel", "show", made_wheel(packed), env=path)


def build(python, prefix, work):
    """The wheel of one Python."""
    own = environment_of(python, work)
    raw = fresh(work / "raw" / python.tag)
    settings = {"build-dir": work / "module" / python.tag, "cmake.define.Tenon_DIR": prefix / "lib" / "cmake" / "Tenon",
                "cmake.define.TENON_WHEEL_LEAVES_OUT": ";".join(plugin_wheels.left_out(prefix))}
    run(
        own,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--wheel-dir",
        raw,
        *(f"--config-settings={key}={value}" for key, value in settings.items()),
        HERE.parent,
    )
    wheel, shown = finish(made_wheel(raw), own, work, python.tag)
    deflate_better(wheel)
    return wheel, shown


def build_plugin(name, python, prefix, work):
    """The wheel of a plugin, for every Python; the given one runs the tools."""
    own = environment_of(python, work)
    (version,) = re.findall(r"project\(tenon VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())
    raw = fresh(work / "raw" / name)
    run(
        own,
        "-m",
        "wheel",
        "pack",
        "--dest-dir",
        raw,
        plugin_wheels.lay_out(name, prefix, version, SOURCE / "LICENSE", fresh(work / "laid_out" / name)),
    )
    return finish(made_wheel(raw), own, work, name)


def check(wheel, work):
    """Its size, and that it knows no folder of the machine that built it."""
    size = wheel.stat().st_size
    most = MOST_BYTES_OF_GPU if wheel.name.startswith(tuple(f"tenon_engine_{name}-" for name in GPU)) else MOST_BYTES
    if size > most:
        sys.exit(f"{wheel.name} has {size / 1e6:.1f} MB; {most / 1e6:.0f} MB is the most")
    secrets = [str(folder).encode() for folder in (SOURCE, work, pathlib.Path.home())]
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            for secret in secrets:
                if len(secret) > 5 and secret in data:
                    sys.exit(f"{wheel.name}: {name} speaks of {secret.decode()}, a folder of the machine that built it")
        unpacked = sum(info.file_size for info in archive.infolist())
    return size, unpacked


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix", type=pathlib.Path, required=True)
    parser.add_argument(
        "--work",
        type=pathlib.Path,
        required=True,
        help="a folder for environments and what is half done; its folders are emptied",
    )
    parser.add_argument(
        "--dist", type=pathlib.Path, required=True, help="where the wheels go; older ones there are removed"
    )
    parser.add_argument("--pythons", default="")
    parser.add_argument(
        "--gpu",
        action="store_true",
        help="the plugins of GPUs too, each a wheel of its own; one at least must have been built",
    )
    given = parser.parse_args()
    prefix, work, dist = given.prefix.resolve(), given.work.resolve(), given.dist.resolve()
    chosen = pythons.builders(pythons.find(given.pythons))
    if not chosen:
        sys.exit("make wheel: no Python that wheels can be made for is at hand")
    plugins = [name for name in plugin_wheels.built(prefix) if given.gpu or name not in GPU]
    if given.gpu:
        missing = [name for name in GPU if name not in plugins]
        if missing == GPU:
            sys.exit(
                "make wheel: no plugin of a GPU was built, since this machine has neither nvcc (set CUDA_HOME) nor hipcc (Debian: hipcc, libamdhip64-dev)"
            )
        for name in missing:
            print(
                f"make wheel: {name} is left out: it was not built here (docs/gpus.md says what it needs)",
                file=sys.stderr,
            )
    dist.mkdir(parents=True, exist_ok=True)
    for old in dist.glob("tenon_engine*.whl"):
        old.unlink()
    makers = [(f"by Python {python.tag}", functools.partial(build, python)) for python in chosen]
    makers += [("a plugin", functools.partial(build_plugin, name, chosen[0])) for name in plugins]
    for how, make in makers:
        begun = time.monotonic()
        wheel, shown = make(prefix, work)
        size, unpacked = check(wheel, work)
        shutil.copy2(wheel, dist)
        print(
            f"{wheel.name}: {size / 1e6:.1f} MB, unpacked {unpacked / 1e6:.1f} MB, {how} in {time.monotonic() - begun:.0f} s",
            flush=True,
        )
        (tag,) = re.findall(r'following platform tag: "(\w+)"', " ".join(shown.split()))
        print("  auditwheel: consistent with " + tag, flush=True)


if __name__ == "__main__":
    main()
