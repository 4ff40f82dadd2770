# SPDX-License-Identifier: Apache-2.0
"""Draws cases of ops: one file a package. draw.py has what they share, registry.py what TensorFlow registers."""
import importlib
import pathlib


def load():
    """Imports every package's file, which registers its generators."""
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        if path.stem not in ("__init__", "draw", "registry"):
            importlib.import_module(f"{__name__}.{path.stem}")
