#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# first.sh [--tiny] [--minutes M] [--python PYTHON]: the first minutes of Tenon on a machine with a GPU. From an unpacked gpu-kit.
#
# Looks at what there is, runs the tests in order, measures products, launches and three steps of each large network, beside PyTorch where
# PYTHON (python3) has it, and writes results/page.md: what came out, and what each line means. Each part has a limit of its own, all of them together,
# with what is looked for before and between them, M minutes (9.5); what there is no time for is said to be left out. Ends with 0 where everything that
# ran has passed and nothing was left out.
# --tiny: tiny networks and matrices, for a GPU that is emulated.
set -u
begin=$SECONDS
kit=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tiny="" minutes=9.5 python=python3
while (($#)); do
  case $1 in
    --tiny) tiny=1 ;;
    --minutes) minutes=$2 && shift ;;
    --python) python=$2 && shift ;;
    *) sed -n '3,10s/^# \?//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
  esac
  shift
done
seconds=$(awk -v m="$minutes" 'BEGIN { s = m * 60; if (s <= 0) exit 1; printf "%d", s }') || { echo "first.sh: --minutes $minutes is no positive number" >&2; exit 2; }
# What takes longest on a card is given its limit there; slower ones are given more of the whole.
slower=$(awk -v s="$seconds" 'BEGIN { f = s / 570; printf "%.3f", f < 1 ? 1 : f }')

results=$kit/results
rm -rf "$results" && mkdir -p "$results" || exit 1
page=$results/page.md
plugin=$(cat "$kit/plugin")
# Some systems allow no program in the folder where a kit was unpacked.
build=$kit/tree/build/release
cd "$kit/tree" || exit 1
source tests/gpu/built_tree.sh build/release || exit 1

# ---- Libraries ----

# Those of Debian serve where the machine has none of the name; the C++ library, where its own is too old for the programs.
own=$results/debian
mkdir -p "$own"
for file in debian/*; do
  name=$(basename "$file")
  [[ $name == libstdc++.so.6 || $name == libgcc_s.so.1 ]] && continue
  ldconfig -p 2>/dev/null | grep -qF "$name " || ln -s "$PWD/$file" "$own/$name"
done
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$own
if ! timeout -k 1 10 "$build/bin/tenon" --version >"$results/start.log" 2>&1; then
  for name in libstdc++.so.6 libgcc_s.so.1; do ln -sf "$PWD/debian/$name" "$own/$name"; done
  if ! timeout -k 1 10 "$build/bin/tenon" --version >"$results/start.log" 2>&1; then
    echo "The programs do not start here; glibc 2.36 or newer is what they need:" >&2
    cat "$results/start.log" >&2
    exit 1
  fi
fi
# The vendor's, as Python packages bring them.
while IFS= read -r folder; do
  export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder
done < <(timeout -k 1 20 "$python" - 2>/dev/null <<'PY'
import glob, site, sys
folders = {*site.getsitepackages(), site.getusersitepackages(), *sys.path}
print(*sorted({each for folder in folders for each in glob.glob(folder + "/nvidia/*/lib")}), sep="\n")
PY
)

# ---- The page ----

bad=0
{
  echo "# The first minutes on $plugin"
  echo
  echo "| | result | seconds | what it means |"
  echo "| --- | --- | --- | --- |"
} >"$page"
line() { printf '| %s | %s | %s | %s |\n' "$1" "$2" "$3" "$4" >>"$page" && printf '%-44s %s (%s s)\n' "$1" "$2" "$3"; }

