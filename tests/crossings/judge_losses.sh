#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# judge_losses.sh BUILD SEED COUNT PYTHON: losses of control flow from COUNT seeds, whose gradients Tenon's package must give as TensorFlow does (losses.py).
set -euo pipefail
build=$1 seed=$2 count=$3 python=$4
here=$(dirname "$0")
rm -rf "$build/losses"
"$python" -B "$here/losses.py" --make "$build/losses" --seeds "$seed" --count "$count"
PYTHONPATH="$build/python" "$build/python_environment/bin/python" -B "$here/losses.py" "$build/losses"
