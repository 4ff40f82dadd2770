# SPDX-License-Identifier: Apache-2.0
"""Where the parts of the installation are that are not Python's."""

import os


def _prefix():
    """The folder that holds lib/, include/ and bin/: this package itself in a wheel, above it in a build folder and in
    an installed prefix."""
    here = os.path.abspath(os.path.dirname(__file__))  # a build folder has links to the files
    for up in ("", "../..", "../../../.."):
        prefix = os.path.realpath(os.path.join(here, up))
        if os.path.isfile(os.path.join(prefix, "lib", "libtenon.so.0")) or os.path.isfile(
            os.path.join(prefix, "lib", "libtenon.so")
        ):
            return prefix
    raise FileNotFoundError(f"there is no lib/libtenon.so beside '{here}'; the installation is not whole")


def _folder(*parts):
    path = os.path.join(_prefix(), *parts)
    if not os.path.exists(path):
        raise FileNotFoundError(f"'{path}' is not part of this installation")
    return path


def include_dir() -> str:
    """The folder of the C and C++ headers: `-I` of a plugin's build."""
    return _folder("include")


def cmake_dir() -> str:
    """The folder for CMake's `Tenon_DIR`."""
    return _folder("lib", "cmake", "Tenon")


def plugin_dir() -> str:
    """The folder in which plugins are looked for."""
    return _folder("lib", "tenon", "plugins")


def share_dir() -> str:
    """The folder of data: digits.npy, and what examples there are."""
    return _folder("share", "tenon")


def program() -> str:
    """The command `tenon`."""
    return _folder("bin", "tenon")