# part NAME LIMIT MEANING COMMAND...: runs it with a limit; its output goes into results/NAME.log. The result is what `said NAME` makes of it.
part() {
  # Five are kept for one that has to be killed.
  local name=$1 limit meaning=$3 left=$((seconds - (SECONDS - begin) - 5)) from=$SECONDS code
  limit=$(awk -v l="$2" -v s="$slower" 'BEGIN { printf "%d", l * s }')
  shift 3
  ((limit = limit < left ? limit : left))
  if ((limit < 3)); then
    bad=1 && line "$name" "left out: no time" 0 "$meaning"
    return 1
  fi
  timeout -k 5 "$limit" "$@" >"$results/$name.log" 2>&1
  code=$?
  if ((code == 0)); then
    line "$name" "$(said "$name")" $((SECONDS - from)) "$meaning"
  elif ((code == 124 || code == 137)); then
    bad=1 && line "$name" "**not done in $limit s**, see $name.log" $((SECONDS - from)) "$meaning"
  else
    bad=1 && line "$name" "**failed** ($code), see $name.log: $(grep -v '^ *$' "$results/$name.log" | tail -1 | tr '|' '/' | cut -c1-160)" $((SECONDS - from)) "$meaning"
  fi
}
# Numbers of the JSON lines that gpu_bench prints.
field() { sed -n "s/.*\"$2\": *\([-0-9.e+]*\).*/\1/p;s/.*\"$2\":\([-0-9.e+]*\).*/\1/p" "$results/$1.log" | sort -u | tail -"${3:-1}" | paste -sd' '; }
said() {
  case $1 in
    products_*) echo "$(field "$1" tflops) TFLOP/s" ;;
    launches) grep -o '"nodes":[0-9]*\|"median_ms":[0-9.e-]*\|"capture":[a-z]*' "$results/$1.log" | sed 's/"//g' | paste -sd' ' ;;
    copies) grep -o '"bytes":[0-9]*\|"\(to\|from\|on\)_device_gbs":[0-9.e+-]*' "$results/$1.log" | sed 's/"//g' | paste -sd' ' ;;
    steps_*) echo "$(field "$1" median_ms) ms; captured launches $(field "$1" captured_launches_a_step), waits of the host $(field "$1" host_waits_a_step)" ;;
    libraries) grep -o 'cuBLASLt [0-9.]*[^;]*\|cuBLASLt: .*\|cuDNN [0-9.]*\|cuDNN: .*\|NVRTC [0-9.]*\|chains are not compiled.*' "$results/$1.log" | sort -u | paste -sd';' | tr '|' '/' | cut -c1-300 ;;
    devices) grep -E 'GPU:[0-9]' "$results/$1.log" | tr -s ' ' | paste -sd';' | tr '|' '/' ;;
    pytorch) grep -o 'Tenon: [^;]*\|PyTorch [^;]*' "$results/$1.log" | paste -sd';' | cut -c1-300 ;;
    *) grep -o '\[  PASSED  \] [0-9]* tests\|All passed.*' "$results/$1.log" | tail -1 | grep . || echo passed ;;
  esac
}

# ---- What there is ----

device=/device:GPU:0
if command -v nvidia-smi >/dev/null; then timeout -k 1 20 nvidia-smi >"$results/nvidia-smi.log" 2>&1; fi
part devices 30 "The driver was opened, and a GPU is offered. Without one everything below is pointless: the log says what is missing." "$build/bin/tenon" devices
if ! grep -Eq "GPU:0 +GPU +$plugin " "$results/devices.log"; then
  bad=1
  echo "$plugin has no device here: " && cat "$results/devices.log"
  cat "$results/devices.log" >>"$page"
  exit 1
fi
size() { if [[ -n $tiny ]]; then echo "$1"; else echo "$2"; fi; }
export TENON_TEST_GPU=$plugin TENON_TESTED_PLUGIN=$build/lib/tenon/plugins/${plugin/./_}.so
part libraries 60 "Which of cuBLASLt, cuDNN and NVRTC were found. One that is missing is replaced by slower code: put the nvidia/*/lib folders of Python packages, or the toolkit's lib64, on LD_LIBRARY_PATH." \
  "$build/bin/gpu_bench" train --network alexnet --tiny --device "$device" --losses 2 --seconds 0 --log info

# ---- Tests ----

