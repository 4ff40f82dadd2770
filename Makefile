# SPDX-License-Identifier: Apache-2.0
# The front door. `make run`, `make test` and `make build` install what they need, build, and go.

PRESET ?= release
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)

.PHONY: run test benchmarks test-slow check test-gpu-emulated test-outside test-gpu bench-gpu gpu-kit build configure packages variants wheel wheel-tree wheel-test clean format fuzz-golden crossings help

help: ## Show this list.
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 18

# DEVICES=tpu_sim:2 adds simulated devices, places the graph over all of them, and draws a step.
RUN_DEVICES := $(foreach device,$(DEVICES),--devices $(device))

# What the job does not need is not built for it; a folder that has all of it stays as it is, but for what a GPU needs.
RUN_TARGETS := job $(foreach device,$(DEVICES),tenon_$(firstword $(subst :, ,$(device))))
RUN_ON_GPU := $(filter cuda:% rocm:%,$(DEVICES))
NOT_FOR_RUN := -DTENON_TESTS=OFF -DTENON_PERF=OFF -DTENON_GPU=OFF -DTENON_GRPC=OFF -DTENON_PYTHON_PACKAGE=OFF
RUN_MINUTES := $(shell echo $$((1 + 8 / $(JOBS))))

run: ## Build what the job needs, then train a network on handwritten digits (DEVICES=tpu_sim:2: on simulated devices too).
	@tools/install_packages.sh packages.txt $(if $(RUN_ON_GPU),packages-all.txt)
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET) $(NOT_FOR_RUN)
	$(if $(RUN_ON_GPU),@cmake $(BUILD) -DTENON_GPU=ON >/dev/null)
	@[ -x $(BUILD)/bin/tenon ] || echo "Building what the job needs: some $(RUN_MINUTES) minutes with $(JOBS) at once, the first time." >&2
	cmake --build $(BUILD) -j $(JOBS) --target $(RUN_TARGETS)
	$(BUILD)/bin/tenon train digits $(if $(DEVICES),--folder $(BUILD)/digits_on_devices --restart --timeline $(RUN_DEVICES),--folder $(BUILD)/digits)

build: configure ## Build everything into build/release, laid out like an install prefix (GPU=1: the plugins of CUDA and ROCm too, and their tests).
	cmake --build $(BUILD) -j $(JOBS)

# Runs tests, two at once, and says which took longest.
RUN_TESTS = ctest --test-dir $(BUILD) --output-on-failure -j2 --output-junit tests.xml $(1); code=$$?; \
  python3 -B tools/slowest_tests.py $(BUILD)/tests.xml; exit $$code

test: build ## Build without GPUs, then run every test but those of GPUs and of `make test-slow` (GPU=1: those of GPUs too); the slowest are told at the end.
	@$(call RUN_TESTS,-LE slow)

benchmarks: configure ## Build the benchmarks into build/release/bin (tests/perf), which the other commands do not.
	cmake --build $(BUILD) -j $(JOBS) --target benchmarks

test-slow: build ## The tests of which `make test` runs a sample, whole.
	@$(call RUN_TESTS,-L slow)

# The lane of GPUs: in the same folder, since most of what it needs is built there for `make test`; device code is compiled once, and kept while the folder is without
# GPUs. What it passed with is kept in .ci/gpu_lane.txt, of the preset that is shipped.
test-gpu-emulated: packages ## Build the plugins of GPUs too, and run every test that needs them, on emulated GPUs (.ci/run does where what they test has changed).
	@mkdir -p $(BUILD)
	@! git rev-parse --git-dir >/dev/null 2>&1 || python3 -B tools/gpu_lane.py state >$(BUILD)/gpu_lane.txt
	$(MAKE) build GPU=1
	ctest --test-dir $(BUILD) --output-on-failure -j2 -L '^gpu$$'
	$(if $(filter release,$(PRESET)),@[ ! -f $(BUILD)/gpu_lane.txt ] || python3 -B tools/gpu_lane.py passed $(BUILD))

check: ## Build and run the tests that what you changed can touch, the nearest first, of a folder that is built (SINCE=commit, PRESET).
	python3 -B tools/check.py $(BUILD) --since $(or $(SINCE),HEAD) --jobs $(JOBS)

test-outside: packages ## Unit tests of what reads what strangers give (graphs, models, checkpoints, arrays, plugins), under two sanitizers.
	cmake --preset outside
	cmake --build build/outside -j $(JOBS) --target outside_programs
	ctest --test-dir build/outside --output-on-failure -j2 -L outside

# A tree that was built elsewhere will do: only built files, the driver and the vendor's libraries are needed.
GPU_PLUGIN ?= tenon.cuda

test-gpu: ## On a machine with a GPU: devices, kernels, goldens, random graphs, networks and the main job on it (GPU_PLUGIN=tenon.rocm; PRESET as built).
	tests/gpu/test_gpu.sh $(BUILD) $(GPU_PLUGIN)

PYTHON ?= python3

bench-gpu: ## On a machine with a GPU: training, launches, products and copies, beside PyTorch where PYTHON has it (BENCH="--quick").
	tests/perf/gpu/bench_gpu.sh $(BUILD) $(GPU_PLUGIN) --python $(PYTHON) $(BENCH)

