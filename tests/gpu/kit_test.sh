#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kit_test.sh BUILD DRIVER: packs a kit of the build, unpacks it elsewhere, and runs its first.sh on the emulated driver of the folder DRIVER.
#
# The kit stands where the tree is, so that what it lacks is missed; that needs a mount of this process's own. 77: the system allows none.
set -eu
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
build=$1 driver=$2
if ! unshare --user --map-root-user --mount true 2>/dev/null; then
  echo "This system lets no process have mounts of its own: the kit cannot stand in the tree's place." >&2
  exit 77
fi
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -B tools/gpu_kit/pack.py --build "$build" --out "$place/gpu-kit.tar.gz"
tar xf "$place/gpu-kit.tar.gz" -C "$place"
tree=$place/gpu-kit/tree
# What only an emulated GPU needs: its driver, and what its compiler of chains includes.
cp -rP "$driver" "$place/driver"  # two names of one library
mkdir -p "$tree/devices" "$tree/sdk/author/plugin" "$tree/sdk/author/extras" "$tree/plugin_api" "$tree/build/release/tests/plugins"
cp -r devices/gpu "$tree/devices/"
cp -r sdk/author/plugin/include "$tree/sdk/author/plugin/"
cp -r sdk/author/extras/include "$tree/sdk/author/extras/"
cp -r plugin_api/include "$tree/plugin_api/"
if [[ -d $build/devices/gpu/precompiled ]]; then
  mkdir -p "$tree/build/release/devices/gpu"
  cp -r "$build/devices/gpu/precompiled" "$tree/build/release/devices/gpu/"
fi
cp "$build/tests/plugins/libtenon_gpu_emulated_observer.so" "$place/driver/"
# Whether the kit holds what its programs need, a fifth of each one's tests shows; all of them run in the tree itself (test_gpu.sh).
export GTEST_TOTAL_SHARDS=5 GTEST_SHARD_INDEX=0
code=0
unshare --user --map-root-user --mount bash -c 'mount --bind "$1" "$2" && cd "$1" && exec env LD_LIBRARY_PATH="$3" "$4/first.sh" --tiny --minutes 40 --python /nowhere' \
  kit "$tree" "$root" "$place/driver" "$place/gpu-kit" || code=$?
cat "$place/gpu-kit/results/page.md"
for part in devices libraries kernels captures chains goldens random_graphs dlpack training products_strict products_tf32 products_bfloat16 launches copies \
            steps_resnet50 steps_bert_base steps_lstm; do
  if ! grep -q "^| $part | [^*]* | [0-9]* | .* |\$" "$place/gpu-kit/results/page.md"; then
    echo "The page has no good line of $part:" >&2
    tail -5 "$place/gpu-kit/results/$part.log" >&2 || true
    code=1
  fi
done
exit $code
