# SPDX-License-Identifier: Apache-2.0
"""The licences of what is in a wheel and is not Tenon's: of each library that auditwheel put there, of Tenon's copies
of others, and of what was compiled in.

They are what Debian installs with each package, /usr/share/doc/PACKAGE/copyright, and nanobind's own file.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

# Headers and static libraries, by the Debian package that brings them. What of them is not in a wheel (gRPC) is left
# out by its plugin's name.
COMPILED_IN = {
    "libeigen3-dev": None,
    "libboost1.81-dev": None,
    "nlohmann-json3-dev": None,
    "libcli11-dev": None,
    "libfmt-dev": None,
    "libprotobuf-dev": None,
    "libgrpc-dev": "tenon_grpc.so",
    "libxbyak-dev": "tenon_cpu_codegen.so",
}


def _package_of(library):
    """The Debian package of a library as auditwheel or Tenon has named it: libdnnl-1a2b3c4d.so.2.6 is libdnnl.so.2.6,
    libtenon_dnnl.so.2 is libdnnl.so.2."""
    name = re.sub(r"-[0-9a-f]{8}(?=\.)", "", library).replace("libtenon_", "lib")
    if shutil.which("dpkg-query") is None:
        sys.exit(
            f"the licence of {name}, which is put into the wheel, is not known without dpkg-query: wheels are built on Debian"
        )
    ran = subprocess.run(["dpkg-query", "-S", f"*/{name}"], capture_output=True, text=True)
    packages = sorted({line.split(":")[0] for line in ran.stdout.splitlines() if line.endswith("/" + name)})
    if not packages:
        sys.exit(f"no Debian package has {name}, so its licence is not known; wheels are built on Debian")
    return packages[0]


def _copyright(package):
    file = pathlib.Path("/usr/share/doc", package, "copyright")
    if not file.is_file():
        sys.exit(f"{file} is missing: the wheel must bring the licence of {package}")
    return file.read_text(errors="replace")


def _nanobind():
    (text,) = pathlib.Path(sysconfig.get_path("purelib")).glob("nanobind-*.dist-info/licenses/LICENSE")
    return text.read_text()


def add(unpacked):
    """Writes dist-info/licenses/third_party/NAME.txt into a wheel that is unpacked; gives the names."""
    unpacked = pathlib.Path(unpacked)
    (info,) = unpacked.glob("*.dist-info")
    folder = info / "licenses" / "third_party"
    texts = {
        package: _copyright(package)
        for package in {
            _package_of(library.name)
            for library in [
                *unpacked.glob("*.libs/*"),
                *(path for path in unpacked.rglob("libtenon_*.so.*") if path.parent.name != "lib"),
            ]
        }
    }
    if (unpacked / "tenon" / "bin").is_dir():
        compiled_in = [
            package
            for package, plugin in COMPILED_IN.items()
            if plugin is None or (unpacked / "tenon/lib/tenon/plugins" / plugin).is_file()
        ]
        texts.update({package: _copyright(package) for package in compiled_in}, nanobind=_nanobind())
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return sorted(texts)
