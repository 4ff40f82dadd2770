#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench_gpu.sh BUILD PLUGIN ...: bench_gpu.py with programs that are built already, here or elsewhere. What follows is bench_gpu.py's.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
source tests/gpu/built_tree.sh "$1"
plugin=$2
shift 2
exec python3 tests/perf/gpu/bench_gpu.py --build "$build" --plugin "$plugin" "$@"
