# SPDX-License-Identifier: Apache-2.0
"""Runtimes: the plugins that are loaded, and what they brought."""

import threading
import weakref
from typing import Dict, List, NamedTuple, Optional

from . import _core
from .op_definition import OpDefinition


class Device(NamedTuple):
    """A device that a plugin found; `problem` says why there is none where a driver found none."""

    name: str
    type: str
    plugin: str
    model: str
    problem: str
    memory_bytes: int
    memory_kinds: str
    dlpack: tuple  # DLPack's device type and number

    def __repr__(self):
        return (
            f"<tenon.Device {self.name} {self.model!r}>"
            if not self.problem
            else f"<tenon.Device of {self.plugin}: {self.problem}>"
        )


class LoadReport(NamedTuple):
    """What became of one library that was looked at."""

    path: str
    id: str
    version: str
    outcome: str  # "loaded", "rejected", "not chosen", "already", "unloaded"
    reason: str
    text: str
    missing: str
    hint: str
    ops: int
    kernels: int
    devices: int


def _with_plugin_packages(options):
    """The options, with what other Python packages bring in the engine's own `plugin_path`."""
    from .plugin_packages import plugin_paths

    paths = plugin_paths()
    if not paths:
        return options
    own = dict(options.get("tenon", {}))
    own["plugin_path"] = ":".join([str(own["plugin_path"]), *paths] if "plugin_path" in own else paths)
    return {**options, "tenon": own}


_all = weakref.WeakSet()  # the runtimes that live
_default = None
_default_lock = threading.Lock()


class Runtime(_core.RuntimeBase):
    """Loaded plugins. `with runtime:` makes it the default one of the thread.

    plugins: files to load besides those that are installed, those of other Python packages too (plugin_packages.py).
    options: {"tenon.cpu": {"key": "value"}}. search=False: nothing but `plugins`. threads: of a step, the caller's
    included; 0: as many as cores. A plugin in `plugins` that cannot be loaded is an error; of the others reports()
    tells.
    """

    def __init__(
        self,
        plugins=(),
        options: Optional[Dict[str, Dict[str, str]]] = None,
        *,
        search: bool = True,
        threads: int = 0,
        log_level: int = 0,
        task: str = "",
        tuning_folder: str = "",
    ):
        options = _with_plugin_packages(options or {}) if search else options or {}
        super().__init__([str(path) for path in plugins], options, search, threads, log_level, task, str(tuning_folder))
        self._definitions = {}
        self._stack = threading.local()
        _all.add(self)

    def devices(self) -> List[Device]:
        return [Device(**device) for device in self._devices()]

    def reports(self) -> List[LoadReport]:
        """One for each file that was looked at, usable or not."""
        return [LoadReport(**report) for report in self._reports()]

    def ops(self) -> List[OpDefinition]:
        """The ops of all plugins, sorted by name; opens every plugin that was found."""
        self._open_all()
        return [self._remember(op) for op in self._ops()]

    def op(self, name: str) -> OpDefinition:
        """An op by its name; the error names near misses."""
        found = self._definitions.get(name)
        return found or self._remember(self._find_op(name))

    def unload_plugin(self, id: str):
        super().unload_plugin(id)
        self._definitions.clear()

    def _remember(self, info):
        known = self._definitions.get(info["name"])
        if known is None:
            known = self._definitions[info["name"]] = OpDefinition(**info)
        return known

    def __enter__(self):
        _stack().append(self)
        return self

    def __exit__(self, *unused):
        _stack().remove(self)

    def __repr__(self):
        loaded = [report.id for report in self.reports() if report.outcome == "loaded"]
        return f"<tenon.Runtime of {len(loaded)} open plugins: {', '.join(loaded)}>"


_local = threading.local()


def _stack():
    if not hasattr(_local, "runtimes"):
        _local.runtimes = []
    return _local.runtimes


def default_runtime() -> Runtime:
    """The runtime of the innermost `with runtime:` of this thread, or the process's own, which is made at its first
    use."""
    global _default
    if _stack():
        return _stack()[-1]
    with _default_lock:
        if _default is None:
            _default = Runtime()
        return _default


def live_runtimes() -> List[Runtime]:
    """The default one first."""
    others = [runtime for runtime in list(_all) if runtime is not default_runtime()]
    return [default_runtime(), *others]