# What only an emulated GPU can do is left out, as in tests/gpu/test_gpu.sh.
filter=$(sed -n "s/^emulated='\(.*\)'$/\1/p" tests/gpu/test_gpu.sh)
part kernels 120 "Queues, timelines, memory, and every kernel against the CPU's. A failure names the op; a hang here is one of streams that wait for words." \
  "$build/tests/bin/gpu_test" --gtest_brief=1 --gtest_filter="$filter"
part captures 40 "Work that is the same in each step becomes one launch. A failure: captured graphs do not do what the kernels do." "$build/tests/bin/capture_test" --gtest_brief=1
part attention 60 "Attention as one launch gives what its kernels give. A failure: device code of tensor cores differs from what it was tested as." "$build/tests/bin/gpu_attention_test" --gtest_brief=1
part attention_gradients 60 "Gradients of attention as two launches give what their kernels give. A failure beside a good part before: device code differs from what it was tested as." "$build/tests/bin/gpu_attention_gradient_test" --gtest_brief=1
part chains 60 "Chains of element-wise nodes are compiled on this machine. A failure: NVRTC's code differs, or it was not found." "$build/tests/bin/gpu_chain_test" --gtest_brief=1
part goldens 90 "Whole graphs give TensorFlow's recorded numbers." "$build/tests/bin/golden_cases_test" --gtest_brief=1 --gtest_filter='*OnAGpu*'
part random_graphs 45 "Random graphs, placed in random ways, give one device's bits." "$build/tests/bin/random_placement_test" --gtest_brief=1 --gtest_filter='*OnGpus*'
part dlpack 20 "Memory of other libraries is used where it lies." "$build/tests/bin/dlpack_test" --gtest_brief=1 --gtest_filter='*OnAGpu*'
part training 40 "Training on the GPU gives the CPU's losses." "$build/tests/bin/train_devices_test" --gtest_brief=1 --gtest_filter='*OnAGpu*'

# ---- Measurements ----

for precision in strict tf32 bfloat16; do
  part "products_$precision" 25 "Of an H200: 50 TFLOP/s float32, 400 TF32 are good. A tenth of that under tf32 or bfloat16: no tensor cores, so look for refusals of cuBLASLt in the log." \
    "$build/bin/gpu_bench" products --device "$device" --side "$(size 128 8192)" --count "$(size 2 8)" --seconds "$(size 0.1 1)" --precision "$precision" --log info
done
part launches 40 "Milliseconds of a step of so many tiny kernels: captured it should hardly grow, at 10 us a launch; one by one at some us a node." \
  "$build/bin/gpu_bench" launches --device "$device" --nodes $(size "1 10" "1 100 1000") --seconds "$(size 0.1 0.5)"
part copies 40 "GB/s to, from and on the device. From pageable memory 5 to 12 are usual." "$build/bin/gpu_bench" copies --device "$device" --bytes $(size "4096" "4096 67108864") --seconds "$(size 0.1 0.5)"
for network in resnet50 bert_base lstm; do
  part "steps_$network" 60 "A training step. No captured launches: its graphs were refused, and the log says why. More than one wait of the host a step: something is read back." \
    "$build/bin/gpu_bench" train --network "$network" --device "$device" $(size --tiny "") --losses 3 --seconds "$(size 0.05 0.5)" --log info
done
left=$((seconds - (SECONDS - begin) - 5))
if ((left < 3)) || timeout -k 1 "$((left < 30 ? left : 30))" "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  part pytorch 120 "The same steps beside PyTorch, with its first weights the same; bench_gpu.md in this folder has the table." \
    tests/perf/gpu/bench_gpu.sh build/release "$plugin" --python "$python" --quick --only resnet50 --only bert_base --only lstm --modes eager --seconds 0.3 --out "$results" --limit 60
else
  line pytorch "left out: $python has no PyTorch that sees a GPU" 0 "Nothing is compared; --python names another one."
fi

{
  echo
  echo "Times are of this machine and this run alone. Logs lie beside this page. Total: $((SECONDS - begin)) s."
} >>"$page"
echo "$page"
exit $bad
