// SPDX-License-Identifier: Apache-2.0
// Random graphs give one answer: in straight code, unoptimized, in the dynamic executor and under any order in which it
// may run nodes; and the answer is what the graph means, calculated directly. Covers A4, A12, F1, F2, F8, L1 to L6.
//
// It takes long by the number of its graphs, each of which is made ready for five sessions.
#include "tests/engine/random_graph.h"

#include "tests/fakes/whole.h"

namespace tenon::engine::random_graph_test {
namespace {

const uint32_t kDags = fakes::IsWhole() ? 10000 : 2000;
const uint32_t kControlFlowGraphs = fakes::IsWhole() ? 1000 : 200;
constexpr int kOrders = 20;

// Of a program with control flow. Where there are few, large ones find what many small ones do.
int StepsOf(uint32_t seed) { return static_cast<int>(fakes::IsWhole() ? 4 + seed % 19 : 10 + seed % 13); }

std::vector<Way> WaysOf(uint32_t seed) {
  std::vector<Way> ways = {{"straight", {}}, {"unoptimized", {}}, {"dynamic", {}}, {"dynamic, unoptimized", {}}};
  ways[1].options.optimize = ways[3].options.optimize = false;
  ways[2].options.executor = ways[3].options.executor = TENON_EXECUTOR_DYNAMIC;
  // One session: its first step with a feeding has the first order of the seed, and each step another.
  Way& ordered = ways.emplace_back(ways[2]);
  ordered.options.debug.schedule_seed = seed + 1;
  ordered.steps = kOrders;
  ordered.name += ", orders of " + std::to_string(ordered.options.debug.schedule_seed);
  return ways;
}

TEST(RandomGraph, WithoutControlFlowGivesOneAnswerInEveryWay) {
  int wrong = 0;
  for (uint32_t seed = 0; seed < kDags && wrong < 5; ++seed) {
    ProgramOptions options;
    options.steps = 5 + static_cast<int>(seed % 40);
    options.smooth = seed % 4 == 0;
    const std::string why = RandomGraph(TheRuntime(), seed, options).Check(WaysOf(seed));
    if (!why.empty()) ADD_FAILURE() << why;
    wrong += !why.empty();
  }
}

TEST(RandomGraph, OfLoopsAndConditionalsGivesOneAnswerInEveryWay) {
  int wrong = 0;
  for (uint32_t seed = 0; seed < kControlFlowGraphs && wrong < 5; ++seed) {
    ProgramOptions options;
    options.steps = StepsOf(seed);
    options.depth = 1 + static_cast<int>(seed % 3);
    const std::string why = RandomGraph(TheRuntime(), seed, options).Check(WaysOf(seed));
    if (!why.empty()) ADD_FAILURE() << why;
    wrong += !why.empty();
  }
}

}  // namespace
}  // namespace tenon::engine::random_graph_test
