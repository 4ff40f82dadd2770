#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# partition_test.sh TENON CREDENTIALS_SCRIPT: tasks on hosts of their own, as far as the network goes: each in its own network namespace, on one
# bridge with the client. Plaintext between them is refused; with mutual TLS and a token they train to the weights of one process, also
# when a task's link is cut meanwhile, or two tasks reach their client but not each other: what is cut off is named, and when it is back, so is
# the training. Covers J1, J2, R9. Exit code 77: skipped.
# It takes most of a minute: five trainings of 200 to 600 steps, three over four tasks, two of which wait out the silence of a link.
set -euo pipefail
tenon=$1 make_credentials=$2
source "$(dirname "${BASH_SOURCE[0]}")/own_namespaces.sh"

if [[ -z ${TENON_IN_NAMESPACE:-} ]]; then
  need openssl openssl
  enter_own_namespaces "$@"
fi
folder=$TENON_IN_NAMESPACE

# ---- The network: the client on the bridge at .254, task i behind link i at .(i + 1) ----

tasks=(ps/0 ps/1 worker/0 worker/1)
mount -t tmpfs none /run  # where ip keeps names of namespaces
ip link add bridge type bridge
ip address add 10.77.0.254/24 dev bridge
ip link set bridge up
for i in "${!tasks[@]}"; do
  ip netns add "task$i"
  ip link add "link$i" type veth peer name inside netns "task$i"
  ip link set "link$i" master bridge up
  ip -n "task$i" link set lo up
  ip -n "task$i" address add "10.77.0.$((i + 1))/24" dev inside
  ip -n "task$i" link set inside up
done
"$make_credentials" "$folder/credentials" 10.77.0.{1,2,3,4} >"$folder/openssl.log" 2>&1 || fail "no credentials: $(<"$folder/openssl.log")"
credentials=(--credentials "$folder/credentials/credentials.json")
cat >"$folder/cluster.json" <<END
{"ps": ["10.77.0.1:2222", "10.77.0.2:2222"], "worker": ["10.77.0.3:2222", "10.77.0.4:2222"]}
END

work() {  # TASK OPTION...
  local i=$1 job=${tasks[$1]%/*} number=${tasks[$1]#*/}
  shift
  exec ip netns exec "task$i" "$tenon" worker --cluster "$folder/cluster.json" --job "$job" --task "$number" --threads=1 --files "$folder" "$@"
}
train() {  # NAME STEPS OPTION...; without compilers, which take chains as wholes in one process alone and round otherwise
  local name=$1 steps=$2
  shift 2
  "$tenon" train digits --restart --no-compile --threads=1 --checkpoint-steps=20 --folder="$folder/$name" --steps="$steps" "$@"
}
same_weights() { cmp "$folder/$1/digits.pb" "$folder/$2/digits.pb" || fail "'$1' and '$2' have other weights"; }

# ---- Plaintext ----

(work 0) >"$folder/plain" 2>&1 && fail "a worker listens in plaintext, off loopback"
grep -q "plaintext is refused" "$folder/plain" || fail "a worker in plaintext says: $(<"$folder/plain")"

for i in "${!tasks[@]}"; do
  (work "$i" "${credentials[@]}") >"$folder/task$i" 2>&1 &
done
train plain 1 --cluster="$folder/cluster.json" >"$folder/plain" 2>&1 && fail "a client trains in plaintext, off loopback"
grep -q "plaintext is refused" "$folder/plain" || fail "a client in plaintext says: $(<"$folder/plain")"

# ---- Training ----

train one 200 --replicas=2 >"$folder/said"
train many 200 --cluster="$folder/cluster.json" "${credentials[@]}" >"$folder/said" 2>&1 || fail "$(<"$folder/said")"
same_weights one many

steps=600
train calm $steps --replicas=2 >"$folder/said"
wait_for() {  # TEXT: a line of the training's that has it
  while IFS= read -r -t 60 line <&"$from"; do
    echo "$line"
    [[ $line != *"$1"* ]] || return 0
  done
  fail "the training did not say '$1'"
}
disturbed() {  # NAME CUT MEND WHOM
  coproc { exec 2>&1; train "$1" $steps --cluster="$folder/cluster.json" "${credentials[@]}"; }
  local from=${COPROC[0]} training=$COPROC_PID at
  wait_for "step $((steps / 10))/"
  "$2"
  at=$(date +%s%N)
  wait_for "lost: "
  echo "$1: the training told after $((($(date +%s%N) - at) / 1000000)) ms"
  [[ $line == *"task $4"* ]] || fail "it names another task than $4"
  "$3"
  wait_for "step $steps/"
  while IFS= read -r line; do :; done <&"$from"
  wait "$training" || fail "the training ended with code $?"
  same_weights calm "$1"
}

cut() { ip link set link3 down; }
mend() { ip link set link3 up; }
disturbed cut cut mend "/job:worker/replica:0/task:1 at grpc://10.77.0.4:2222"

routes() {  # between the first parameter server and the second worker
  ip -n task0 route "$1" blackhole 10.77.0.4
  ip -n task3 route "$1" blackhole 10.77.0.1
}
split() { routes add; }
join() { routes del; }
disturbed split split join "/job:"
