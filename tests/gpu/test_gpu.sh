#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_gpu.sh BUILD PLUGIN: runs on a GPU what `make test-gpu-emulated` runs on the emulated one, with programs that are built already.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/gpu/built_tree.sh "$1"
plugin=$2

if ! "$build/bin/tenon" devices | grep -Eq "GPU:0 +GPU +$plugin "; then
  echo "$plugin has no device here:" >&2
  "$build/bin/tenon" devices >&2
  exit 1
fi
"$build/bin/tenon" devices

export TENON_TEST_GPU=$plugin
library=$build/lib/tenon/plugins/${plugin/./_}.so
failed=()
run() {
  echo "== $1"
  shift
  "$@" || failed+=("$*")
}
# What only the emulation can do: being lost or out of memory when told to, having no device when none is asked for, having two of them.
emulated='-Driver.HasNoDeviceUnlessItIsAskedForOne:*Lost*:*RefusedOnce*:*BetweenDevices*:CollectiveTable.*'
run "the device and its kernels" env TENON_TESTED_PLUGIN="$library" "$build/tests/bin/gpu_test" --gtest_brief=1 --gtest_filter="$emulated"
run "captured graphs" "$build/tests/bin/capture_test" --gtest_brief=1
run "attention as one launch" "$build/tests/bin/gpu_attention_test" --gtest_brief=1
run "gradients of attention as two" "$build/tests/bin/gpu_attention_gradient_test" --gtest_brief=1
run "compiled chains" "$build/tests/bin/gpu_chain_test" --gtest_brief=1
run "TensorFlow's goldens" "$build/tests/bin/golden_cases_test" --gtest_brief=1 --gtest_filter='*OnAGpu*'
run "random graphs" "$build/tests/bin/random_placement_test" --gtest_brief=1 --gtest_filter='*OnGpus*'
run "memory of other libraries" "$build/tests/bin/dlpack_test" --gtest_brief=1 --gtest_filter='*OnAGpu*'
run "training" "$build/tests/bin/train_devices_test" --gtest_brief=1 --gtest_filter='*OnAGpu*'
run "networks that learn a batch by heart" "$build/bin/gpu_bench" check --device /device:GPU:0
# An emulated GPU takes 0.1 s for a step.
run "the main job" "$build/bin/tenon" train digits --folder "$build/digits_on_gpu" --restart --device /device:GPU:0 ${TENON_EMULATED_GPUS:+--steps 200}
if ((${#failed[@]})); then
  printf 'failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "All passed on $plugin."
