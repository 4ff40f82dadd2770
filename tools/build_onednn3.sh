#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build_onednn3.sh FOLDER [SOURCE]: oneDNN 3.7, static, without threads of its own and with what devices/cpu_onednn calls alone, for cmake -DTENON_ONEDNN3=FOLDER.
# SOURCE: a folder with Debian's two tarballs; else they are fetched (10 MB). Compiles for half an hour of two cores; begun again it goes on where it ended, and is quick
# when all is there. Needs cmake, ninja, g++, patch, xz and, without SOURCE, curl. JOBS=N: so many compilers at once.
set -euo pipefail

((${#} == 1 || ${#} == 2)) || { echo "usage: tools/build_onednn3.sh FOLDER [SOURCE]" >&2; exit 2; }
fail() { echo "build_onednn3.sh: $*" >&2; exit 1; }
for program in cmake ninja g++ patch xz sha256sum; do
  command -v "$program" >/dev/null || fail "there is no $program: apt-get install cmake ninja-build g++ patch xz-utils coreutils"
done
mkdir -p "$1"
folder=$(realpath "$1")
source=${2:-}
work=$folder/work

# Debian 13's: the library without the logging that Debian took out, which is off here, and what Debian mends in it.
archive=http://deb.debian.org/debian/pool/main/o/onednn
names=(onednn_3.7.2+ds.orig.tar.xz onednn_3.7.2+ds-2.debian.tar.xz)
sums=(0cc51ca26c1af6a2bb1e71e378e7046f3ceb3e71791ee9d4e246d50f904a6ea6 db6b5144773b4f5b152a0138cba74af39124d59285975db7f2c220e992dcd2d4)

# Leaves the tarball NAME of SUM in $work; never one of another sum.
take() {
  local name=$1 sum=$2 file=$work/$1
  if ! sha256sum --check --status <<<"$sum  $file" 2>/dev/null; then
    if [[ -n $source ]]; then
      cp -- "$source/$name" "$file" || fail "$source has no $name"
    else
      command -v curl >/dev/null || fail "there is no curl: apt-get install curl, or name a folder with ${names[*]}"
      curl --fail --silent --show-error --location --retry 2 --output "$file" "$archive/$name" || fail "$archive/$name could not be fetched"
    fi
    sha256sum --check --status <<<"$sum  $file" || { rm -f -- "$file"; fail "$name is another than the one that was meant: its sha256 is not $sum"; }
  fi
}

mkdir -p "$work"
for i in 0 1; do take "${names[i]}" "${sums[i]}"; done
if [[ ! -f $work/source/patched ]]; then
  rm -rf "$work/source" "$work/debian"
  mkdir "$work/source"
  tar -xf "$work/${names[0]}" -C "$work/source" --strip-components=1
  tar -xf "$work/${names[1]}" -C "$work" debian/patches
  patch --silent --strip=1 --directory="$work/source" <"$work/debian/patches/upstream-3.7.3.patch"
  touch "$work/source/patched"
fi

launcher=()
command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
cmake -G Ninja -S "$work/source" -B "$work/build" "${launcher[@]}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR=lib \
  -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DONEDNN_LIBRARY_TYPE=STATIC -DONEDNN_CPU_RUNTIME=SEQ -DONEDNN_GPU_RUNTIME=NONE \
  "-DONEDNN_ENABLE_PRIMITIVE=CONVOLUTION;MATMUL;POOLING;RNN;REORDER" -DONEDNN_ARCH_OPT_FLAGS= -DONEDNN_ENABLE_JIT_PROFILING=OFF -DONEDNN_ENABLE_ITT_TASKS=OFF \
  -DONEDNN_BUILD_GRAPH=OFF -DONEDNN_BUILD_TESTS=OFF -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_DOC=OFF >"$work/cmake.log" 2>&1 || fail "cmake failed, see $work/cmake.log"
begin=$SECONDS
ninja -C "$work/build" ${JOBS:+-j"$JOBS"} install >"$work/ninja.log" 2>&1 || fail "the build failed, see $work/ninja.log"
echo "oneDNN 3.7.2 is in $folder, compiled in $((SECONDS - begin)) s. Next: cmake --preset release -DTENON_ONEDNN3=$folder"
