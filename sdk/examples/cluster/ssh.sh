#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains on hosts that this one reaches by ssh: ssh.sh "a b c" --steps 2000
#
# A task on each host of the first word (again for several on one); `localhost` needs no ssh. The other words go to `tenon train digits`.
# Tasks get the cluster in TF_CONFIG, so that hosts need to share no file but CREDENTIALS. TENON, FOLDER, PS and PORT as in slurm.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

tenon=${TENON:-tenon}
folder=${FOLDER:-$PWD/tenon_digits}  # the training's, and all that its tasks may read and write
ps=${PS:-1}
credentials=(${CREDENTIALS:+--credentials "$CREDENTIALS"})
read -ra hosts <<<"$1"
shift
cluster=$PWD/cluster-$$.json
for i in "${!hosts[@]}"; do echo "$i ${hosts[i]}"; done | ./cluster_json.sh >"$cluster"

start() {  # HOST COMMAND; the command ends with this script
  if [[ $1 == localhost ]]; then exec bash -c "exec $2"; else exec ssh -tt "$1" "$2"; fi
}
tasks=()
trap 'kill "${tasks[@]}" && wait "${tasks[@]}" || true; rm -f "$cluster"' EXIT
for i in "${!hosts[@]}"; do
  if ((i < ps)); then task="\"type\": \"ps\", \"index\": $i"; else task="\"type\": \"worker\", \"index\": $((i - ps))"; fi
  start "${hosts[i]}" "env TF_CONFIG='{\"cluster\": $(<"$cluster"), \"task\": {$task}}' $tenon worker --files '$folder' ${credentials[*]}" </dev/null &
  tasks+=($!)
done
"$tenon" train digits --cluster "$cluster" --folder "$folder" "${credentials[@]}" "$@"
