// SPDX-License-Identifier: Apache-2.0
// Random graphs, their nodes placed at random over the CPU and two simulated TPUs, or two GPUs, give what they mean: in
// straight code and in the dynamic executor, with completions delayed and queues served out of turn, fed from and
// fetched into the memory of any of them. Covers G5, H1, H2, L7, R4.
//
// A graph takes a tenth of a second and more: it is placed, parted and run in six ways, each a session, on devices
// whose work is late on purpose.
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tests/device/gpu.h"
#include "tests/engine/random_graph.h"
#include "tests/fakes/whole.h"

namespace tenon::engine::random_placement_test {
namespace {

uint32_t Number(const char* variable, uint32_t otherwise) {
  const char* wished = std::getenv(variable);
  return wished == nullptr ? otherwise : static_cast<uint32_t>(std::atoi(wished));
}
// Of each kind; TENON_RANDOM_PLACEMENTS=3000 tries more, TENON_RANDOM_FIRST=215 begins there.
uint32_t Graphs() { return Number("TENON_RANDOM_PLACEMENTS", fakes::IsWhole() ? 300 : 80); }
uint32_t First() { return Number("TENON_RANDOM_FIRST", 0); }

Runtime& RuntimeOf(bool disturbed) {
  const auto make = [](bool late) {
    RuntimeOptions options;
    options.plugin_options = {{"tenon.tpu_sim", "devices", "2"},
                              {"tenon.tpu_sim", "precision", "exact"},
                              {"tenon.tpu_sim", "guard", "true"},
                              {"tenon.tpu_sim", "cores", "2"}};
    if (late) options.plugin_options.push_back({"tenon.tpu_sim", "delay_completion_us", "30"});
    options.plugin_options.push_back({"tenon.tpu_sim", "seed", "7"});
    auto made = Runtime::Create(options);
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      std::abort();  // NOLINT: nothing can be tested without a runtime
    }
    return new Runtime(std::move(*made));
  };
  static Runtime* const quick = make(false);
  static Runtime* const late = make(true);
  return disturbed ? *late : *quick;
}

Runtime& Gpus() {
  static Runtime* const runtime = [] {
    auto made = Runtime::Create(device_test::GpuOptions(2));
    if (!made.ok()) {
      ADD_FAILURE() << made.status().message();
      std::abort();  // NOLINT
    }
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

// A card's machine may have one alone.
bool HasTwoGpus() {
  const auto devices = Gpus().Devices();
  return std::any_of(devices.begin(), devices.end(), [](const auto& each) {
    return std::string_view(each.name.data, each.name.size).ends_with("GPU:1");
  });
}

std::vector<Way> WaysOf(const std::string& type) {
  const std::string last = type + (type == "TPU" || HasTwoGpus() ? ":1" : ":0");
  std::vector<Way> ways = {{"straight"}, {"unoptimized"},       {"dynamic"},
                           {"parts"},    {"unoptimized parts"}, {"dynamic parts"}};
  for (size_t i = 0; i < ways.size(); ++i) {
    ways[i].options.optimize = i % 3 != 1;
    if (i % 3 == 2) ways[i].options.executor = TENON_EXECUTOR_DYNAMIC;
    ways[i].options.debug.partition = i >= 3;
    ways[i].options.debug.early_transfers = i % 3 == 1;
    ways[i].options.compile = type == "TPU";  // a GPU's chains are compiled for longer than all graphs take
    if (i % 2 == 0) ways[i].places = {last, "", type + ":0"};
  }
  return ways;
}

std::string AnyTpu(uint32_t draw) {
  static const char* const devices[] = {"/device:CPU:0", "/device:TPU:0", "/device:TPU:1", "/device:TPU:*"};
  return devices[draw % 4];
}
std::string AnyGpu(uint32_t draw) {
  static const char* const devices[] = {"/device:CPU:0", "/device:GPU:0",
                                        HasTwoGpus() ? "/device:GPU:1" : "/device:GPU:0", "/device:GPU:*"};
  return devices[draw % 4];
}

void Check(const std::string& type, uint32_t count, int depth) {
  if (const std::string why = device_test::WhyNoGpu(); type == "GPU" && !why.empty()) GTEST_SKIP() << why;
  int wrong = 0;
  for (uint32_t seed = First(); seed < First() + count && wrong < 5; ++seed) {
    ProgramOptions options;
    options.steps = 5 + static_cast<int>(seed % (depth == 0 ? 40 : 13));
    options.depth = depth == 0 ? 0 : 1 + static_cast<int>(seed % 3);
    Runtime& runtime = type == "TPU" ? RuntimeOf(seed % 4 == 3) : Gpus();
    const std::string why = RandomGraph(runtime, seed, options, type == "TPU" ? AnyTpu : AnyGpu).Check(WaysOf(type));
    if (!why.empty()) ADD_FAILURE() << why;
    wrong += !why.empty();
  }
}

TEST(RandomPlacement, WithoutControlFlowGivesTheSameValues) { Check("TPU", Graphs(), 0); }
TEST(RandomPlacement, OfLoopsAndConditionalsGivesTheSameValues) { Check("TPU", Graphs(), 1); }
TEST(RandomPlacement, OnGpusWithoutControlFlowGivesTheSameValues) { Check("GPU", Graphs() / 2, 0); }
TEST(RandomPlacement, OnGpusOfLoopsAndConditionalsGivesTheSameValues) { Check("GPU", Graphs() / 2, 1); }

}  // namespace
}  // namespace tenon::engine::random_placement_test
