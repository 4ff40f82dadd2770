# SPDX-License-Identifier: Apache-2.0
"""`python -m tenon ...` is the command `tenon ...`."""

import os
import sys

from .folders import program

if __name__ == "__main__":
    try:
        os.execv(program(), ["tenon", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"tenon: {error}")
