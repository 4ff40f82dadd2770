# SPDX-License-Identifier: Apache-2.0
"""Plugins that came as Python packages: those whose distribution has an entry point of the group `tenon.plugins`.

    [project.entry-points."tenon.plugins"]
    cube = "tenon_cube"                  # a module: the folder that it stands in is searched; it is not imported (those
    above it are) cube = "tenon_cube.where:plugins"    # a function, which gives a folder, a library, or a list of them

They are searched as if they stood at the end of TENON_PLUGIN_PATH. An entry point that cannot be used is a warning, and
the others count. This module needs nothing but Python: the command `tenon` reads it without the package around it.
"""

import importlib
import importlib.util
import os
import re
import sys
import warnings

GROUP = "tenon.plugins"


class PluginPackageWarning(UserWarning):
    """An entry point of the group `tenon.plugins` that gives no plugins, and why."""


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _distributions():
    """(name and version, text of its entry points) of each distribution that has any of the group; the first of a name
    on sys.path counts, as for Python.

    Without importlib.metadata, which takes 15 ms to be imported and reads much more of each.
    """
    names = set()
    for folder in sys.path:
        try:
            found = sorted(
                entry.path for entry in os.scandir(folder or ".") if entry.name.endswith((".dist-info", ".egg-info"))
            )
        except OSError:
            continue
        for path in found:
            name, _, version = os.path.splitext(os.path.basename(path))[0].partition("-")
            name = re.sub(r"[-_.]+", "-", name).lower()
            text = b"" if name in names else _read(os.path.join(path, "entry_points.txt"))
            if GROUP.encode() in text:
                yield f"{name} {version}", text
            names.add(name)


def _entry_points(text):
    """(name, module, function) of each entry point of the group; the function is empty where there is none."""
    group = None
    for line in text.decode().splitlines():
        line = line.strip()
        if line.startswith("["):
            group = line.strip("[] ")
        elif line and not line.startswith(("#", ";")) and group == GROUP:
            name, equals, value = line.partition("=")
            module, _, function = value.partition("[")[0].partition(":")  # [extras] are history
            if not equals or not module.strip():
                raise ValueError(f"'{line}' is no entry point")
            yield name.strip(), module.strip(), function.strip()


def _folders_of_module(name):
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"there is no module '{name}'")
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    if not spec.has_location:
        raise TypeError(f"the module '{name}' stands in no folder")
    return [os.path.dirname(spec.origin)]


def _paths_of(module, function):
    if not function:
        return _folders_of_module(module)
    value = importlib.import_module(module)
    for name in function.split("."):
        value = getattr(value, name)
    if callable(value):
        value = value()
    if isinstance(value, (str, os.PathLike)):
        value = [value]
    if not isinstance(value, (list, tuple)) or not all(isinstance(path, (str, os.PathLike)) for path in value):
        raise TypeError(f"it gives {value!r}, not a folder, a library, or a list of them")
    return [os.fsdecode(path) for path in value]


def _checked(path):
    if not os.path.isabs(path):
        raise ValueError(f"it gives '{path}', which is not absolute")
    if not os.path.exists(path):
        raise FileNotFoundError(f"it gives '{path}', which is not there")
    if not os.path.isdir(path) and not path.endswith(".so"):
        raise ValueError(f"it gives '{path}', which is neither a folder nor a library (.so)")
    if ":" in path:
        raise ValueError(f"it gives '{path}'; a colon cannot stand in a path that is searched")
    return path


def _warn(distribution, what, error):
    warnings.warn(
        f"plugins of the distribution '{distribution}' are left out: {what}: {type(error).__name__}: {error}",
        PluginPackageWarning,
        stacklevel=3,
    )


def plugin_paths():
    """The folders and libraries that installed distributions give, each once; warns of each entry point that cannot be
    used."""
    paths = []
    for distribution, text in _distributions():
        try:
            points = list(_entry_points(text))
        except ValueError as error:
            _warn(distribution, "its entry_points.txt cannot be read", error)
            continue
        for name, module, function in points:
            try:
                paths += [path for path in map(_checked, _paths_of(module, function)) if path not in paths]
            except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is imported
                value = f"{module}:{function}" if function else module
                _warn(distribution, f"its entry point {name} = {value} of the group {GROUP} cannot be used", error)
    return paths
