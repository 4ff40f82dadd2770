#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains on what mpirun starts: mpirun.sh "-np 3 --host a,b,c" --steps 2000
#
# The first word goes to mpirun, the others to `tenon train digits`. Open MPI numbers the processes, and `tenon worker` reads
# OMPI_COMM_WORLD_RANK (PMI_RANK of others); there is no MPI program. This folder is on a file system that all hosts see.
# TENON, FOLDER, PS, PORT and CREDENTIALS as in slurm.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

tenon=${TENON:-tenon}
folder=${FOLDER:-$PWD/tenon_digits}  # the training's, and all that its tasks may read and write
credentials=(${CREDENTIALS:+--credentials "$CREDENTIALS"})
read -ra how <<<"$1"
shift
cluster=$PWD/cluster-$$.json
mpirun "${how[@]}" bash -c 'echo "${OMPI_COMM_WORLD_RANK:-$PMI_RANK} $(hostname)"' | ./cluster_json.sh >"$cluster"

mpirun "${how[@]}" "$tenon" worker --cluster "$cluster" --files "$folder" "${credentials[@]}" &
workers=$!
trap 'kill $workers && wait $workers || true; rm -f "$cluster"' EXIT
"$tenon" train digits --cluster "$cluster" --folder "$folder" "${credentials[@]}" "$@"
