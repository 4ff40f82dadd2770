# SPDX-License-Identifier: Apache-2.0
"""build.py --prefix PREFIX --dist FOLDER [--pythons "PATH ..."]: wheels of an installed Tenon for every Python at hand. `make wheel` runs it.

The prefix is built once; of each Python there is its module alone (sdk/python/pyproject.toml). auditwheel puts in what a manylinux system does not have, and says
for which systems the wheel is; notices.py adds the licences.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import time
import zipfile

import pythons

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
MOST_BYTES = 25_000_000  # of a wheel


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\nmake wheel: that command failed with {done.returncode}")
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


def build(python, prefix, work):
    """One wheel, in a folder of its own; gives its path."""
    own = environment_of(python, work)
    raw, repaired, packed = (fresh(work / step / python.tag) for step in ("raw", "repaired", "packed"))
    settings = {"build-dir": work / "module" / python.tag, "cmake.define.Tenon_DIR": prefix / "lib" / "cmake" / "Tenon"}
    run(own, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", raw,
        *(f"--config-settings={key}={value}" for key, value in settings.items()), HERE.parent)
    path = {"PATH": f"{own.parent}:/usr/local/bin:/usr/bin:/bin"}
    run(own, "-m", "auditwheel", "repair", "--plat", "auto", "--wheel-dir", repaired, made_wheel(raw), env=path)
    unpacked = fresh(work / "unpacked" / python.tag)
    run(own, "-m", "wheel", "unpack", "--dest", unpacked, made_wheel(repaired))
    (tree,) = unpacked.iterdir()
    run(own, "-c", "import sys, notices; print(*notices.add(sys.argv[1]))", tree, cwd=HERE)
    run(own, "-m", "wheel", "pack", "--dest-dir", packed, tree)
    return made_wheel(packed), run(own, "-m", "auditwheel", "show", made_wheel(packed), env=path)


def check(wheel, work):
    """Its size, and that it knows no folder of the machine that built it."""
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"{wheel.name} has {size / 1e6:.1f} MB; {MOST_BYTES / 1e6:.0f} MB is the most")
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
    parser.add_argument("--dist", type=pathlib.Path, required=True)
    parser.add_argument("--pythons", default="")
    given = parser.parse_args()
    prefix, dist = given.prefix.resolve(), given.dist.resolve()
    chosen = pythons.builders(pythons.find(given.pythons))
    if not chosen:
        sys.exit("make wheel: no Python that wheels can be made for is at hand")
    fresh(dist)
    for python in chosen:
        begun = time.monotonic()
        wheel, shown = build(python, prefix, dist.parent)
        size, unpacked = check(wheel, dist.parent)
        shutil.copy2(wheel, dist)
        print(f"{wheel.name}: {size / 1e6:.1f} MB, unpacked {unpacked / 1e6:.1f} MB, by Python {python.tag} in {time.monotonic() - begun:.0f} s", flush=True)
        print("  " + " ".join(line.strip() for line in shown.splitlines() if "constrains" in line or "following platform tag" in line or line.startswith('"')))


if __name__ == "__main__":
    main()
