# SPDX-License-Identifier: Apache-2.0
# For scripts that run what was built elsewhere: `source tests/gpu/built_tree.sh BUILD`, in the root of the tree.
#
# Sets root and build. The programs know the path of their tree; where it was built under another, a link is made there.
root=$PWD
build=$root/$1

built_at=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" 2>/dev/null)
if [[ -z $built_at ]]; then
  echo "$build holds no build: run 'make build GPU=1' here or where there is a compiler, and bring the folder along." >&2
  exit 1
fi
if [[ $built_at != "$root" ]]; then
  if [[ ! -e $built_at ]]; then mkdir -p "$(dirname "$built_at")" && ln -s "$root" "$built_at"; fi
  if [[ ! $built_at -ef $root ]]; then
    echo "The tree was built at $built_at, which is something else on this machine." >&2
    exit 1
  fi
fi
export LD_LIBRARY_PATH=$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
