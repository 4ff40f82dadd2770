# SPDX-License-Identifier: Apache-2.0
"""What the built libraries export: libtenon.so and libtenon_model_c.so tenon_* alone, a plugin its entry point alone;
what they take from outside: the system's own libraries and Tenon's (cmake/TenonPrivateLibraries.cmake); where they look
for them; and libtenon.so's size. Covers A17, O2.

usage: exports.py FOLDER     of a build, or of an installation
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ENTRY = "tenon_plugin_query"
SIZE_LIMIT = 10_000_000  # bytes, stripped


VERSION = "TENON_0"  # of libtenon.so's symbols


def exported(library):
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


# Libraries that any process shares: C's and C++'s, OpenMP's threads, the door to OpenCL's drivers (oneDNN names it),
# and our own.
OUTSIDE = re.compile(
    r"lib(c|m|mvec|stdc\+\+|gcc_s|pthread|dl|rt)\.so\.\d+|ld-linux.*\.so\.\d+|libgomp\.so\.1|libOpenCL\.so\.1|libtenon\.so\.\d+|libtenon_.*\.so(\.\d+)*"
)


def needs(library):
    """What is wrong with what a library needs, or where it looks."""
    text = subprocess.run(["readelf", "-dW", library], check=True, capture_output=True, text=True).stdout
    for kind, value in re.findall(r"\((NEEDED|RUNPATH|RPATH)\).*\[(.*)\]", text):
        if kind == "NEEDED" and not OUTSIDE.fullmatch(value):
            yield f"{library} needs {value}, of which a process may have another version: tenon_link_private gives it one of its own"
        if kind != "NEEDED" and "" in value.split(":"):
            yield f"{library} looks for libraries in the current folder: its path is '{value}'"


def main():
    lib = pathlib.Path(sys.argv[1]) / "lib"
    faults = []
    host = lib / "libtenon.so"
    names = exported(host)
    for library in (host, lib / "libtenon_model_c.so"):
        own = exported(library)
        others = sorted(name for name in own if not name.startswith("tenon_") and name != VERSION)
        if not own or others:
            faults.append(f"{library} exports {len(own)} names, of which not tenon_*: {', '.join(others[:10])}")
    plugins = sorted((lib / "tenon" / "plugins").glob("*.so"))
    if not plugins:
        faults.append(f"no plugins in {lib}/tenon/plugins")
    for plugin in plugins:
        if exported(plugin) != {ENTRY}:
            faults.append(
                f"{plugin} exports {', '.join(sorted(exported(plugin))[:10])}; it should export {ENTRY} alone"
            )
    for library in [
        host,
        lib / "libtenon_model_c.so",
        *plugins,
        *(lib / "tenon" / "private").glob("*"),
        *(lib.parent / "python" / "tenon").glob("_core*.so"),
    ]:
        faults.extend(needs(library))
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "libtenon.so"
        subprocess.run(["strip", "-o", stripped, host], check=True)
        size = stripped.stat().st_size
    if size > SIZE_LIMIT:
        faults.append(f"{host} has {size} bytes stripped; the limit is {SIZE_LIMIT}")
    for fault in faults:
        print(fault)
    print(f"{len(plugins)} plugins; libtenon.so exports {len(names)} names and has {size} bytes stripped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
