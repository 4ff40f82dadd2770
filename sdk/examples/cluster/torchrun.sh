#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains on what torchrun starts: torchrun.sh "--nproc-per-node 3" --steps 2000
#
# The first word goes to torchrun, the others to `tenon train digits`. torchrun numbers the processes, and `tenon worker` reads RANK; there is
# no Python program. As written here the processes are on this host; on several, run the line with torchrun on each (--nnodes, --node-rank,
# --rdzv-endpoint), with the same cluster file, and the training once. TENON, FOLDER, PS, PORT and CREDENTIALS as in slurm.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

tenon=${TENON:-tenon}
folder=${FOLDER:-$PWD/tenon_digits}  # the training's, and all that its tasks may read and write
credentials=(${CREDENTIALS:+--credentials "$CREDENTIALS"})
read -ra how <<<"$1"
shift
cluster=$PWD/cluster-$$.json
torchrun "${how[@]}" --no-python bash -c 'echo "$RANK $(hostname)"' | ./cluster_json.sh >"$cluster"

torchrun "${how[@]}" --no-python "$tenon" worker --cluster "$cluster" --files "$folder" "${credentials[@]}" &
workers=$!
trap 'kill $workers && wait $workers || true; rm -f "$cluster"' EXIT
"$tenon" train digits --cluster "$cluster" --folder "$folder" "${credentials[@]}" "$@"
