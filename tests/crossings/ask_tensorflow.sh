#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ask_tensorflow.sh PROGRAM FOLDER SEEDS COUNT PYTHON: writes the programs of these seeds in a few forms, and lets TensorFlow run them.
set -euo pipefail
program=$1 folder=$2 seeds=$3 count=$4 python=$5
rm -rf "$folder"
mkdir -p "$folder"
# shellcheck disable=SC2086  # seeds are words
"$program" --seeds $seeds --count "$count" --batch "$folder" --manners plain functions references
"$python" -B "$(dirname "$0")/replay.py" --tensorflow "$folder"
