# SPDX-License-Identifier: Apache-2.0
"""Which Pythons are at hand for wheels: those named, else python3.X on PATH, in /usr/bin and /usr/local/bin, and what
pyenv has."""

import glob
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

OLD = ["3.10", "3.11"]  # a wheel each
STABLE = ["3.12", "3.13", "3.14", "3.15"]  # one wheel for all of them, made by the oldest at hand
FREE_THREADED = ["3.13t", "3.14t"]  # a wheel each

_PROBE = """
import os, sys, sysconfig
import ensurepip, venv
free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
headers = os.path.isfile(os.path.join(sysconfig.get_path("include"), "Python.h"))
print(sys.implementation.name, "%d.%d%s" % (*sys.version_info[:2], free), int(headers))
"""


class Python(NamedTuple):
    tag: str  # "3.12", "3.13t"
    path: str
    has_headers: bool

    @property
    def version(self):
        return tuple(int(part) for part in self.tag.rstrip("t").split("."))


def _probe(path):
    """The Python at a path; None where there is none that runs, or where it cannot make a virtual environment."""
    try:
        ran = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = ran.stdout.split()
    return (
        Python(words[1], path, words[2] == "1")
        if ran.returncode == 0 and len(words) == 3 and words[0] == "cpython"
        else None
    )


def _candidates(tag):
    name = "python" + tag
    places = [*os.environ.get("PATH", "").split(os.pathsep), "/usr/bin", "/usr/local/bin"]
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    versions = sorted(glob.glob(os.path.join(glob.escape(pyenv), "versions", tag.rstrip("t") + ".*", "bin")))
    paths = [os.path.join(place, name) for place in [*places, *versions] if place]
    return list(dict.fromkeys(path for path in paths if os.access(path, os.X_OK)))


def find(named=""):
    """{tag: Python} of all at hand, by version. named: commands or paths, separated by blanks; each must be a Python of
    3.10 or later."""
    found = {}
    if named.split():
        for word in named.split():
            python = _probe(shutil.which(word) or word)
            if python is None:
                sys.exit(f"'{word}' is no CPython that runs and can make virtual environments (Debian: python3-venv)")
            if python.version < (3, 10):
                sys.exit(f"'{word}' is Python {python.tag}; 3.10 is the oldest")
            found.setdefault(python.tag, python)
    else:
        for tag in [*OLD, *STABLE, *FREE_THREADED]:
            usable = [python for python in map(_probe, _candidates(tag)) if python is not None and python.tag == tag]
            if usable:
                found[tag] = max(usable, key=lambda python: python.has_headers)  # the first of those
    return dict(sorted(found.items(), key=lambda item: (item[1].version, item[0])))


def builders(found):
    """Those of which each makes a wheel; says on stderr who is missing, and what for."""

    def missing(what, why):
        print(f"make wheel: no wheel for {what}: {why}; name one with PYTHONS=\"PATH ...\"", file=sys.stderr)

    chosen = []
    with_headers = {tag: python for tag, python in found.items() if python.has_headers}
    for tag in [*OLD, *FREE_THREADED]:
        if tag in with_headers:
            chosen.append(with_headers[tag])
        else:
            missing(f"Python {tag}", "its headers are missing (Python.h)" if tag in found else "it is not at hand")
    stable = [with_headers[tag] for tag in STABLE if tag in with_headers]
    chosen += stable[:1]
    if not stable:
        missing("Python 3.12 and later", "none of " + ", ".join(STABLE) + " is at hand with its headers")
    return chosen
