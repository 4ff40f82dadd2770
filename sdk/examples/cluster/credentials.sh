#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes credentials for a cluster whose tasks are on several hosts: credentials.sh FOLDER HOST...
#
# FOLDER/credentials.json is for `--credentials` of workers and clients alike: an authority of its own that signs one certificate for all
# hosts, which both sides must show (mutual TLS), and a token. Whoever has the folder may run any graph on the cluster: keep it as a key.
set -euo pipefail

if (($# < 2)); then
  echo "usage: credentials.sh FOLDER HOST..." >&2
  exit 2
fi
umask 077
mkdir -p "$1"
cd "$1"
shift
names=
for host in "$@"; do
  if [[ $host =~ ^[0-9.]+$|: ]]; then names+=${names:+,}IP:$host; else names+=${names:+,}DNS:$host; fi
done

openssl req -x509 -newkey ed25519 -nodes -days 365 -subj "/CN=tenon cluster" -keyout authority.key -out authority.pem
openssl req -newkey ed25519 -nodes -subj "/CN=tenon task" -keyout task.key -out task.csr
openssl x509 -req -in task.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 365 -out task.pem \
  -extfile <(echo "subjectAltName=$names")
rm -f task.csr authority.srl
cat >credentials.json <<END
{"tls": {"certificate": "$PWD/task.pem", "key": "$PWD/task.key", "authority": "$PWD/authority.pem", "mutual": true},
 "token": "$(openssl rand -hex 32)"}
END
