#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains on a Slurm cluster. From this folder: sbatch --ntasks=9 slurm.sh --steps 2000
#
# One process a task: srun numbers them, and `tenon worker` reads SLURM_PROCID. This folder and the training's own are on a file system
# that all nodes see. What follows slurm.sh goes to `tenon train digits`. TENON: the program; FOLDER: the training's; PS: how many tasks hold variables;
# CREDENTIALS: a file of credentials.sh, needed as soon as there are several nodes.
#SBATCH --job-name=tenon
#SBATCH --ntasks=3
#SBATCH --output=tenon-%j.log
set -euo pipefail

tenon=${TENON:-tenon}
folder=${FOLDER:-$SLURM_SUBMIT_DIR/tenon_digits}  # the training's, and all that its tasks may read and write
credentials=(${CREDENTIALS:+--credentials "$CREDENTIALS"})
cluster=$SLURM_SUBMIT_DIR/cluster-$SLURM_JOB_ID.json
srun bash -c 'echo "$SLURM_PROCID $(hostname)"' | "$SLURM_SUBMIT_DIR/cluster_json.sh" >"$cluster"

srun --kill-on-bad-exit=1 "$tenon" worker --cluster "$cluster" --files "$folder" "${credentials[@]}" &
workers=$!
trap 'scancel --signal=TERM "$SLURM_JOB_ID" && wait $workers || true; rm -f "$cluster"' EXIT  # of the job's steps
"$tenon" train digits --cluster "$cluster" --folder "$folder" "${credentials[@]}" "$@"
