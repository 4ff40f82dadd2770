#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# launcher_test.sh LAUNCHER TENON EXAMPLES: the launcher's own example really starts a cluster, trains on it, and leaves nothing behind.
# Covers I5. Exit code 77: skipped, and the last line says why.
#
# It runs in namespaces of its own (network, processes, host name), so that ports are free, a Slurm of three nodes on this host meets no other one, and
# whatever it started is gone when it ends. The host has a name there, as hosts have.
set -euo pipefail
export HOST_NAME=tenonbox
launcher=$1 tenon=$2 examples=$3

source "$(dirname "${BASH_SOURCE[0]}")/own_namespaces.sh"

if [[ -z ${TENON_IN_NAMESPACE:-} ]]; then
  case $launcher in
    slurm) need "munge, slurmctld, slurmd, slurm-client" munged slurmctld slurmd srun sbatch scontrol ;;
    mpirun) need openmpi-bin mpirun ;;
    torchrun) need "PyTorch, which is large: pip install torch" torchrun ;;
  esac
  enter_own_namespaces "$@"
fi

# ---- In the namespaces ----

folder=$TENON_IN_NAMESPACE
# Slurm and Open MPI want an interface that is not loopback; nothing is on the other side.
ip link add here type veth peer name there
ip address add 10.255.255.1/24 dev here
ip link set here up && ip link set there up
cp -r "$examples" "$folder/cluster" && cd "$folder/cluster"
export TENON=$tenon FOLDER=$folder/digits OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
training=(--restart --threads=1 --steps=30)

start_slurm() {
  mkdir -p "$folder"/slurm/{munge,state,spool}
  chmod 755 "$folder"
  local home=$folder/slurm
  (umask 077 && head -c 128 /dev/urandom >"$home/munge/key")
  munged --force --key-file="$home/munge/key" --socket="$home/munge/socket" --pid-file="$home/munge/pid" --log-file="$home/munge/log" \
    --seed-file="$home/munge/seed"
  cat >"$home/slurm.conf" <<END
ClusterName=tenon
SlurmctldHost=$HOST_NAME(127.0.1.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$home/munge/socket
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool/%n
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/%n.pid
SlurmctldLogFile=$home/slurmctld.log
SlurmdLogFile=$home/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
NodeName=node[1-3] NodeHostname=$HOST_NAME NodeAddr=127.0.1.1 Port=[17001-17003] CPUs=2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END
  export SLURM_CONF=$home/slurm.conf
  slurmctld -i
  for node in node1 node2 node3; do
    mkdir -p "$home/spool/$node"
    slurmd -N "$node"
  done
  for ((i = 0; i < 100; ++i)); do
    [[ $(sinfo -h -o %T 2>&1) == idle ]] && return
    sleep 0.1  # there is nothing to wait on
  done
  tail -n 20 "$home"/*.log "$home/munge/log"
  skip "Slurm did not come up here; its last lines stand above"
}

case $launcher in
  slurm)
    start_slurm
    sbatch --wait --nodes=3 --ntasks-per-node=1 --output="$folder/said" slurm.sh "${training[@]}" || code=$?
    ;;
  mpirun) ./mpirun.sh "--oversubscribe -np 3" "${training[@]}" >"$folder/said" 2>&1 || code=$? ;;
  torchrun) ./torchrun.sh "--nproc-per-node 3" "${training[@]}" >"$folder/said" 2>&1 || code=$? ;;
  ssh) ./ssh.sh "localhost localhost localhost" "${training[@]}" >"$folder/said" 2>&1 || code=$? ;;
  *) exit 2 ;;
esac

cat "$folder/said"
if [[ $launcher == slurm ]]; then
  for node in node1 node2 node3; do
    grep -q "launch task" "$folder/slurm/$node.log" || fail "nothing ran on $node"
  done
fi
((${code:-0} == 0)) || fail "the example ended with code $code"
for task in /job:ps/task:0 /job:worker/task:0 /job:worker/task:1; do
  grep -q "^$task listens at grpc://localhost:222" "$folder/said" || fail "$task did not listen"
  grep -q "^  $task  .* MB held" "$folder/said" || fail "$task took no part"
  grep -q "^$task ends" "$folder/said" || fail "$task was not ended"
done
grep -q "^Trained 30 steps" "$folder/said" || fail "it did not train"
[[ -s $folder/digits/digits.pb ]] || fail "there is no trained graph"
! compgen -G "$folder/cluster/cluster-*.json" || fail "it left its cluster file behind"
