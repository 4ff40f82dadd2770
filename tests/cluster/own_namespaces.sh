# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For bash: a test that runs in namespaces of its own (network, processes, mounts, host name), which is gone with all that it started when
# it ends.

PATH=$PATH:/usr/sbin:/sbin

skip() {
  echo "SKIPPED LOUDLY: $1"
  exit 77
}
fail() {
  echo "FAILED: $1"
  exit 1
}
need() {  # PACKAGE PROGRAM...
  local package=$1 program
  shift
  for program in "$@"; do command -v "$program" >/dev/null || skip "there is no $program here (package $package)"; done
}

# Runs this test again in its own namespaces, with TENON_IN_NAMESPACE set to a folder that is removed afterwards, and ends as it ends.
# There this host is called HOST_NAME (localhost), which means 127.0.1.1, as Debian writes it, where it is another name. As another user than root it is root in a namespace of users, where the system allows that.
enter_own_namespaces() {
  need iproute2 ip
  local own=(unshare --net --pid --mount --uts --fork --kill-child --mount-proc) folder
  ((EUID == 0)) || own+=(--user --map-root-user)
  "${own[@]}" ip link add here type veth peer name there 2>/dev/null || skip "this user may make no namespaces (${own[*]})"
  folder=$(mktemp -d /tmp/tenon_test_XXXXXX)
  # shellcheck disable=SC2064  # of now
  trap "rm -rf '$folder'" EXIT
  TENON_IN_NAMESPACE=$folder "${own[@]}" timeout 280 env HOST_NAME="${HOST_NAME:-localhost}" bash -c '
    hostname "$HOST_NAME"; ip link set lo up
    if [[ $HOST_NAME != localhost ]]; then
      printf "127.0.0.1 localhost\n127.0.1.1 %s\n" "$HOST_NAME" >"$TENON_IN_NAMESPACE/hosts" && mount --bind "$TENON_IN_NAMESPACE/hosts" /etc/hosts
    fi
    exec bash "$@"' bash "$0" "$@"
  exit
}
