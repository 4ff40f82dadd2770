#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_packages.sh FILE...: installs the Debian packages that the files name (packages.txt) and that are missing; quick and silent when
# none is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

((${#})) || { echo "usage: tools/install_packages.sh packages.txt [packages-all.txt]" >&2; exit 2; }
mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$@")

if ! command -v dpkg-query >/dev/null; then
  echo "This is not a Debian system, so nothing was installed. Tenon needs what Debian calls:" >&2
  echo "  ${wanted[*]}" >&2
  exit 0
fi

# Prints the wanted packages that are not installed. dpkg-query fails when it does not know one.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
    sed -n 's/^installed //p') || true
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) <(sort -u <<<"$installed")
}

mapfile -t missing < <(missing_packages)
((${#missing[@]})) || exit 0

install=(apt-get install -y --no-install-recommends "${missing[@]}")

refuse() {
  echo "Packages are missing: ${missing[*]}" >&2
  echo "$1 As root, run:" >&2
  echo "  apt-get update && ${install[*]}" >&2
  exit 1
}

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null || refuse "They cannot be installed: this user is not root and there is no sudo."
  # Without a terminal sudo cannot ask for a password and must not wait for one.
  [[ -t 0 ]] || sudo -n true 2>/dev/null || refuse "They cannot be installed: sudo needs a password and there is no terminal."
  as_root=(sudo)
fi

echo "Installing: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
if ! "${as_root[@]}" "${install[@]}" >&2; then
  # The package lists may be absent or old.
  "${as_root[@]}" apt-get update >&2 || refuse "'apt-get update' failed (see above)."
  "${as_root[@]}" "${install[@]}" >&2 || refuse "'apt-get install' failed (see above)."
fi
mapfile -t missing < <(missing_packages)
((${#missing[@]} == 0)) || refuse "apt-get said that it succeeded, but they are still not installed."
