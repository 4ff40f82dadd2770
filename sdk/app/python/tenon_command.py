# SPDX-License-Identifier: Apache-2.0
"""The command `tenon` of a Python installation: the program of the package, which takes this process over, with the
plugins that other packages brought.

It stands beside the package `tenon` and does not import it, since NumPy alone would take longer than most commands.
"""

import importlib.util
import os
import sys
import warnings

PATH_VARIABLE = "TENON_PLUGIN_PATH"


def _package_folder():
    spec = importlib.util.find_spec("tenon")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("tenon: the package 'tenon' is not installed beside tenon_command.py")
    return spec.submodule_search_locations[0]


def _load(name):
    """A file of the package that needs nothing but Python, without the package."""
    spec = importlib.util.spec_from_file_location(
        "tenon_command_" + name, os.path.join(_package_folder(), name + ".py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _say(message, *unused, **ignored):
    print(f"tenon: warning: {message}", file=sys.stderr)


def _environment():
    """This process's, with the folders of plugin packages at the end of TENON_PLUGIN_PATH; what the program starts
    (workers) inherits it."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _say
        paths = _load("plugin_packages").plugin_paths()
    known = [part for part in os.environ.get(PATH_VARIABLE, "").split(":") if part]
    return (
        {**os.environ, PATH_VARIABLE: ":".join([*known, *(path for path in paths if path not in known)])}
        if paths
        else dict(os.environ)
    )


FOLDERS = {
    "--include-dir": "include_dir",
    "--cmake-dir": "cmake_dir",
    "--plugin-dir": "plugin_dir",
    "--share-dir": "share_dir",
}


def main(arguments=None):
    """tenon ARGUMENT...; --include-dir, --cmake-dir, --plugin-dir or --share-dir alone prints that folder."""
    arguments = sys.argv[1:] if arguments is None else arguments
    folders = _load("folders")
    try:
        if len(arguments) == 1 and arguments[0] in FOLDERS:
            return print(getattr(folders, FOLDERS[arguments[0]])())
        os.execve(folders.program(), ["tenon", *arguments], _environment())
    except OSError as error:
        sys.exit(f"tenon: {error}")


if __name__ == "__main__":
    main()
