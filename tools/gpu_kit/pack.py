#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs what `make test-gpu` and `make bench-gpu` need into one archive, for a machine that has a GPU and nothing else.

    pack.py --build build/release --out build/gpu-kit.tar.gz [--plugin tenon.cuda] [--most-mib 60]

The archive holds a folder gpu-kit: first.sh, and tree, a stripped copy of the source tree as far as tests and
measurements read it, with the build's programs, its plugins and the Debian libraries that these need (tree/debian).
Fails where a file is missing, or the archive is larger.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = (
    "gpu_test",
    "capture_test",
    "gpu_attention_test",
    "gpu_attention_gradient_test",
    "gpu_chain_test",
    "golden_cases_test",
    "random_placement_test",
    "dlpack_test",
    "train_devices_test",
)
PROGRAMS = ("bin/tenon", "bin/gpu_bench", *(f"tests/bin/{name}" for name in TESTS))
READ = ("tests/plugins/tenon_cpu_whole.so", "tests/plugins/tenon_test_variant.so", "share/tenon/digits.npy")
# No part of any test or measurement of a GPU: other GPUs, another library of the CPU's, networks of machines.
LEFT_OUT = ("tenon_cpu_onednn", "tenon_cuda", "tenon_rocm", "tenon_grpc")
SOURCES = (
    "Makefile",
    "LICENSE",
    "tests/gpu",
    "tests/perf/gpu/bench_gpu.sh",
    "tests/perf/gpu/bench_gpu.py",
    "tests/perf/gpu/peers.py",
    "tests/golden/cases",
    "tests/golden/differences.json",
    "sdk/app/train/data",
)
PRIVATE = pathlib.Path("lib/tenon/private")  # cmake/TenonPrivateLibraries.cmake
# Every Linux has these, and they have to fit its kernel and driver.
SYSTEMS = re.compile(r"^(ld-linux.*|lib(c|m|mvec|dl|rt|pthread)\.so\.\d+)$")


def fail(text):
    sys.exit(f"pack.py: {text}")


def wanted(build, plugin):
    """(path in the build) of each file of the build that is packed."""
    yield "CMakeCache.txt"
    yield from PROGRAMS + READ
    library = plugin.replace(".", "_")
    for file in sorted((build / "lib").glob("libtenon.so*")):
        yield f"lib/{file.name}"
    for file in sorted((build / "lib/tenon/plugins").glob("*.so")):
        if file.stem == library or file.stem not in LEFT_OUT:
            yield f"lib/tenon/plugins/{file.name}"
    if not (build / f"lib/tenon/plugins/{library}.so").exists():
        fail(f"{build} has no plugin {plugin}: `make build GPU=1` makes it where the vendor's toolkit is")


def needed(file, build):
    """Libraries that the loader finds for a file, by name: those outside the build, and the build's own copies
    (lib/tenon/private)."""
    done = subprocess.run(["ldd", file], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if "not found" in line:
            fail(f"{file}: {line.strip()}")
        found = re.match(r"\s*(\S+) => (/\S+)", line)
        path = pathlib.Path(found[2]).resolve() if found else None
        if found and not SYSTEMS.match(found[1]) and (build not in path.parents or path.parent == build / PRIVATE):
            yield found[1], path


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink() and source.readlink().parent == pathlib.Path("."):
        target.symlink_to(source.readlink())
    elif source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def is_program(file):
    return not file.is_symlink() and file.is_file() and file.read_bytes()[:4] == b"\x7fELF"


def fill(kit, build, plugin):
    tree = kit / "tree"
    for name in SOURCES:
        if not (ROOT / name).exists():
            fail(f"{ROOT / name} is missing")
        copy(ROOT / name, tree / name)
    libraries = {}
    for name in wanted(build, plugin):
        source, target = build / name, tree / "build/release" / name
        if not source.exists():
            fail(f"{source} is missing: build the target {source.name}")
        copy(source, target)
        if is_program(target):
            libraries.update(needed(source, build))
            subprocess.run(["strip", "--strip-unneeded", target], check=True)
    # The loader's way to the build's own libraries is within the build.
    for name, file in sorted(libraries.items()):
        if file.parent == build / PRIVATE:  # as it is: it has more segments than strip knows how to keep
            copy(file, tree / "build/release" / PRIVATE / name)
            continue
        copy(file, tree / "debian" / name)
        subprocess.run(["strip", "--strip-unneeded", tree / "debian" / name], check=True)
    shutil.copy2(ROOT / "tools/gpu_kit/first.sh", kit / "first.sh")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/gpu-kit.tar.gz")
    parser.add_argument("--plugin", default="tenon.cuda")
    parser.add_argument("--most-mib", type=float, default=60, help="of the archive (default: %(default)s)")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    out = arguments.out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        kit = pathlib.Path(folder) / "gpu-kit"
        fill(kit, build, arguments.plugin)
        (kit / "plugin").write_text(arguments.plugin + "\n")
        part = out.with_name(out.name + ".part")
        with tarfile.open(part, "w:gz", compresslevel=6) as archive:
            archive.add(kit, "gpu-kit")
        unpacked = sum(file.stat().st_size for file in kit.rglob("*") if file.is_file() and not file.is_symlink())
    size = part.stat().st_size / 2**20
    if size > arguments.most_mib:
        part.unlink()
        fail(f"the archive has {size:.1f} MiB, and {arguments.most_mib:g} are what it may have")
    part.rename(out)
    print(
        f"{out}: {size:.1f} MiB, {unpacked / 2**20:.1f} MiB unpacked. On the machine with the GPU:\n  tar xf {out.name} && gpu-kit/first.sh"
    )


if __name__ == "__main__":
    main()