# Of a build that is there already (make build GPU=1): packing asks for no GPU and no toolkit.
gpu-kit: ## Pack what test-gpu and bench-gpu need, and first.sh, for a machine that has a GPU alone: build/gpu-kit.tar.gz, 60 MiB at most.
	python3 -B tools/gpu_kit/pack.py --build $(BUILD) --plugin $(GPU_PLUGIN) --out build/gpu-kit.tar.gz

SEEDS ?= $(shell date +%s)
COUNT ?= 2000
LOSSES ?= 125

fuzz-golden: configure ## Fresh cases of ops against TensorFlow (SEEDS="1 2" COUNT=2000 PYTHON=one that has TensorFlow).
	cmake --build $(BUILD) -j $(JOBS) --target golden_replay
	$(PYTHON) tests/golden/fuzz.py --replay $(BUILD)/tests/bin/golden_replay --folder $(BUILD)/fuzz --count $(COUNT) $(SEEDS)

# Programs whose findings are left out by tests/crossings/left_out.h run too with CROSSINGS="--all"; CROSSINGS="--shrink --write FOLDER" makes small ones of what is found.
crossings: configure ## Fresh programs that cross features, each in every manner (SEEDS="1 2" COUNT=2000 CROSSINGS="--shrink"; PYTHON=one that has TensorFlow: it runs them too, and judges losses of LOSSES=125 seeds).
	cmake --build $(BUILD) -j $(JOBS) --target crossings
	$(BUILD)/tests/bin/crossings --seeds $(SEEDS) --count $(COUNT) --jobs $(JOBS) --processes $(CROSSINGS)
	@if $(PYTHON) -c 'import tensorflow' 2>/dev/null; then tests/crossings/ask_tensorflow.sh $(BUILD)/tests/bin/crossings $(BUILD)/crossings "$(SEEDS)" $(COUNT) $(PYTHON) && \
	cmake --build $(BUILD) -j $(JOBS) --target tenon_python && tests/crossings/judge_losses.sh $(BUILD) $(firstword $(SEEDS)) $(LOSSES) $(PYTHON); \
	else echo "$(PYTHON) has no TensorFlow, which would have run the programs too."; fi

variants: configure ## Build the CPU device for every x86-64 level (v2, v3, v4).
	cmake --build $(BUILD) -j $(JOBS) --target variants

# What every wheel shares is built once, for all machines, and installed stripped; of each Python there is its module alone.
WHEEL := build/wheel
PYTHONS ?=

wheel: wheel-tree ## Build Python wheels into build/wheel/dist, for every Python at hand (PYTHONS="python3.12 /path/of/python3.13"; GPU=1: those of CUDA and ROCm too).
	python3 -B sdk/app/python/wheel/build.py --prefix $(WHEEL)/prefix --work $(WHEEL) --dist $(WHEEL)/dist --pythons "$(PYTHONS)" $(if $(GPU),--gpu)

# A wheel has a limit: what a batch of sources has and nobody calls is left out.
ONLY_CALLED = "-DCMAKE_CXX_FLAGS=-ffunction-sections -fdata-sections" $(foreach of,EXE SHARED MODULE,-DCMAKE_$(of)_LINKER_FLAGS=-Wl,--gc-sections)

wheel-tree: packages
	cmake -S . -B $(WHEEL)/tree -G Ninja -DCMAKE_BUILD_TYPE=Release -DTENON_TESTS=OFF -DTENON_PERF=OFF -DTENON_GPU=$(if $(GPU),ON,OFF) -DTENON_PYTHON_PACKAGE=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=16 \
	  -DTENON_CPU_LEVEL=v2 -DTENON_CPU_VARIANTS=ON $(ONLY_CALLED)
	cmake --build $(WHEEL)/tree -j $(JOBS)
	rm -rf $(WHEEL)/prefix
	cmake --install $(WHEEL)/tree --strip --prefix $(WHEEL)/prefix >/dev/null

wheel-test: ## Install the wheels of build/wheel/dist into fresh environments, use all that they bring, and uninstall them (PYTHONS as for wheel).
	python3 -B sdk/app/python/wheel/test.py --dist $(WHEEL)/dist --work $(WHEEL)/test --pythons "$(PYTHONS)"

# A folder keeps what it has of GPUs, but for what `make test` asks. CMAKE_OPTIONS=-DTENON_GRPC=OFF, and the like, are said again each time.
WITH_GPU = $(if $(GPU),-DTENON_GPU=ON)
test: WITH_GPU = -DTENON_GPU=$(if $(GPU),ON,OFF)

configure: packages
	cmake --preset $(PRESET) $(WITH_GPU) $(CMAKE_OPTIONS)

packages:
	@tools/install_packages.sh packages.txt packages-all.txt

clean: ## Remove every build folder.
	rm -rf build

format: ## Format the C and C++ sources with clang-format.
	@command -v clang-format >/dev/null || { echo "clang-format is missing: apt-get install clang-format" >&2; exit 1; }
	git ls-files -z '*.h' '*.c' '*.cc' '*.cu' | xargs -0 -r clang-format -i
