#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Reads "NUMBER HOST" lines, one a task, and prints the cluster that they make: {"ps": ["host:port"], "worker": [...]}.
#
# Launchers number their processes; `tenon worker` takes that number for its place in this list. The first PS (default 1) tasks hold the
# variables. Each task gets a port of its own, from PORT (default 2222) on, so that several may share a host.
set -euo pipefail

ps=${PS:-1}
port=${PORT:-2222}
addresses=()
while read -r number host; do
  addresses+=("\"$host:$((port + number))\"")
done < <(sort -n)
if ((${#addresses[@]} <= ps)); then
  echo "cluster_json.sh: ${#addresses[@]} tasks are too few: $ps for parameters, and at least one worker" >&2
  exit 1
fi

join() {
  local IFS=,
  echo "$*"
}
echo "{\"ps\": [$(join "${addresses[@]:0:ps}")], \"worker\": [$(join "${addresses[@]:ps}")]}"
