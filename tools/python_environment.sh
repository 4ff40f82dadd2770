#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python_environment.sh FOLDER REQUIREMENTS [PYTHON]: a virtual environment of PYTHON (/usr/bin/python3, else python3) with the packages that the file pins, for
# building and testing the Python package. Silent and quick when it is there; made anew when the file or the Python changed. On failure the one line on
# stderr says what is missing and how to get it.
set -euo pipefail

((${#} == 2 || ${#} == 3)) || { echo "usage: tools/python_environment.sh FOLDER REQUIREMENTS [PYTHON]" >&2; exit 2; }
folder=$1 requirements=$2
python=${3:-/usr/bin/python3}
[[ -x $python ]] || python=$(command -v python3) || { echo "there is no python3: apt-get install python3 python3-venv python3-dev" >&2; exit 1; }

made_of=$({ "$python" -c 'import sys; print(sys.version, sys.prefix)'; cat "$requirements"; } | sha256sum | cut -d' ' -f1)
stamp=$folder/made_of
[[ -f $stamp && $(<"$stamp") == "$made_of" ]] && exit 0

log=$folder.log
mkdir -p "$(dirname "$folder")"
rm -rf "$folder"
"$python" -m venv "$folder" >"$log" 2>&1 || { echo "'$python -m venv' failed (see $log): apt-get install python3-venv" >&2; exit 1; }
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --retries 1 --timeout 20 --only-binary :all: \
  -r "$requirements" >"$log" 2>&1 || {
  echo "pip could not install $(basename "$requirements") (see $log); with a package index in reach, run cmake again" >&2
  exit 1
}
echo "$made_of" >"$stamp"
