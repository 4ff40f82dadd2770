# SPDX-License-Identifier: Apache-2.0
"""The reinforcement example: a policy of the graph in a world that is a Python function. Covers P15."""

import pathlib
import re
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python" / "reinforce.py"


def test_the_policy_finds_the_way():
    out = subprocess.run(
        [sys.executable, str(PROGRAM), "100"], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    returns = [float(value) for value in re.findall(r"average return (-?[0-9.]+)", out)]
    assert returns[0] < 0, out  # who moves by chance pays for his moves
    assert 0.5 < returns[-1] <= 0.6001, out  # the shortest way gives 1 - 8 * 0.05
