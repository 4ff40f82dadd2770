# SPDX-License-Identifier: Apache-2.0
"""Plugins that are wheels of their own, since what they link to is large: one for every Python, found through the entry
point `tenon.plugins` as any stranger's is."""

import pathlib
import re
import shutil
import subprocess
import sysconfig

# By what is added to "tenon-engine-": the package, what it is, and its libraries, which the wheel of Tenon itself
# leaves out. That depends on NEEDED (pyproject.toml); the others depend on it, and are made where their plugin was
# built.
PLUGINS = {
    "onednn": ("tenon_onednn", "oneDNN's kernels for the CPU device of Tenon", ["tenon_cpu_onednn.so"]),
    "grpc": ("tenon_grpc", "gRPC as a transport of Tenon's clusters", ["tenon_grpc.so"]),
    "unicode": ("tenon_unicode", "Ops of Tenon that need Unicode's tables (ICU)", ["tenon_ops_unicode.so"]),
    "tpu_sim": ("tenon_tpu_sim", "Simulated accelerators as devices of Tenon", ["tenon_tpu_sim.so"]),
    "cuda": ("tenon_cuda", "NVIDIA GPUs as devices of Tenon", ["tenon_cuda.so"]),
    "rocm": ("tenon_rocm", "AMD GPUs as devices of Tenon", ["tenon_rocm.so"]),
}
NEEDED = ["onednn", "grpc", "unicode"]
GPU = ["cuda", "rocm"]

METADATA = """Metadata-Version: 2.4
Name: tenon-engine-{name}
Version: {version}
Summary: {about}
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.10
{requires}Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/plain

{about}: a plugin of tenon-engine {version}, which finds it by itself.
"""

WHEEL = """Wheel-Version: 1.0
Generator: tenon
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def _private(prefix, libraries):
    """The copies in lib/tenon/private that libraries need, and what those need."""
    folder = pathlib.Path(prefix) / "lib/tenon/private"
    found, waiting = set(), list(libraries)
    while waiting:
        text = subprocess.run(["readelf", "-dW", waiting.pop()], check=True, capture_output=True, text=True).stdout
        new = {
            folder / name for name in re.findall(r"\(NEEDED\).*\[(libtenon_.*)\]", text) if (folder / name).is_file()
        } - found
        found |= new
        waiting += new
    return found


def left_out(prefix):
    """All that the wheel of Tenon itself leaves out, relative to lib/tenon: these plugins, and the copies of libraries
    that they alone need."""
    tenon = pathlib.Path(prefix) / "lib/tenon"
    own = {tenon / "plugins" / file for _, _, files in PLUGINS.values() for file in files}
    others = {library for library in (tenon / "plugins").glob("*.so") if library not in own} | {
        tenon.parent / "libtenon.so"
    }
    return sorted(
        str(path.relative_to(tenon)) for path in own | set((tenon / "private").iterdir()) - _private(prefix, others)
    )


def built(prefix):
    """The names of those whose libraries a prefix has; those that are needed in any case."""
    plugins = pathlib.Path(prefix) / "lib/tenon/plugins"
    return [
        name
        for name, (_, _, files) in PLUGINS.items()
        if name in NEEDED or all((plugins / file).is_file() for file in files)
    ]


def lay_out(name, prefix, version, license_file, folder):
    """The files of one, for `wheel pack`; gives the folder that it takes."""
    package, about, files = PLUGINS[name]
    tree = pathlib.Path(folder) / f"tenon_engine_{name}-{version}"
    info = tree / f"tenon_engine_{name}-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    (tree / package).mkdir()
    (tree / package / "__init__.py").write_text(f'"""{about}: the folder of the plugin, which Tenon searches."""\n')
    plugins = [pathlib.Path(prefix) / "lib/tenon/plugins" / file for file in files]
    for path in [*plugins, *_private(prefix, plugins)]:
        shutil.copy(path, tree / package)
    requires = "" if name in NEEDED else f"Requires-Dist: tenon-engine =={version}\n"
    (info / "METADATA").write_text(METADATA.format(name=name, version=version, about=about, requires=requires))
    (info / "WHEEL").write_text(WHEEL.format(platform=sysconfig.get_platform().replace("-", "_")))
    (info / "entry_points.txt").write_text(f"[tenon.plugins]\n{name} = {package}\n")
    shutil.copy(license_file, info / "licenses" / "LICENSE")
    return tree
