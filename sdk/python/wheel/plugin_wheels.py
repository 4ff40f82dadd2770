# SPDX-License-Identifier: Apache-2.0
"""Plugins that are wheels of their own, since what they link to is large: one for every Python, found through the entry point `tenon.plugins` as any stranger's is."""

import pathlib
import shutil
import sysconfig

# By what is added to "tenon-engine-": the package, what it is, and its libraries. The wheel of Tenon itself
# leaves these libraries out, and depends on the wheel (pyproject.toml).
PLUGINS = {
    "onednn": ("tenon_onednn", "oneDNN's kernels for the CPU device of Tenon", ["tenon_cpu_onednn.so"]),
}

METADATA = """Metadata-Version: 2.4
Name: tenon-engine-{name}
Version: {version}
Summary: {about}
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.10
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/plain

{about}: a plugin of tenon-engine {version}, which finds it by itself.
"""

WHEEL = """Wheel-Version: 1.0
Generator: tenon
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""


def libraries():
    """All that the wheel of Tenon itself leaves out."""
    return [library for _, _, files in PLUGINS.values() for library in files]


def lay_out(name, prefix, version, license_file, folder):
    """The files of one, for `wheel pack`; gives the folder that it takes."""
    package, about, files = PLUGINS[name]
    tree = pathlib.Path(folder) / f"tenon_engine_{name}-{version}"
    info = tree / f"tenon_engine_{name}-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    (tree / package).mkdir()
    (tree / package / "__init__.py").write_text(f'"""{about}: the folder of the plugin, which Tenon searches."""\n')
    for file in files:
        shutil.copy(pathlib.Path(prefix) / "lib/tenon/plugins" / file, tree / package)
    (info / "METADATA").write_text(METADATA.format(name=name, version=version, about=about))
    (info / "WHEEL").write_text(WHEEL.format(platform=sysconfig.get_platform().replace("-", "_")))
    (info / "entry_points.txt").write_text(f"[tenon.plugins]\n{name} = {package}\n")
    shutil.copy(license_file, info / "licenses" / "LICENSE")
    return tree
