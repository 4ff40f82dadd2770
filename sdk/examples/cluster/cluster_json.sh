#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Reads "NUMBER HOST" lines, one a task, and prints the cluster that they make: {"ps": ["host:port"], "worker": [...]}.
#
# Launchers number their processes; `tenon worker` takes that number for its place in this list. The first PS (default 1) tasks hold the
# variables. Each task gets a port of its own, from PORT (default 2222) on, so that several may share a host.
set -euo pipefail

ps=${PS:-1}
port=${PORT:-2222}
numbers=()
hosts=()
while read -r number host; do
  numbers+=("$number")
  hosts+=("$host")
done < <(sort -n)
# All on this host: they speak within it, where nothing need be encrypted, whatever it is called. (With certificates they are called by their names.)
if [[ -z ${CREDENTIALS:-} && $(printf '%s\n' "${hosts[@]}" | sort -u) == "$(hostname)" ]]; then
  hosts=("${hosts[@]/*/localhost}")
fi
addresses=()
for i in "${!hosts[@]}"; do
  addresses+=("\"${hosts[i]}:$((port + numbers[i]))\"")
done
if ((${#addresses[@]} <= ps)); then
  echo "cluster_json.sh: ${#addresses[@]} tasks are too few: $ps for parameters, and at least one worker" >&2
  exit 1
fi

join() {
  local IFS=,
  echo "$*"
}
echo "{\"ps\": [$(join "${addresses[@]:0:ps}")], \"worker\": [$(join "${addresses[@]:ps}")]}"
