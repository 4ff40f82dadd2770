# SPDX-License-Identifier: Apache-2.0
"""Draws cases of ops: a file for each package, and some for families of it. draw.py has what they share, registry.py
what TensorFlow registers."""

import importlib
import pathlib


def load():
    """Imports every file, which registers its generators."""
    for path in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        if path.stem not in ("__init__", "draw", "registry"):
            importlib.import_module(f"{__name__}.{path.stem}")
